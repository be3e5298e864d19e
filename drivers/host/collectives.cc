#include "drivers/host/collectives.h"

#include <cinttypes>
#include <new>

namespace rondo::host {

CollectiveStream::~CollectiveStream() {
  if (!running_) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  hooks_.join(hooks_.user, thread_);
}

Status CollectiveStream::Start(const ThreadHooks& hooks) {
  if (running_) return Status::Ok();
  hooks_ = hooks;
  const int error = hooks_.start(hooks_.user, Main, this, &thread_);
  if (error != 0) {
    return Status::Error(Code::kOutOfMemory,
                         "host device: the thread of its collectives could not be started (error %d)", error);
  }
  running_ = true;
  return Status::Ok();
}

void CollectiveStream::Push(Posting* posting) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    posting->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = posting;
    last_ = posting;
  }
  wake_.notify_one();
}

// Removes the first posting from the queue or, on request, a random one that is the first of its
// communicator.
Posting* CollectiveStream::Pop() {
  Posting* before = nullptr;
  if (faults_.reorder()) {
    uint64_t choices = 0;
    Posting* previous = nullptr;
    for (Posting* p = first_; p != nullptr; previous = p, p = p->next) {
      bool first_of_its = true;
      for (Posting* q = first_; q != p && first_of_its; q = q->next) {
        first_of_its = q->owner != p->owner || q->part.point->communicator != p->part.point->communicator;
      }
      if (first_of_its && faults_.Random() % ++choices == 0) before = previous;
    }
  }
  Posting*& link = before == nullptr ? first_ : before->next;
  Posting* posting = link;
  link = posting->next;
  if (last_ == posting) last_ = before;
  return posting;
}

void* CollectiveStream::Main(void* stream) {
  static_cast<CollectiveStream*>(stream)->Serve();
  return nullptr;
}

void CollectiveStream::Serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    while (first_ == nullptr && !stop_) wake_.wait(lock);
    if (first_ == nullptr) return;
    Posting* posting = Pop();
    lock.unlock();
    posting->owner->Arrive(posting, faults_);  // its owner may be destroyed from here on
    lock.lock();
  }
}

namespace {

constexpr const char* kUnknown = "an unknown op";

const char* OpName(const SyncPoint& point) {
  return point.op > kLastCollectiveOp ? kUnknown : Name(point.op);
}

bool Same(const SyncPoint& a, const SyncPoint& b) {
  if (a.op != b.op || a.dtype != b.dtype || a.bytes != b.bytes ||
      a.participants.size() != b.participants.size()) {
    return false;
  }
  for (size_t i = 0; i < a.participants.size(); ++i) {
    if (a.participants[i] != b.participants[i]) return false;
  }
  return true;
}

Status Mismatch(const CollectivePart& a, const CollectivePart& b) {
  return Status::Error(Code::kInternal,
                       "rank %u starts sync point %u (%s of %" PRIu64
                       " bytes of %s), but rank %u, which it meets, sync point %u (%s of %" PRIu64
                       " bytes of %s)",
                       b.rank, b.sync_point, OpName(*b.point), b.point->bytes, Name(b.point->dtype), a.rank,
                       a.sync_point, OpName(*a.point), a.point->bytes, Name(a.point->dtype));
}

Status Aborted(const CollectivePart& part) {
  return Status::Error(Code::kAborted, "rank %u: sync point %u was aborted", part.rank, part.sync_point);
}

template <typename T>
bool Make(std::unique_ptr<T[]>* array, size_t count) {
  array->reset(new (std::nothrow) T[count]());
  return *array != nullptr;
}

}  // namespace

HostCollectives* HostCollectives::Create(const rondo::Program& program, const Engine& engine,
                                         ThreadPool& pool, std::unique_ptr<RemoteExchange> remote) {
  auto* made = new (std::nothrow) HostCollectives(program, engine, pool, std::move(remote));
  if (made != nullptr && !made->Allocate()) {
    delete made;
    return nullptr;
  }
  return made;
}

HostCollectives::~HostCollectives() {
  std::unique_lock<std::mutex> lock(mutex_);
  WaitUntilQuiet(&lock);
}

bool HostCollectives::Allocate() {
  const size_t count = program_.sync_points.size();
  if (!Make(&communicators_, count) || !Make(&first_ticket_, count) || !Make(&slots_, count)) return false;
  for (size_t i = 0; i < count; ++i) {
    const SyncPoint& point = program_.sync_points[i];
    Communicator& c = communicators_[point.communicator];
    c.ranks = static_cast<uint32_t>(point.participants.size());
    ++c.slots;
    first_ticket_[i] = num_postings_;
    num_postings_ += c.ranks;
    for (uint32_t device : point.participants) {
      if (device >= num_devices_) num_devices_ = device + 1;
    }
  }
  uint32_t postings = 0;
  for (size_t i = 0; i < count; ++i) {
    Communicator& c = communicators_[i];
    c.first_slot = num_slots_;
    c.first_rank = num_ranks_;
    c.first_posting = postings;
    num_slots_ += c.slots;
    num_ranks_ += c.ranks;
    postings += c.slots * c.ranks;
  }
  return Make(&postings_, num_postings_) && Make(&memory_, num_postings_) && Make(&tickets_, num_postings_) &&
         Make(&started_, num_ranks_) && Make(&noted_, num_devices_);
}

// Gives this rank's place in the next slot of its communicator.
Status HostCollectives::Enter(const CollectivePart& part, Posting** posting) {
  const size_t count = program_.sync_points.size();
  const uint32_t communicator = part.point->communicator;
  if (part.sync_point >= count || communicator >= count || part.rank >= communicators_[communicator].ranks ||
      part.point->participants.size() != communicators_[communicator].ranks ||
      part.rank >= program_.sync_points[part.sync_point].participants.size()) {
    return Status::Error(Code::kInvalidArgument,
                         "rank %u of communicator %u has no part in sync point %u of %zu", part.rank,
                         communicator, part.sync_point, count);
  }
  const Communicator& c = communicators_[communicator];
  const uint32_t order = started_[c.first_rank + part.rank];
  if (order == c.slots) {
    return Status::Error(Code::kInternal,
                         "rank %u starts sync point %u, but all %u collectives of communicator %u "
                         "have been started in this run",
                         part.rank, part.sync_point, c.slots, communicator);
  }
  const uint32_t index = c.first_posting + order * c.ranks + part.rank;
  ++started_[c.first_rank + part.rank];
  *posting = &postings_[index];
  (*posting)->slot = c.first_slot + order;
  *Ticket(part) = *posting;
  return Status::Ok();
}

Posting** HostCollectives::Ticket(const CollectivePart& part) {
  return &tickets_[first_ticket_[part.sync_point] + part.rank];
}

Status HostCollectives::Start(const CollectivePart& part, const RankMemory& memory,
                              CollectiveStream* stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_) return Aborted(part);
  Posting* posting = nullptr;
  RONDO_RETURN_IF_ERROR(Enter(part, &posting));
  posting->owner = this;
  posting->part = part;
  posting->memory = memory;
  ++in_flight_;
  stream->Push(posting);
  return Status::Ok();
}

// Moves the data of a collective once all its ranks have arrived.
Status HostCollectives::Move(const Posting& last, uint32_t ranks) {
  if (remote_ != nullptr) return remote_->Run(last.part, last.memory);
  const size_t first = static_cast<size_t>(&last - postings_.get()) - last.part.rank;
  for (uint32_t r = 0; r < ranks; ++r) memory_[first + r] = postings_[first + r].memory;
  Exchange(*last.part.point, &memory_[first], engine_, pool_);
  return Status::Ok();
}

void HostCollectives::Arrive(Posting* posting, Faults& faults) {
  const Status failed = faults.Before(HostCall::kPostCollective, posting->part.step);
  std::unique_lock<std::mutex> lock(mutex_);
  Slot& slot = slots_[posting->slot];
  if (!failed.ok()) {
    posting->failed = failed.At("rank %u: sync point %u", posting->part.rank, posting->part.sync_point);
  } else if (!aborted_ && slot.error.ok()) {
    noted_[posting->part.point->participants[posting->part.rank]].started.fetch_add(1);
    if (slot.first == nullptr) slot.first = posting;
    if (!Same(*slot.first->part.point, *posting->part.point)) {
      slot.error = Mismatch(slot.first->part, posting->part);
    } else if (++slot.arrived == (remote_ != nullptr ? 1 : posting->part.point->participants.size())) {
      slot.moving = true;
      lock.unlock();
      Status moved = faults.Before(HostCall::kCompleteCollective, posting->part.step);
      if (moved.ok()) moved = Move(*posting, slot.arrived);
      lock.lock();
      slot.moving = false;
      slot.error = moved;
      slot.done = moved.ok();
      for (uint32_t r = 0; slot.done && r < posting->part.point->participants.size(); ++r) {
        noted_[posting->part.point->participants[r]].ended.fetch_add(1);
      }
    }
  }
  --in_flight_;
  changed_.notify_all();  // with the lock held: the thread that destroys this object waits for the lock
}

Status HostCollectives::Wait(const CollectivePart& part) {
  std::unique_lock<std::mutex> lock(mutex_);
  const Posting* posting = nullptr;
  if (part.sync_point < program_.sync_points.size() &&
      part.rank < program_.sync_points[part.sync_point].participants.size()) {
    posting = *Ticket(part);
  }
  if (posting == nullptr) {
    if (aborted_) return Aborted(part);
    return Status::Error(Code::kInternal, "rank %u waits for sync point %u, which it has not started",
                         part.rank, part.sync_point);
  }
  const Slot& slot = slots_[posting->slot];
  for (;;) {
    if (slot.done) return Status::Ok();
    if (!slot.error.ok()) return slot.error;
    if (!posting->failed.ok()) return posting->failed;
    if (aborted_ && !slot.moving) return Aborted(part);
    changed_.wait(lock);
  }
}

void HostCollectives::WaitUntilQuiet(std::unique_lock<std::mutex>* lock) {
  while (in_flight_ != 0) changed_.wait(*lock);
}

void HostCollectives::Begin() {
  std::unique_lock<std::mutex> lock(mutex_);
  WaitUntilQuiet(&lock);
  aborted_ = false;
  if (remote_ != nullptr) remote_->Begin();
  for (uint32_t i = 0; i < num_slots_; ++i) slots_[i] = Slot();
  for (uint32_t i = 0; i < num_postings_; ++i) postings_[i].failed = Status();
  for (uint32_t i = 0; i < num_postings_; ++i) tickets_[i] = nullptr;
  for (uint32_t i = 0; i < num_ranks_; ++i) started_[i] = 0;
  for (uint32_t i = 0; i < num_devices_; ++i) {
    noted_[i].started = 0;
    noted_[i].ended = 0;
  }
}

void HostCollectives::Abort(bool wait) {
  std::unique_lock<std::mutex> lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
  if (wait) WaitUntilQuiet(&lock);
}

CollectiveProgress HostCollectives::Progress(uint32_t device) const {
  CollectiveProgress progress;
  if (device >= num_devices_) return progress;
  progress.started = noted_[device].started.load();
  progress.ended = noted_[device].ended.load();
  return progress;
}

}  // namespace rondo::host
