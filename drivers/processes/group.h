// Group: Processes over connections. Internal to drivers/processes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "drivers/processes/handshake.h"
#include "drivers/processes/processes.h"

namespace rondo::processes {

// Control messages between processes.
struct Message {
  enum Kind : uint32_t { kGather = 1, kAbort = 2, kGoodbye = 3 };
  uint32_t magic = 0x4d646e52;  // "RndM"
  uint32_t kind = kGather;
  int32_t code = 0;    // of a Status
  uint32_t bytes = 0;  // that follow
  char text[1024] = {};
  char node[256] = {};
  // Only the first `bytes` are sent.
  char payload[Processes::kMaxGather] = {};
};
inline constexpr size_t kMessageHead = sizeof(Message) - Processes::kMaxGather;

class Group final : public Processes {
 public:
  Group(uint32_t rank, uint32_t size) : rank_(rank), size_(size) {}
  // False when out of memory or descriptors.
  bool Prepare();
  Line* lines() { return lines_.get(); }
  TurnedAway* turned() { return &turned_; }
  ~Group() override;

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }
  uint32_t turned_away() const override { return turned_.all(); }
  Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) override;
  Status Gather(const Status& so_far, const void* mine, void* all, size_t bytes, StopSignal* stop) override;
  Status Transfer(const Purpose& purpose, Span<const Parcel> parcels) override;
  void Abort(const Status& why) override;
  Status state() override;
  Status StateWithAll(uint64_t nanoseconds) override;

 private:
  // Messages from one peer.
  struct Inbox {
    static constexpr uint32_t kRoom = 2;
    std::unique_ptr<Message[]> messages;  // kRoom, and the one being received
    std::atomic<uint32_t> count{0};       // complete
    size_t taken = 0;                     // bytes received of the current one
    uint64_t goodbye = 0;                 // when the peer said goodbye, on MonotonicNanoseconds; 0: not yet
    std::atomic<bool> closed{false};
  };

  // With the lock held: reads everything available; OK, or why the group has ended.
  Status Look();
  void LookAt(uint32_t peer);
  void Complete(uint32_t peer);
  // Ends the group; only the first call counts. With the lock held.
  void End(const Status& why);
  // Waits until others may have sent something, at most some milliseconds.
  void WaitForNews(int milliseconds);
  void Tell(Message* message);
  // The error for a data connection that has ended: the peer may have sent a reason.
  Status Lost(uint32_t peer);
  Status AwaitAll(StopSignal* stop);
  Status Mismatch(const Purpose& mine, uint32_t peer, const uint64_t* theirs) const;

  const uint32_t rank_, size_;
  TurnedAway turned_;              // during the meeting
  std::unique_ptr<Line[]> lines_;  // by rank
  std::unique_ptr<Inbox[]> inboxes_;
  std::unique_ptr<Message> outgoing_;  // of Gather
  File ended_;                         // an eventfd, readable once the group has ended
  std::mutex mutex_;                   // guards messages in both directions, and:
  Status end_;
};

}  // namespace rondo::processes
