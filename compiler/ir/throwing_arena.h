// NewArena: an arena for the compiler, which throws std::bad_alloc when memory runs out, like everything else
// in the compiler. (core's own arenas return null, which the runtime checks.)
#pragma once

#include <memory>
#include <new>

#include "core/arena.h"

namespace rondo::ir {

inline std::shared_ptr<Arena> NewArena() {
  HostAllocator throwing = DefaultHostAllocator();
  throwing.allocate = [](void* user, size_t bytes, size_t alignment) {
    void* block = DefaultHostAllocator().allocate(user, bytes, alignment);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  };
  return std::make_shared<Arena>(throwing);
}

}  // namespace rondo::ir
