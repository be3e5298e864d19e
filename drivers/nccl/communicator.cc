#include "drivers/nccl/communicator.h"

#include <sched.h>

#include <cstdlib>
#include <new>

namespace rondo::nccl {
namespace {

// ncclDataType_t of a dtype whose elements NCCL can add; kUint8 for all others.
int TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kI8: return kInt8;
    case DType::kI32: return kInt32;
    case DType::kU32: return kUint32;
    case DType::kI64: return kInt64;
    case DType::kU64: return kUint64;
    case DType::kF16: return kFloat16;
    case DType::kF32: return kFloat32;
    case DType::kF64: return kFloat64;
    case DType::kBF16: return kBfloat16;
    default: return kUint8;
  }
}

// NCCL uses multicast over NVLink where it can, which hangs some machines. Its configuration has no field for
// it, and the environment is the program's, not a library's: the program says what it wants there.
Status AskedAboutMulticast(size_t devices) {
  if (devices < 2 || std::getenv("NCCL_NVLS_ENABLE") != nullptr) return Status::Ok();
  return Status::Error(
      Code::kFailedPrecondition,
      "NCCL_NVLS_ENABLE is not in the environment: a program that has %zu GPUs work together sets it "
      "to 0 (no multicast over NVLink, which hangs some machines) or to 1",
      devices);
}

bool CanAdd(DType dtype) { return dtype == DType::kU8 || TypeOf(dtype) != kUint8; }

}  // namespace

Result<Communicator*> Communicator::Create(const Api& api, Span<const uint32_t> devices,
                                           const ContextHooks& hooks, const ThreadHooks& threads) {
  RONDO_RETURN_IF_ERROR(AskedAboutMulticast(devices.size()));
  std::unique_ptr<Communicator> made(new (std::nothrow) Communicator(api, hooks, threads));
  if (made != nullptr) {
    made->devices_.reset(new (std::nothrow) uint32_t[devices.size()]);
    made->ranks_.reset(new (std::nothrow) Rank[devices.size()]);
  }
  if (made == nullptr || made->devices_ == nullptr || made->ranks_ == nullptr)
    return Status::Error(Code::kOutOfMemory, "no host memory for a communicator of %zu devices",
                         devices.size());
  made->num_ranks_ = devices.size();
  for (uint32_t i = 0; i < devices.size(); ++i) {
    made->devices_[i] = devices[i];
    made->ranks_[i].owner = made.get();
    made->ranks_[i].number = i;
  }
  Status status = made->Connect();
  if (!status.ok()) return status.At("a communicator of %zu devices", devices.size());
  return made.release();
}

Status Communicator::Connect() {
  UniqueId id;
  RONDO_RETURN_IF_ERROR(ToStatus(api_, api_.unique_id(&id), "ncclGetUniqueId"));
  Config config;
  RONDO_RETURN_IF_ERROR(ToStatus(api_, api_.group_start(), "ncclGroupStart"));
  Status status;
  for (size_t rank = 0; rank < num_ranks_ && status.ok(); ++rank) {
    hooks_.enter(hooks_.user, devices_[rank]);
    status = ToStatus(
        api_,
        api_.init_rank(&ranks_[rank].comm, static_cast<int>(num_ranks_), id, static_cast<int>(rank), &config),
        "ncclCommInitRankConfig");
    hooks_.leave(hooks_.user);
  }
  Status ended = ToStatus(api_, api_.group_end(), "ncclGroupEnd");
  RONDO_RETURN_IF_ERROR(status);
  RONDO_RETURN_IF_ERROR(ended);
  for (uint32_t rank = 0; rank < num_ranks_; ++rank) {
    RONDO_RETURN_IF_ERROR(Settle(rank, kInProgress, "connecting").At("rank %u", rank));
  }
  return Status::Ok();
}

Status Communicator::Settle(uint32_t rank, Result_t result, const char* call) {
  while (result == kInProgress) {
    if (aborted()) return Status::Error(Code::kAborted, "%s: the communicator was aborted", call);
    Result_t asked = api_.state(ranks_[rank].comm, &result);
    if (asked != kSuccess) result = asked;
    if (result == kInProgress) sched_yield();
  }
  return ToStatus(api_, result, call, ranks_[rank].comm);
}

Status Communicator::Enqueue(uint32_t rank, const SyncPoint& point, const void* from, void* to,
                             Stream stream) {
  const bool adds = point.op == CollectiveOp::kAllReduce || point.op == CollectiveOp::kReduceScatter;
  if (adds && !CanAdd(point.dtype)) {
    return Status::Error(Code::kUnsupported, "NCCL has no %s of %s", Name(point.op), Name(point.dtype));
  }
  if (aborted()) return Status::Error(Code::kAborted, "the communicator was aborted");
  const int type = TypeOf(point.dtype);
  const auto bytes = static_cast<size_t>(CanAdd(point.dtype) ? ByteSize(point.dtype) : 1);
  const size_t count = static_cast<size_t>(point.bytes) / bytes;
  Comm comm = ranks_[rank].comm;
  switch (point.op) {
    case CollectiveOp::kAllReduce:
      return Settle(rank, api_.all_reduce(from, to, count, type, kSum, comm, stream), "ncclAllReduce");
    case CollectiveOp::kAllGather:
      return Settle(rank, api_.all_gather(from, to, count, type, comm, stream), "ncclAllGather");
    case CollectiveOp::kReduceScatter:
      return Settle(rank, api_.reduce_scatter(from, to, count, type, kSum, comm, stream),
                    "ncclReduceScatter");
    case CollectiveOp::kBroadcast:
      return Settle(rank, api_.broadcast(from, to, count, type, 0, comm, stream), "ncclBroadcast");
    case CollectiveOp::kSend:
      if (rank == 0) return Settle(rank, api_.send(from, count, type, 1, comm, stream), "ncclSend");
      return Settle(rank, api_.receive(to, count, type, 0, comm, stream), "ncclRecv");
    case CollectiveOp::kAllToAll:
      return EnqueueAllToAll(rank, static_cast<const char*>(from), static_cast<char*>(to), count / num_ranks_,
                             type, bytes, stream);
  }
  return Status::Error(Code::kInternal, "collective %d is unknown", static_cast<int>(point.op));
}

Status Communicator::EnqueueAllToAll(uint32_t rank, const char* from, char* to, size_t count, int type,
                                     size_t bytes, Stream stream) {
  Comm comm = ranks_[rank].comm;
  RONDO_RETURN_IF_ERROR(ToStatus(api_, api_.group_start(), "ncclGroupStart"));
  Status status;
  for (size_t peer = 0; peer < num_ranks_ && status.ok(); ++peer) {
    const size_t part = peer * count * bytes;
    const int number = static_cast<int>(peer);
    status = ToStatus(api_, api_.send(from + part, count, type, number, comm, stream), "ncclSend", comm);
    if (!status.ok()) break;
    status = ToStatus(api_, api_.receive(to + part, count, type, number, comm, stream), "ncclRecv", comm);
  }
  const Status ended = Settle(rank, api_.group_end(), "ncclGroupEnd");
  return status.ok() ? ended : status;
}

void* Communicator::End(void* rank) {
  const Rank& self = *static_cast<const Rank*>(rank);
  const ContextHooks& hooks = self.owner->hooks_;
  hooks.enter(hooks.user, self.owner->devices_[self.number]);
  self.end(self.comm);
  hooks.leave(hooks.user);
  return nullptr;
}

void Communicator::EndAll(Result_t (*end)(Comm comm)) {
  for (size_t i = 0; i < num_ranks_; ++i) {
    Rank& rank = ranks_[i];
    if (rank.comm == nullptr) continue;
    rank.end = end;
    rank.started = threads_.start(threads_.user, End, &rank, &rank.thread) == 0;
  }
  for (size_t i = 0; i < num_ranks_; ++i) {
    if (ranks_[i].comm != nullptr && !ranks_[i].started) End(&ranks_[i]);
  }
}

void Communicator::JoinAll() {
  for (size_t i = 0; i < num_ranks_; ++i) {
    if (ranks_[i].started) threads_.join(threads_.user, ranks_[i].thread);
  }
}

void Communicator::Abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!aborted_.exchange(true, std::memory_order_acq_rel)) EndAll(api_.abort);
}

Communicator::~Communicator() {
  // Also after a failed connection, whose ranks only an abort ends.
  bool connected = !aborted();
  for (size_t rank = 0; connected && rank < num_ranks_; ++rank) {
    Result_t state = kInProgress;
    Comm comm = ranks_[rank].comm;
    connected = comm != nullptr && api_.state(comm, &state) == kSuccess && state == kSuccess;
  }
  if (connected) {
    EndAll(api_.destroy);
  } else {
    Abort();
  }
  JoinAll();
}

}  // namespace rondo::nccl
