#include "runtime/buckets/corner_copy.h"

#include <cstdint>
#include <cstring>

namespace rondo {
namespace {

// Copies from dim `d` on, into the larger tensor (`into`) or out of it.
struct Corner {
  const Shape &small, &large;
  size_t width;
  bool into, clear;

  size_t BytesFrom(const Shape& shape, int d) const {
    size_t bytes = width;
    for (; d < shape.rank; ++d) bytes *= static_cast<size_t>(shape[d]);
    return bytes;
  }
  bool EqualFrom(int d) const {
    for (; d < small.rank; ++d) {
      if (small[d] != large[d]) return false;
    }
    return true;
  }

  void Copy(int d, const uint8_t* from, uint8_t* to) const {
    const size_t rows = BytesFrom(small, d), room = BytesFrom(large, d);
    if (EqualFrom(d + 1)) {  // positions of dim d are contiguous in both
      std::memcpy(to, from, rows);
      if (clear) std::memset(to + rows, 0, room - rows);
      return;
    }
    const size_t row = BytesFrom(small, d + 1), place = BytesFrom(large, d + 1);
    for (int64_t i = 0; i < small[d]; ++i) {
      Copy(d + 1, from, to);
      from += into ? row : place;
      to += into ? place : row;
    }
    if (clear) std::memset(to, 0, room - static_cast<size_t>(small[d]) * place);
  }
};

}  // namespace

void CopyIntoCorner(const void* from, const Shape& small, void* to, const Shape& large, size_t width,
                    bool clear) {
  Corner{small, large, width, true, clear}.Copy(0, static_cast<const uint8_t*>(from),
                                                static_cast<uint8_t*>(to));
}

void CopyFromCorner(const void* from, const Shape& large, void* to, const Shape& small, size_t width) {
  Corner{small, large, width, false, false}.Copy(0, static_cast<const uint8_t*>(from),
                                                 static_cast<uint8_t*>(to));
}

}  // namespace rondo
