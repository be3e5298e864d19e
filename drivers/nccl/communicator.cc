#include "drivers/nccl/communicator.h"

#include <sched.h>

#include <chrono>
#include <new>

#include "core/collective.h"
#include "core/stop.h"

namespace rondo::nccl {
namespace {

// The ncclDataType_t of a dtype that NCCL can add; kUint8 for all others.
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

constexpr Result_t kInvalidArgument = 4;  // ncclInvalidArgument

// Whether a call has not failed; it may still be in progress.
bool IsFine(Result_t result) { return result == kSuccess || result == kInProgress; }

bool CanAdd(DType dtype) { return dtype == DType::kU8 || TypeOf(dtype) != kUint8; }

}  // namespace

Result<UniqueId> MakeId(const Api& api) {
  UniqueId id;
  RONDO_RETURN_IF_ERROR(ToStatus(api, api.unique_id(&id), "ncclGetUniqueId"));
  return id;
}

Result<Communicator*> Communicator::Create(const Api& api, Span<const RankPlace> places, const UniqueId* id,
                                           uint64_t patience_ns, const ProcessHooks& hooks,
                                           const ThreadHooks& threads) {
  RONDO_RETURN_IF_ERROR(CheckGroup(api, places));
  std::unique_ptr<Communicator> made(new (std::nothrow) Communicator(api, hooks, threads));
  if (made != nullptr) {
    made->places_.reset(new (std::nothrow) RankPlace[places.size()]);
    made->ranks_.reset(new (std::nothrow) Rank[places.size()]);
  }
  if (made == nullptr || made->places_ == nullptr || made->ranks_ == nullptr)
    return Status::Error(Code::kOutOfMemory, "no host memory for a communicator of %zu ranks", places.size());
  made->num_ranks_ = places.size();
  for (uint32_t i = 0; i < places.size(); ++i) {
    made->places_[i] = places[i];
    made->ranks_[i].owner = made.get();
    made->ranks_[i].number = i;
  }
  Status status = made->StartThreads();
  if (status.ok()) status = made->Connect(id, patience_ns);
  if (!status.ok()) return status.At("a communicator of %zu ranks", places.size());
  return made.release();
}

Status Communicator::StartThreads() {
  for (size_t i = 0; i < num_ranks_; ++i) {
    if (!IsHere(i)) continue;
    Rank& rank = ranks_[i];
    const int error = threads_.start(threads_.user, EndRank, &rank, &rank.thread);
    if (error != 0) {
      return Status::Error(Code::kOutOfMemory,
                           "the thread that ends rank %zu could not be started (error %d)", i, error);
    }
    rank.started = true;
  }
  return Status::Ok();
}

Status Communicator::Connect(const UniqueId* given, uint64_t patience_ns) {
  UniqueId id;
  if (given != nullptr) {
    id = *given;
  } else {
    RONDO_ASSIGN_OR_RETURN(id, MakeId(api_));
  }
  Config config = ConfigOf(places());
  RONDO_RETURN_IF_ERROR(ToStatus(api_, api_.group_start(), "ncclGroupStart"));
  Status status;
  for (size_t rank = 0; rank < num_ranks_ && status.ok(); ++rank) {
    if (!IsHere(rank)) continue;
    hooks_.enter(hooks_.user, places_[rank].device);
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
    if (!IsHere(rank)) continue;
    RONDO_RETURN_IF_ERROR(Settle(rank, kInProgress, "connecting with NCCL", patience_ns).At("rank %u", rank));
  }
  return Status::Ok();
}

Status Communicator::Settle(uint32_t rank, Result_t result, const char* call, uint64_t patience_ns) {
  const uint64_t began = patience_ns == 0 ? 0 : MonotonicNanoseconds();
  constexpr uint32_t kLooksAtOthers = 256;
  for (uint32_t looks = 1; result == kInProgress; ++looks) {
    if (hooks_.others != nullptr && looks % kLooksAtOthers == 0) {
      RONDO_RETURN_IF_ERROR(hooks_.others(hooks_.user));
    }
    if (patience_ns != 0 && MonotonicNanoseconds() - began > patience_ns) {
      return Status::Error(Code::kInternal, "%s has not come to an end within %g s", call,
                           static_cast<double>(patience_ns) / 1e9);
    }
    if (aborted()) return Status::Error(Code::kAborted, "%s: the communicator was aborted", call);
    Result_t asked = api_.state(ranks_[rank].comm, &result);
    if (asked != kSuccess) result = asked;
    if (result == kInProgress) sched_yield();
  }
  return ToStatus(api_, result, call, ranks_[rank].comm);
}

Status Communicator::CheckAdds(const SyncPoint& point) const {
  if (FactsOf(point.op).adds && !CanAdd(point.dtype)) {
    return Status::Error(Code::kUnsupported, "NCCL has no %s of %s", Name(point.op), Name(point.dtype));
  }
  if (aborted()) return Status::Error(Code::kAborted, "the communicator was aborted");
  return Status::Ok();
}

Result_t Communicator::Call(uint32_t rank, const SyncPoint& point, const Share& share, const char** name) {
  const int type = TypeOf(point.dtype);
  const auto bytes = static_cast<size_t>(CanAdd(point.dtype) ? ByteSize(point.dtype) : 1);
  const size_t count = static_cast<size_t>(point.bytes) / bytes;
  Comm comm = ranks_[rank].comm;
  const auto& [from, to, stream] = share;
  switch (point.op) {
    case CollectiveOp::kAllReduce:
      *name = "ncclAllReduce";
      return api_.all_reduce(from, to, count, type, kSum, comm, stream);
    case CollectiveOp::kAllGather:
      *name = "ncclAllGather";
      return api_.all_gather(from, to, count, type, comm, stream);
    case CollectiveOp::kReduceScatter:
      *name = "ncclReduceScatter";
      return api_.reduce_scatter(from, to, count, type, kSum, comm, stream);
    case CollectiveOp::kBroadcast:
      *name = "ncclBroadcast";
      return api_.broadcast(from, to, count, type, 0, comm, stream);
    case CollectiveOp::kSend:
      *name = rank == 0 ? "ncclSend" : "ncclRecv";
      return rank == 0 ? api_.send(from, count, type, 1, comm, stream)
                       : api_.receive(to, count, type, 0, comm, stream);
    case CollectiveOp::kAllToAll: return CallAllToAll(rank, share, count / num_ranks_, type, bytes, name);
  }
  *name = "a collective that is unknown";
  return kInvalidArgument;
}

Result_t Communicator::CallAllToAll(uint32_t rank, const Share& share, size_t count, int type, size_t bytes,
                                    const char** name) {
  Comm comm = ranks_[rank].comm;
  const char* from = static_cast<const char*>(share.from);
  char* to = static_cast<char*>(share.to);
  *name = "ncclGroupStart";
  Result_t result = api_.group_start();
  if (result != kSuccess) return result;
  for (size_t peer = 0; peer < num_ranks_ && IsFine(result); ++peer) {
    const size_t part = peer * count * bytes;
    const int number = static_cast<int>(peer);
    *name = "ncclSend";
    result = api_.send(from + part, count, type, number, comm, share.stream);
    if (!IsFine(result)) break;
    *name = "ncclRecv";
    result = api_.receive(to + part, count, type, number, comm, share.stream);
  }
  const Result_t ended = api_.group_end();
  if (!IsFine(result)) return result;
  *name = "ncclGroupEnd";
  return ended;
}

Status Communicator::Enqueue(uint32_t rank, const SyncPoint& point, const void* from, void* to,
                             Stream stream) {
  RONDO_RETURN_IF_ERROR(CheckAdds(point));
  const Calling calling(this);
  RONDO_RETURN_IF_ERROR(calling.status());
  const char* name = "";
  const Result_t result = Call(rank, point, {from, to, stream}, &name);
  return Settle(rank, result, name);
}

Status Communicator::EnqueueAll(const SyncPoint& point, Span<const Share> shares) {
  RONDO_RETURN_IF_ERROR(CheckAdds(point));
  const Calling calling(this);
  RONDO_RETURN_IF_ERROR(calling.status());
  RONDO_RETURN_IF_ERROR(ToStatus(api_, api_.group_start(), "ncclGroupStart"));
  Status status;
  for (uint32_t rank = 0; rank < num_ranks_ && status.ok(); ++rank) {
    const char* name = "";
    hooks_.enter(hooks_.user, places_[rank].device);
    const Result_t result = Call(rank, point, shares[rank], &name);
    hooks_.leave(hooks_.user);
    if (!IsFine(result)) status = ToStatus(api_, result, name, ranks_[rank].comm);
  }
  const Result_t ended = api_.group_end();
  RONDO_RETURN_IF_ERROR(status);
  if (!IsFine(ended)) return ToStatus(api_, ended, "ncclGroupEnd", ranks_[0].comm);
  for (uint32_t rank = 0; rank < num_ranks_; ++rank) {
    RONDO_RETURN_IF_ERROR(Settle(rank, kInProgress, "ncclGroupEnd").At("rank %u", rank));
  }
  return Status::Ok();
}

Communicator::Calling::Calling(Communicator* owner) : owner_(owner) {
  std::lock_guard<std::mutex> lock(owner_->mutex_);
  entered_ = owner_->end_ == nullptr && !owner_->aborted();
  owner_->calling_ += entered_;
}

Communicator::Calling::~Calling() {
  if (!entered_) return;
  std::lock_guard<std::mutex> lock(owner_->mutex_);
  if (--owner_->calling_ == 0) owner_->ends_.notify_all();
}

Status Communicator::Calling::status() const {
  return entered_ ? Status::Ok() : Status::Error(Code::kAborted, "the communicator was aborted");
}

void* Communicator::EndRank(void* rank) {
  const Rank& self = *static_cast<const Rank*>(rank);
  Communicator& owner = *self.owner;
  Result_t (*end)(Comm comm) = nullptr;
  {
    std::unique_lock<std::mutex> lock(owner.mutex_);
    while (owner.end_ == nullptr) owner.ends_.wait(lock);
    end = owner.end_;
    // Threads in calls notice at once that the ranks end. The abort is for a thread that NCCL does not
    // release.
    owner.ends_.wait_for(lock, std::chrono::seconds(1), [&] { return owner.calling_ == 0; });
  }
  if (self.comm == nullptr) return nullptr;
  owner.hooks_.enter(owner.hooks_.user, owner.places_[self.number].device);
  end(self.comm);
  owner.hooks_.leave(owner.hooks_.user);
  return nullptr;
}

void Communicator::End(Result_t (*end)(Comm comm)) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (end_ == nullptr) end_ = end;
  ends_.notify_all();
}

void Communicator::Abort() {
  aborted_.store(true, std::memory_order_release);
  End(api_.abort);
}

Communicator::~Communicator() {
  // Also after a failed connection, whose ranks only an abort can end.
  bool connected = !aborted();
  for (size_t rank = 0; connected && rank < num_ranks_; ++rank) {
    if (!IsHere(rank)) continue;
    Result_t state = kInProgress;
    Comm comm = ranks_[rank].comm;
    connected = comm != nullptr && api_.state(comm, &state) == kSuccess && state == kSuccess;
  }
  End(connected ? api_.destroy : api_.abort);
  for (size_t i = 0; i < num_ranks_; ++i) {
    if (ranks_[i].started) threads_.join(threads_.user, ranks_[i].thread);
  }
}

}  // namespace rondo::nccl
