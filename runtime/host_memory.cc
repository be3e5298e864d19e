#include "runtime/host_memory.h"

#include <dlfcn.h>

#include "core/sanitized.h"

namespace rondo {
namespace {

struct Choice {
  HostAllocator allocator;
  const char* name;
};

struct MiMalloc {
  void* (*malloc_aligned)(size_t bytes, size_t alignment) = nullptr;
  void (*free)(void* block) = nullptr;
};

void* MiAllocate(void* user, size_t bytes, size_t alignment) {
  return static_cast<MiMalloc*>(user)->malloc_aligned(bytes, alignment);
}

void MiDeallocate(void* user, void* block, size_t) { static_cast<MiMalloc*>(user)->free(block); }

// Never closed: its blocks live as long as any object of the library.
Choice Choose() {
  // Sanitizers see only the blocks of the system's allocator, which they replace.
  if (kSanitized) return {DefaultHostAllocator(), "system"};
  static MiMalloc mimalloc;
  void* library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    mimalloc.malloc_aligned =
        reinterpret_cast<void* (*)(size_t, size_t)>(dlsym(library, "mi_malloc_aligned"));
    mimalloc.free = reinterpret_cast<void (*)(void*)>(dlsym(library, "mi_free"));
    if (mimalloc.malloc_aligned != nullptr && mimalloc.free != nullptr) {
      return {{MiAllocate, MiDeallocate, &mimalloc}, "mimalloc"};
    }
    dlclose(library);
  }
  return {DefaultHostAllocator(), "system"};
}

const Choice& Chosen() {
  static const Choice choice = Choose();
  return choice;
}

}  // namespace

const HostAllocator& RuntimeHostAllocator() { return Chosen().allocator; }
const char* RuntimeHostAllocatorName() { return Chosen().name; }

}  // namespace rondo
