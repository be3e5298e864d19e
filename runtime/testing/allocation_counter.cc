#include "runtime/testing/allocation_counter.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {
std::atomic<uint64_t> count{0};
std::atomic<void (*)(const void*)> observer{nullptr};
thread_local bool observing = false;

// `caller`: the return address of the counted call.
void Count(const void* caller) {
  count.fetch_add(1, std::memory_order_relaxed);
  const auto observe = observer.load(std::memory_order_acquire);
  if (observe == nullptr || observing) return;
  observing = true;
  observe(caller);
  observing = false;
}
}  // namespace

namespace rondo {
uint64_t AllocationCount() { return count.load(std::memory_order_relaxed); }
void ResetAllocationCount() { count.store(0, std::memory_order_relaxed); }
void ObserveAllocations(void (*function)(const void* caller)) {
  observer.store(function, std::memory_order_release);
}
}  // namespace rondo

// glibc's names for the functions that are replaced below.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);

void* malloc(size_t bytes) {
  Count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  Count(__builtin_return_address(0));
  return __libc_calloc(n, bytes);
}
void* realloc(void* block, size_t bytes) {
  Count(__builtin_return_address(0));
  return __libc_realloc(block, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  Count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  Count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  Count(__builtin_return_address(0));
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  if (block != nullptr) Count(__builtin_return_address(0));
  __libc_free(block);
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  Count(__builtin_return_address(0));
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) {
  Count(__builtin_return_address(0));
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
int munmap(void* address, size_t bytes) {
  Count(__builtin_return_address(0));
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}
void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, ...) {
  Count(__builtin_return_address(0));
  va_list args;
  va_start(args, flags);
  void* fixed = (flags & MREMAP_FIXED) != 0 ? va_arg(args, void*) : nullptr;
  va_end(args);
  return reinterpret_cast<void*>(syscall(SYS_mremap, address, bytes, new_bytes, flags, fixed));
}
}  // extern "C"
