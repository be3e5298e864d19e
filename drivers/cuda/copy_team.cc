#include "drivers/cuda/copy_team.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

bool CopyTeam::Begin() { return helpers_ != 0 && !taken_.exchange(true, std::memory_order_acquire); }

void CopyTeam::End() { taken_.store(false, std::memory_order_release); }

void CopyTeam::Post(void* to, const void* from, uint64_t bytes, bool past_caches) {
  const uint64_t first = posted_.load(std::memory_order_relaxed);
  Piece& piece = pieces_[first / kChunks % kPieces];
  piece.to = static_cast<uint8_t*>(to);
  piece.from = static_cast<const uint8_t*>(from);
  piece.bytes = bytes;
  piece.past_caches = past_caches;
  piece.done.store(0, std::memory_order_relaxed);
  posted_.store(first + kChunks);
  if (asleep_.load() == 0) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
  }  // a worker that is about to sleep now sleeps, and will be woken
  wake_.notify_all();
}

void CopyTeam::Complete() {
  const Piece& piece = pieces_[completed_ % kPieces];
  while (piece.done.load(std::memory_order_acquire) != kChunks) {
    if (!Help()) std::this_thread::yield();  // waits for other workers' chunks
  }
  ++completed_;
}

bool CopyTeam::Help() {
  uint64_t chunk = next_.load();
  do {
    if (chunk >= posted_.load()) return false;
  } while (!next_.compare_exchange_weak(chunk, chunk + 1));
  Piece& piece = pieces_[chunk / kChunks % kPieces];
  const uint64_t first = chunk % kChunks * kChunk;
  if (first < piece.bytes) {
    const uint64_t bytes = std::min(kChunk, piece.bytes - first);
    if (piece.past_caches) {
      CopyPastCaches(piece.to + first, piece.from + first, bytes);
    } else {
      std::memcpy(piece.to + first, piece.from + first, bytes);
    }
  }
  piece.done.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

void CopyTeam::CopyPastCaches(uint8_t* to, const uint8_t* from, uint64_t bytes) {
#ifdef __SSE2__
  const uint64_t whole = bytes / 64 * 64;
  for (uint64_t at = 0; at < whole; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
  to += whole, from += whole, bytes -= whole;
#endif
  std::memcpy(to, from, bytes);
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
    while (!stop_.load() && next_.load() >= posted_.load()) wake_.wait(lock);
    asleep_.fetch_sub(1);
  }
}

}  // namespace rondo::cuda
