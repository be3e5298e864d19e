#include "core/shape.h"

#include <cinttypes>
#include <cstdio>

namespace rondo {

const char* Format(const Shape& shape, char* out, int size) {
  int used = std::snprintf(out, size, "[");
  for (int i = 0; i < shape.rank && used < size; ++i) {
    used += std::snprintf(out + used, size - used, i == 0 ? "%" PRId64 : ", %" PRId64, shape[i]);
  }
  if (used < size) std::snprintf(out + used, size - used, "]");
  return out;
}

}  // namespace rondo
