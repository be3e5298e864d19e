// The library's own host memory when the embedder names no allocator.
#pragma once

#include <new>
#include <utility>

#include "core/arena.h"

namespace rondo {

// mimalloc by explicit calls where libmimalloc.so.2 is installed, the system's allocator otherwise.
// mimalloc is opened with local scope: it exports `malloc`, and the embedding process keeps its own.
// Decided at the first call, then fixed; may be called from any thread.
const HostAllocator& RuntimeHostAllocator();
// "mimalloc" or "system": which one RuntimeHostAllocator() is.
const char* RuntimeHostAllocatorName();

// A T in memory of `allocator`; null when out of memory.
template <typename T, typename... Args>
T* NewObject(const HostAllocator& allocator, Args&&... args) {
  void* block = allocator.allocate(allocator.user, sizeof(T), alignof(T));
  return block == nullptr ? nullptr : new (block) T(std::forward<Args>(args)...);
}

// Destroys what NewObject made. `allocator` must be a copy outside the object.
template <typename T>
void DeleteObject(const HostAllocator& allocator, T* object) {
  if (object == nullptr) return;
  object->~T();
  allocator.deallocate(allocator.user, object, sizeof(T));
}

}  // namespace rondo
