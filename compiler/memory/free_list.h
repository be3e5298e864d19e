// FreeList: allocates and frees memory in the order of time. Internal to compiler/memory; packing.h is the
// interface.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace rondo::packing {

// Free ranges, by offset, below an end that grows as needed. Allocates by best fit.
class FreeList {
 public:
  int64_t Take(int64_t size) {
    auto fit = by_size_.lower_bound({size, 0});
    int64_t at, left;
    if (fit != by_size_.end()) {
      at = fit->second;
      left = fit->first - size;
      Erase(at, fit->first);
    } else {
      // The last range grows if it touches the end.
      const auto last = by_offset_.empty() ? by_offset_.end() : std::prev(by_offset_.end());
      const bool grows = last != by_offset_.end() && last->first + last->second == end_;
      at = grows ? last->first : end_;
      if (grows) Erase(at, last->second);
      left = 0;
      end_ = at + size;
    }
    if (left > 0) Insert(at + size, left);
    return at;
  }
  void Give(int64_t at, int64_t size) {
    auto next = by_offset_.lower_bound(at);
    if (next != by_offset_.end() && next->first == at + size) {
      const int64_t more = next->second;
      Erase(at + size, more);
      size += more;
    }
    next = by_offset_.lower_bound(at);
    if (next != by_offset_.begin() && std::prev(next)->first + std::prev(next)->second == at) {
      const auto [before, more] = *std::prev(next);
      Erase(before, more);
      at = before;
      size += more;
    }
    Insert(at, size);
  }
  int64_t end() const { return end_; }

 private:
  void Insert(int64_t at, int64_t size) {
    by_offset_.emplace(at, size);
    by_size_.emplace(size, at);
  }
  void Erase(int64_t at, int64_t size) {
    by_offset_.erase(at);
    by_size_.erase({size, at});
  }
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

}  // namespace rondo::packing
