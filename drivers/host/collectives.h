// Collectives between virtual devices, or between devices of several processes: where ranks meet, and the
// thread of each device that brings its ranks there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/driver.h"
#include "drivers/host/exchange.h"
#include "drivers/host/faults.h"
#include "drivers/host/remote_exchange.h"

namespace rondo::host {

class HostCollectives;

// One rank's part in one collective of a run: its memory, and its link in its device's queue.
struct Posting {
  HostCollectives* owner = nullptr;
  uint32_t slot = 0;
  CollectivePart part;
  RankMemory memory;
  Posting* next = nullptr;
  Status failed;  // of this rank alone
};

// A device's collective stream: a thread that brings postings to the other ranks'. It never waits for them
// (the last rank to come moves the data), so no order of postings can block it. Ranks of other processes are
// an exception, but they all start the same collectives in the same order.
class CollectiveStream {
 public:
  explicit CollectiveStream(Faults& faults) : faults_(faults) {}
  CollectiveStream(const CollectiveStream&) = delete;
  CollectiveStream& operator=(const CollectiveStream&) = delete;
  // Ends the thread. The queue must be empty.
  ~CollectiveStream();

  // Starts the thread unless it is running. Must not be called by two threads at once.
  Status Start(const ThreadHooks& hooks);
  bool running() const { return running_; }
  // Allocates nothing. The stream must be running.
  void Push(Posting* posting);

 private:
  static void* Main(void* stream);
  void Serve();
  Posting* Pop();

  Faults& faults_;
  ThreadHooks hooks_;
  void* thread_ = nullptr;
  bool running_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Posting* first_ = nullptr;
  Posting* last_ = nullptr;
  bool stop_ = false;
};

// The collectives of one program of one session. The n-th start of a communicator by each of its ranks in a
// run meets the others in the communicator's n-th slot. Any thread may call; calls for one rank must come
// from one thread at a time.
class HostCollectives {
 public:
  // Null when out of memory. With `remote`, which it takes over, the ranks are in several processes, one of
  // them here.
  static HostCollectives* Create(const rondo::Program& program, const Engine& engine, ThreadPool& pool,
                                 std::unique_ptr<RemoteExchange> remote);
  // Waits until no collective is in flight.
  ~HostCollectives();

  // Appends this rank's part to the queue of `stream`.
  Status Start(const CollectivePart& part, const RankMemory& memory, CollectiveStream* stream);
  // Blocks until the rank's collective for this sync point has ended, and returns its result.
  Status Wait(const CollectivePart& part);
  void Begin();
  // If `wait`, returns when no data moves any more.
  void Abort(bool wait);
  // For the program's device `device`; from any thread.
  CollectiveProgress Progress(uint32_t device) const;

  // Called on a collective stream: the rank joins the others.
  void Arrive(Posting* posting, Faults& faults);

 private:
  struct Slot {
    Posting* first = nullptr;  // postings that have arrived
    uint32_t arrived = 0;
    bool moving = false;  // the last rank is moving the data
    bool done = false;
    Status error;  // of all ranks
  };
  struct Communicator {
    uint32_t ranks = 0;
    uint32_t slots = 0, first_slot = 0;
    uint32_t first_rank = 0;     // of its ranks in started_
    uint32_t first_posting = 0;  // ranks a slot
  };

  HostCollectives(const rondo::Program& program, const Engine& engine, ThreadPool& pool,
                  std::unique_ptr<RemoteExchange> remote)
      : program_(program), engine_(engine), pool_(pool), remote_(std::move(remote)) {}
  // The progress notes of one device.
  struct Noted {
    std::atomic<uint32_t> started{0}, ended{0};
  };

  bool Allocate();
  Status Enter(const CollectivePart& part, Posting** posting);
  Posting** Ticket(const CollectivePart& part);
  void WaitUntilQuiet(std::unique_lock<std::mutex>* lock);
  Status Move(const Posting& last, uint32_t ranks);

  const rondo::Program& program_;
  const Engine& engine_;
  ThreadPool& pool_;
  const std::unique_ptr<RemoteExchange> remote_;
  uint32_t num_slots_ = 0, num_postings_ = 0, num_ranks_ = 0;
  std::unique_ptr<Communicator[]> communicators_;  // one for each sync point; unused ones have no ranks
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Posting[]> postings_;       // by communicator, slot, rank
  std::unique_ptr<RankMemory[]> memory_;      // in the same order, for Exchange
  std::unique_ptr<uint32_t[]> started_;       // starts of each rank of each communicator in this run
  std::unique_ptr<uint32_t[]> first_ticket_;  // of each sync point in tickets_
  std::unique_ptr<Posting*[]> tickets_;       // by sync point and rank: the posting that a wait waits for
  std::unique_ptr<Noted[]> noted_;            // by the program's device
  uint32_t num_devices_ = 0;

  std::mutex mutex_;  // guards what follows, slots, postings, counts and tickets
  std::condition_variable changed_;
  uint32_t in_flight_ = 0;  // postings held by a stream
  bool aborted_ = false;
};

}  // namespace rondo::host
