// Shape: the extents of a dense row-major tensor, at most kMaxRank of them. A plain value.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/span.h"

namespace rondo {

inline constexpr int kMaxRank = 12;

struct Shape {
  int rank = 0;
  int64_t dims[kMaxRank] = {};

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> list) {
    for (int64_t d : list) {
      if (rank < kMaxRank) dims[rank++] = d;
    }
  }
  constexpr explicit Shape(Span<const int64_t> list) {
    for (int64_t d : list) {
      if (rank < kMaxRank) dims[rank++] = d;
    }
  }

  constexpr int64_t operator[](int i) const { return dims[i]; }
  constexpr int64_t& operator[](int i) { return dims[i]; }
  constexpr const int64_t* begin() const { return dims; }
  constexpr const int64_t* end() const { return dims + rank; }
  // 1 for a scalar. The importer and the verifier refuse shapes whose product overflows.
  constexpr int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; ++i) {
      if (a.dims[i] != b.dims[i]) return false;
    }
    return true;
  }
};

// Writes "[2, 3, 4]" into `out` (zero-terminated, cut at `size`); returns `out`.
const char* Format(const Shape& shape, char* out, int size);

}  // namespace rondo
