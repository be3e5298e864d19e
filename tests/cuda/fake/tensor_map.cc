#include "tests/cuda/fake/tensor_map.h"

#include <cstring>

namespace rondo::fake_cuda {

std::vector<char> ReadBox(const TensorMap& map, const std::vector<int64_t>& at) {
  size_t elements = 1;
  for (uint32_t d = 0; d < map.rank; ++d) elements *= map.box[d];
  std::vector<char> box(elements * map.element_bytes, 0);
  uint32_t place[5] = {};
  for (size_t e = 0; e < elements; ++e) {
    bool inside = true;
    int64_t byte = 0;
    for (uint32_t d = 0; d < map.rank; ++d) {
      const int64_t x = at[d] + place[d];
      inside = inside && x >= 0 && x < map.extents[d];
      byte += x * static_cast<int64_t>(d == 0 ? map.element_bytes : map.strides[d - 1]);
    }
    if (inside) std::memcpy(box.data() + e * map.element_bytes, map.memory + byte, map.element_bytes);
    for (uint32_t d = 0; d < map.rank && ++place[d] == map.box[d]; ++d) place[d] = 0;
  }
  return box;
}

}  // namespace rondo::fake_cuda
