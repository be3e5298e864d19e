// CopyTeam: threads that help to copy large pieces of host memory. Internal to drivers/cuda.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/status.h"
#include "core/threads.h"

namespace rondo::cuda {

// A single thread copies memory at a fraction of the rate of the bus to a GPU. A team serves one caller at a
// time. Any number of threads may ask: those that find it busy copy alone, so nobody waits for another's
// copy. Its threads poll for the next piece for a moment, then sleep.
class CopyTeam {
 public:
  static constexpr uint64_t kLeastBytes = 256 << 10;  // smaller ones are copied alone
  static constexpr uint64_t kMostBytes = 512 << 10;   // of one piece

  // With as many helpers as are available and useful on this machine, possibly none.
  static Result<std::unique_ptr<CopyTeam>> Create(const ThreadHooks& hooks);
  // Joins the helpers; no copy may be under way.
  ~CopyTeam();
  CopyTeam(const CopyTeam&) = delete;
  CopyTeam& operator=(const CopyTeam&) = delete;

  // Like memcpy, for memory that a device reads next: cache lines are neither fetched before they are written
  // nor left in this processor's caches, from which the device would have to get them. `to` is aligned to 64.
  static void CopyPastCaches(uint8_t* to, const uint8_t* from, uint64_t bytes);

  // Takes the team until End. False: another caller has it, or it has no helpers.
  bool Begin();
  // Gives the team a piece to copy, of kMostBytes at most; at most one other may be incomplete.
  // `past_caches`: the copy is read by the bus, not by a processor.
  void Post(void* to, const void* from, uint64_t bytes, bool past_caches);
  // Helps until the oldest incomplete piece is complete.
  void Complete();
  // Call it when all pieces are complete.
  void End();

 private:
  static constexpr uint32_t kMostHelpers = 3;
  static constexpr uint64_t kChunk = 32 << 10;
  static constexpr uint64_t kChunks = kMostBytes / kChunk;  // of a piece; the last ones may be empty
  static constexpr uint64_t kPieces = 2;

  struct Piece {
    uint8_t* to = nullptr;
    const uint8_t* from = nullptr;
    uint64_t bytes = 0;
    bool past_caches = false;
    std::atomic<uint64_t> done{0};  // chunks
  };

  explicit CopyTeam(const ThreadHooks& hooks) : hooks_(hooks) {}
  static void* Main(void* team);
  void Serve();
  // Copies the next chunk, if there is one.
  bool Help();

  const ThreadHooks hooks_;
  uint32_t helpers_ = 0;
  void* threads_[kMostHelpers] = {};
  std::atomic<bool> taken_{false};  // between Begin and End
  // Chunks are numbered on from piece to piece. The thread that takes a chunk may read its piece until the
  // chunk is done.
  Piece pieces_[kPieces];
  std::atomic<uint64_t> next_{0}, posted_{0};
  uint64_t completed_ = 0;  // pieces; only the caller uses it
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint32_t> asleep_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace rondo::cuda
