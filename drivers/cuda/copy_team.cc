#include "drivers/cuda/copy_team.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

namespace rondo::cuda {
namespace {

constexpr std::chrono::microseconds kLookOut{50};

}  // namespace

Result<std::unique_ptr<CopyTeam>> CopyTeam::Create(const ThreadHooks& hooks) {
  std::unique_ptr<CopyTeam> made(new (std::nothrow) CopyTeam(hooks));
  if (made == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for copying threads");
  const uint32_t useful = std::min(std::max(std::thread::hardware_concurrency(), 1u) - 1, kMostHelpers);
  while (made->helpers_ < useful &&
         hooks.start(hooks.user, Main, made.get(), &made->threads_[made->helpers_]) == 0) {
    ++made->helpers_;
  }
  return made;
}

CopyTeam::~CopyTeam() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (uint32_t i = 0; i < helpers_; ++i) hooks_.join(hooks_.user, threads_[i]);
}

void CopyTeam::Copy(void* to, const void* from, uint64_t bytes) {
  if (helpers_ == 0 || taken_.exchange(true, std::memory_order_acquire)) {
    std::memcpy(to, from, bytes);
    return;
  }
  to_ = static_cast<uint8_t*>(to);
  from_ = static_cast<const uint8_t*>(from);
  bytes_ = bytes;
  next_.store(0);
  chunks_.store((bytes + kChunk - 1) / kChunk);
  open_.store(true);
  if (asleep_.load() != 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }  // whoever is about to sleep sleeps
    wake_.notify_all();
  }
  CopyChunks();
  open_.store(false);
  while (inside_.load() != 0) std::this_thread::yield();  // for what is left of a chunk
  taken_.store(false, std::memory_order_release);
}

void CopyTeam::CopyChunks() {
  for (uint64_t chunk; (chunk = next_.fetch_add(1)) < chunks_.load(std::memory_order_relaxed);) {
    const uint64_t first = chunk * kChunk;
    std::memcpy(to_ + first, from_ + first, std::min(kChunk, bytes_ - first));
  }
}

// A helper that finds the copy open once it is inside is waited for.
bool CopyTeam::Help() {
  if (!open_.load() || next_.load() >= chunks_.load()) return false;
  inside_.fetch_add(1);
  if (open_.load()) CopyChunks();
  inside_.fetch_sub(1);
  return true;
}

void* CopyTeam::Main(void* team) {
  static_cast<CopyTeam*>(team)->Serve();
  return nullptr;
}

void CopyTeam::Serve() {
  using Clock = std::chrono::steady_clock;
  while (!stop_.load()) {
    for (Clock::time_point seen = Clock::now(); Clock::now() - seen < kLookOut;) {
      if (Help()) seen = Clock::now();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    asleep_.fetch_add(1);
    while (!stop_.load() && (!open_.load() || next_.load() >= chunks_.load())) wake_.wait(lock);
    asleep_.fetch_sub(1);
  }
}

}  // namespace rondo::cuda
