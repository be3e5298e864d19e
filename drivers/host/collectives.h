// Collectives between virtual devices, or devices of several processes: where their ranks meet, and the
// thread of each device that takes its ranks there.
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

// One rank's part in one collective of a run: what it brought, and its link in the queue of its device.
struct Posting {
  HostCollectives* owner = nullptr;
  uint32_t slot = 0;
  CollectivePart part;
  RankMemory memory;
  Posting* next = nullptr;
  Status failed;  // of this rank alone
};

// A device's collective stream: a thread that takes postings to where they meet the other ranks'. It waits
// for nobody there (the last rank to come moves the data), so that no order of postings can block it; but for
// ranks of other processes, which all start the same collectives in the same order.
class CollectiveStream {
 public:
  explicit CollectiveStream(Faults& faults) : faults_(faults) {}
  CollectiveStream(const CollectiveStream&) = delete;
  CollectiveStream& operator=(const CollectiveStream&) = delete;
  // Ends the thread; nothing may be queued.
  ~CollectiveStream();

  // Starts the thread unless it runs. Not to be called by two threads at once.
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
// run meet in the communicator's n-th slot. Any thread may call; one rank's calls come from one thread at a
// time.
class HostCollectives {
 public:
  // Null when out of memory. With `remote`, which becomes its, the ranks are in several processes, one here.
  static HostCollectives* Create(const rondo::Program& program, const Engine& engine, ThreadPool& pool,
                                 std::unique_ptr<RemoteExchange> remote);
  // Waits until nothing is in flight.
  ~HostCollectives();

  // Puts this rank's part into the queue of `stream`.
  Status Start(const CollectivePart& part, const RankMemory& memory, CollectiveStream* stream);
  // Blocks until the collective that the rank has started for this sync point has ended, and says how.
  Status Wait(const CollectivePart& part);
  void Begin();
  // If `wait`, returns when no data is being moved any more.
  void Abort(bool wait);
  // Of the program's device `device`; from any thread.
  CollectiveProgress Progress(uint32_t device) const;

  // On a collective stream: the rank joins the others.
  void Arrive(Posting* posting, Faults& faults);

 private:
  struct Slot {
    Posting* first = nullptr;  // to arrive
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
  // What one device has noted.
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
  std::unique_ptr<Communicator[]> communicators_;  // as many as sync points; unused ones have no ranks
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Posting[]> postings_;       // by communicator, slot, rank
  std::unique_ptr<RankMemory[]> memory_;      // the same, as Exchange reads it
  std::unique_ptr<uint32_t[]> started_;       // starts of each rank of each communicator in this run
  std::unique_ptr<uint32_t[]> first_ticket_;  // of each sync point in tickets_
  std::unique_ptr<Posting*[]> tickets_;       // by sync point, rank: what a wait waits for
  std::unique_ptr<Noted[]> noted_;            // by the program's device
  uint32_t num_devices_ = 0;

  std::mutex mutex_;  // guards what follows, slots, postings, counts and tickets
  std::condition_variable changed_;
  uint32_t in_flight_ = 0;  // postings that a stream holds
  bool aborted_ = false;
};

}  // namespace rondo::host
