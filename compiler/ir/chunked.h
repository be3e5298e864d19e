// Chunked: a list that grows at its end without moving its elements: chunks of a few dozen, so that a walk is
// mostly sequential in memory. Owns its elements; not thread-safe.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace rondo::ir {

template <typename T>
class Chunked {
  static constexpr size_t kInChunk = 32;
  template <typename List, typename Element>
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = Element*;
    using reference = Element&;
    List* list;
    size_t at;
    Element& operator*() const { return (*list)[at]; }
    Iterator& operator++() { return ++at, *this; }
    bool operator==(const Iterator& other) const { return at == other.at; }
  };

 public:
  Chunked() = default;
  Chunked(Chunked&&) noexcept = default;
  Chunked& operator=(Chunked&&) noexcept = default;
  Chunked(const Chunked& other) { *this = other; }
  Chunked& operator=(const Chunked& other) {
    std::vector<std::vector<T>> chunks;
    chunks.reserve(other.chunks_.size());
    for (const std::vector<T>& chunk : other.chunks_) {
      chunks.emplace_back().reserve(kInChunk);
      chunks.back().insert(chunks.back().end(), chunk.begin(), chunk.end());
    }
    chunks_ = std::move(chunks);
    return *this;
  }

  size_t size() const {
    return chunks_.empty() ? 0 : (chunks_.size() - 1) * kInChunk + chunks_.back().size();
  }
  T& operator[](size_t i) { return chunks_[i / kInChunk][i % kInChunk]; }
  const T& operator[](size_t i) const { return chunks_[i / kInChunk][i % kInChunk]; }
  T& push_back(T element) {
    if (chunks_.empty() || chunks_.back().size() == kInChunk) chunks_.emplace_back().reserve(kInChunk);
    return chunks_.back().emplace_back(std::move(element));
  }
  // Drops all but the first `size` elements; `size` must not exceed the current size.
  void Truncate(size_t size) {
    chunks_.resize((size + kInChunk - 1) / kInChunk);
    while (this->size() > size) chunks_.back().pop_back();
  }

  auto begin() { return Iterator<Chunked, T>{this, 0}; }
  auto end() { return Iterator<Chunked, T>{this, size()}; }
  auto begin() const { return Iterator<const Chunked, const T>{this, 0}; }
  auto end() const { return Iterator<const Chunked, const T>{this, size()}; }

 private:
  // All but the last are full, and all have that capacity from the start.
  std::vector<std::vector<T>> chunks_;
};

}  // namespace rondo::ir
