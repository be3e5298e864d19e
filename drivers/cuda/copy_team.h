// CopyTeam: threads that help to copy large pieces of host memory. Internal to drivers/cuda.
#ifndef RONDO_DRIVERS_CUDA_COPY_TEAM_H_
#define RONDO_DRIVERS_CUDA_COPY_TEAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/status.h"
#include "core/threads.h"

namespace rondo::cuda {

// One thread copies from memory to memory at a fraction of what the bus to a GPU takes. A team serves one
// copy at a time, and any number of threads may ask: those that find it busy copy alone, so that nobody waits
// for another's copy. Its threads look out for the next piece for a moment, then sleep.
class CopyTeam {
 public:
  static constexpr uint64_t kLeastBytes = 256 << 10;  // smaller ones are copied alone

  // With as many helpers as can be had and are of use on this machine: none, perhaps.
  static Result<std::unique_ptr<CopyTeam>> Create(const ThreadHooks& hooks);
  // Joins the helpers; no copy may be under way.
  ~CopyTeam();
  CopyTeam(const CopyTeam&) = delete;
  CopyTeam& operator=(const CopyTeam&) = delete;

  // As memcpy. Allocates nothing.
  void Copy(void* to, const void* from, uint64_t bytes);

 private:
  static constexpr uint32_t kMostHelpers = 3;
  static constexpr uint64_t kChunk = 32 << 10;

  explicit CopyTeam(const ThreadHooks& hooks) : hooks_(hooks) {}
  static void* Main(void* team);
  void Serve();
  // Takes part in the copy that is open, if there is one that has chunks left.
  bool Help();
  void CopyChunks();

  const ThreadHooks hooks_;
  uint32_t helpers_ = 0;
  void* threads_[kMostHelpers] = {};
  std::atomic<bool> taken_{false};  // somebody's copy is under way
  // The copy: written while it is not open and nobody is inside.
  uint8_t* to_ = nullptr;
  const uint8_t* from_ = nullptr;
  uint64_t bytes_ = 0;
  std::atomic<uint64_t> next_{0}, chunks_{0};
  std::atomic<bool> open_{false};
  std::atomic<uint32_t> inside_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint32_t> asleep_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_COPY_TEAM_H_
