// Arena: a bump allocator whose blocks are freed together.
//
// Owns every object that core's plain data (kernel.h, plan.h) points to. Not thread-safe. Objects are
// trivially destructible: no destructor ever runs. Allocation returns null when memory, or the
// arena's own limit, runs out; nothing throws.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

#include "core/span.h"

namespace rondo {

// Where host memory comes from. `user` is passed back to both functions. `allocate` returns memory
// aligned to `alignment` (a power of two) or null.
struct HostAllocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*deallocate)(void* user, void* block, size_t bytes) = nullptr;
  void* user = nullptr;
};

// aligned_alloc and free.
const HostAllocator& DefaultHostAllocator();

class Arena {
 public:
  // `limit` bounds the bytes this arena may take in all.
  explicit Arena(const HostAllocator& allocator = DefaultHostAllocator(), size_t limit = ~size_t{0})
      : allocator_(allocator), limit_(limit) {}
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Null when out of memory. A request of zero bytes gives a valid, unique-enough pointer.
  void* Allocate(size_t bytes, size_t alignment);

  // `count` value-initialised objects; an empty Span with null data when out of memory
  // (a count of zero gives an empty Span with non-null data).
  template <typename T>
  Span<T> New(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count != 0 && count > (~size_t{0}) / sizeof(T)) return {};
    void* block = Allocate(count * sizeof(T), alignof(T));
    if (block == nullptr) return {};
    T* first = static_cast<T*>(block);
    for (size_t i = 0; i < count; ++i) new (first + i) T();
    return Span<T>(first, count);
  }

  // A copy of any contiguous container of T.
  template <typename C>
  auto Copy(const C& from) {
    using T = std::remove_cvref_t<decltype(*from.data())>;
    Span<T> to = New<T>(from.size());
    if (to.data() == nullptr) return Span<const T>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = from.data()[i];
    return Span<const T>(to.data(), to.size());
  }

  // A zero-terminated copy; a view with null data when out of memory.
  std::string_view CopyText(std::string_view text);

  // Bytes taken from the allocator so far.
  size_t bytes() const { return total_; }

 private:
  struct Block;
  void FreeAll();
  HostAllocator allocator_;
  size_t limit_;
  Block* head_ = nullptr;
  size_t total_ = 0;
};

}  // namespace rondo
