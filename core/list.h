// GrowingList: a growing array that survives running out of memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace rondo {

// Elements are plain data. When memory runs out, the requested change is not made and ok() is false from then
// on: check it before relying on the contents. Memory comes from malloc; an empty list takes none.
template <typename T>
class GrowingList {
 public:
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));

  GrowingList() = default;
  GrowingList(const T* first, size_t count) {
    if (Reserve(count) && count != 0) std::memcpy(static_cast<void*>(data_), first, count * sizeof(T));
    if (ok_) size_ = count;
  }
  GrowingList(GrowingList&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        room_(std::exchange(other.room_, 0)),
        ok_(std::exchange(other.ok_, true)) {}
  GrowingList& operator=(GrowingList&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
    std::swap(ok_, other.ok_);
    return *this;
  }
  ~GrowingList() { std::free(data_); }
  // `count` copies of `value`.
  static GrowingList Filled(size_t count, const T& value) {
    GrowingList list;
    if (!list.Reserve(count)) return list;
    for (size_t i = 0; i < count; ++i) list.push_back(value);
    return list;
  }

  bool ok() const { return ok_; }
  // Room for `count` elements in all; false when out of memory.
  bool Reserve(size_t count) {
    if (count <= room_) return true;
    void* block =
        count > ~size_t{0} / sizeof(T) ? nullptr : std::realloc(static_cast<void*>(data_), count * sizeof(T));
    if (block == nullptr) return ok_ = false;
    data_ = static_cast<T*>(block);
    room_ = count;
    return true;
  }
  size_t room() const { return room_; }
  // False, and nothing is added, when out of memory.
  bool push_back(const T& value) {
    const T copy = value;  // it may lie in this list
    if (size_ == room_ && !Reserve(room_ == 0 ? 8 : room_ * 2)) return false;
    new (data_ + size_++) T(copy);
    return true;
  }
  void pop_back() { --size_; }
  // Takes out the first element equal to `value`, if there is one.
  void Forget(const T& value) {
    for (size_t i = 0; i < size_; ++i) {
      if (data_[i] != value) continue;
      for (size_t j = i + 1; j < size_; ++j) data_[j - 1] = data_[j];
      --size_;
      return;
    }
  }
  void clear() { size_ = 0; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T& front() const { return data_[0]; }
  const T& back() const { return data_[size_ - 1]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t room_ = 0;
  bool ok_ = true;
};

}  // namespace rondo
