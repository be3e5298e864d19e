// Span<T>: a borrowed, read-only-by-convention view of T objects laid out one after another.
//
// The plain data of core (kernels, plans) is made of Spans whose storage an Arena owns, so that it can
// be built without exceptions and freed at once. A Span never owns; it is valid while its storage is.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace rondo {

template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}  // NOLINT
  // From any contiguous container of T (std::vector, std::array, another Span).
  template <typename C>
  requires(!std::is_same_v<std::remove_cvref_t<C>, Span> &&
           std::is_convertible_v<decltype(std::declval<C&>().data()), T*>) constexpr Span(C&& c)
      : data_(c.data()), size_(c.size()) {}  // NOLINT

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](size_t i) const { return data_[i]; }
  constexpr T& front() const { return data_[0]; }
  constexpr T& back() const { return data_[size_ - 1]; }
  constexpr Span subspan(size_t first, size_t count) const { return Span(data_ + first, count); }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace rondo
