#include "tests/fault/fault_points.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace rondo {
namespace {

thread_local bool armed = false;
thread_local int paused = 0;
std::atomic<bool> all_armed{false};
std::atomic<uint64_t> fail_at{kNoPoint};
std::atomic<uint64_t> points{0};
std::atomic<bool> fired{false};
std::atomic<uint64_t> throwing{0};
std::atomic<bool> fail_throwing{false};
std::atomic<int64_t> live{0};

bool Armed() { return paused == 0 && (armed || all_armed.load(std::memory_order_relaxed)); }

}  // namespace

void ArmFaults(uint64_t fail, bool all_threads, bool throwing_too) {
  fail_at = fail;
  fail_throwing = throwing_too;
  points = throwing = 0;
  fired = false;
  (all_threads ? all_armed = true : armed = true);
}

FaultCount DisarmFaults() {
  armed = false;
  all_armed = false;
  return {points, fired, throwing};
}

bool FaultPoint() {
  if (!Armed() || points.fetch_add(1) != fail_at) return false;
  fired = true;
  return true;
}

FaultPause::FaultPause() { PauseFaults(true); }
FaultPause::~FaultPause() { PauseFaults(false); }
void PauseFaults(bool begin) { paused += begin ? 1 : -1; }

int64_t LiveBlocks() { return live.load(); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
bool MallocIsCounted() { return false; }
#else
bool MallocIsCounted() { return true; }

namespace {
void* Kept(void* block) {
  if (block != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return block;
}
}  // namespace
#endif

}  // namespace rondo

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);

void* malloc(size_t bytes) { return rondo::FaultPoint() ? nullptr : rondo::Kept(__libc_malloc(bytes)); }
void* calloc(size_t n, size_t bytes) {
  return rondo::FaultPoint() ? nullptr : rondo::Kept(__libc_calloc(n, bytes));
}
void* realloc(void* block, size_t bytes) {
  if (rondo::FaultPoint()) return nullptr;
  void* moved = __libc_realloc(block, bytes);
  return block == nullptr ? rondo::Kept(moved) : moved;
}
void* memalign(size_t alignment, size_t bytes) {
  return rondo::FaultPoint() ? nullptr : rondo::Kept(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  if (block != nullptr) rondo::live.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(block);
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (rondo::FaultPoint()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) {
  return mmap(address, bytes, protection, flags, file, offset);
}
}  // extern "C"

void* operator new(size_t bytes) {
  if (rondo::Armed()) ++rondo::throwing;
  if (rondo::fail_throwing && rondo::FaultPoint()) throw std::bad_alloc();
  void* block = rondo::Kept(__libc_malloc(bytes));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return malloc(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return malloc(bytes); }
void operator delete(void* block) noexcept { free(block); }
void operator delete[](void* block) noexcept { free(block); }
void operator delete(void* block, size_t) noexcept { free(block); }
void operator delete[](void* block, size_t) noexcept { free(block); }
#endif
