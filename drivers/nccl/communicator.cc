#include "drivers/nccl/communicator.h"

#include <sched.h>

#include <cstdlib>
#include <memory>

namespace rondo::nccl {
namespace {

constexpr int kSum = 0;   // ncclSum
constexpr int kByte = 1;  // ncclUint8

// ncclDataType_t of a dtype whose elements NCCL can add; kByte for all others.
int TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kI8: return 0;
    case DType::kU8: return 1;
    case DType::kI32: return 2;
    case DType::kU32: return 3;
    case DType::kI64: return 4;
    case DType::kU64: return 5;
    case DType::kF16: return 6;
    case DType::kF32: return 7;
    case DType::kF64: return 8;
    case DType::kBF16: return 9;
    default: return kByte;
  }
}

bool CanAdd(DType dtype) { return dtype == DType::kU8 || TypeOf(dtype) != kByte; }

}  // namespace

Result<Communicator*> Communicator::Create(const Api& api, Span<const uint32_t> devices,
                                           const ContextHooks& hooks) {
  // Multicast over NVLink hangs on some machines; the environment may say otherwise.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  std::unique_ptr<Communicator> made(new Communicator(api, hooks));
  made->devices_.assign(devices.begin(), devices.end());
  made->comms_.assign(devices.size(), nullptr);
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
  for (size_t rank = 0; rank < devices_.size() && status.ok(); ++rank) {
    hooks_.enter(hooks_.user, devices_[rank]);
    status = ToStatus(
        api_,
        api_.init_rank(&comms_[rank], static_cast<int>(devices_.size()), id, static_cast<int>(rank), &config),
        "ncclCommInitRankConfig");
    hooks_.leave(hooks_.user);
  }
  Status ended = ToStatus(api_, api_.group_end(), "ncclGroupEnd");
  RONDO_RETURN_IF_ERROR(status);
  RONDO_RETURN_IF_ERROR(ended);
  for (uint32_t rank = 0; rank < comms_.size(); ++rank) {
    RONDO_RETURN_IF_ERROR(Settle(rank, kInProgress, "connecting").At("rank %u", rank));
  }
  return Status::Ok();
}

Status Communicator::Settle(uint32_t rank, Result_t result, const char* call) {
  while (result == kInProgress) {
    if (aborted()) return Status::Error(Code::kAborted, "%s: the communicator was aborted", call);
    Result_t asked = api_.state(comms_[rank], &result);
    if (asked != kSuccess) result = asked;
    if (result == kInProgress) sched_yield();
  }
  return ToStatus(api_, result, call, comms_[rank]);
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
  Comm comm = comms_[rank];
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
  }
  return Status::Error(Code::kInternal, "collective %d is unknown", static_cast<int>(point.op));
}

void Communicator::Abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_.exchange(true, std::memory_order_acq_rel)) return;
  for (size_t rank = 0; rank < comms_.size(); ++rank) {
    if (comms_[rank] == nullptr) continue;
    aborters_.emplace_back([this, rank] {
      hooks_.enter(hooks_.user, devices_[rank]);
      api_.abort(comms_[rank]);
      hooks_.leave(hooks_.user);
    });
  }
}

Communicator::~Communicator() {
  // Also after a failed connection, whose ranks only an abort ends.
  bool connected = !aborted();
  for (uint32_t rank = 0; connected && rank < comms_.size(); ++rank) {
    Result_t state = kInProgress;
    connected = comms_[rank] != nullptr && api_.state(comms_[rank], &state) == kSuccess && state == kSuccess;
  }
  if (!connected) {
    Abort();
    for (std::thread& aborter : aborters_) aborter.join();
    return;
  }
  std::vector<std::thread> destroyers;  // a rank may wait for the others
  for (size_t rank = 0; rank < comms_.size(); ++rank) {
    destroyers.emplace_back([this, rank] {
      hooks_.enter(hooks_.user, devices_[rank]);
      api_.destroy(comms_[rank]);
      hooks_.leave(hooks_.user);
    });
  }
  for (std::thread& destroyer : destroyers) destroyer.join();
}

}  // namespace rondo::nccl
