#include "tests/cuda/fake/tensor_map.h"

#include <cstring>

namespace rondo::fake_cuda {

namespace {

// Calls f(place in the box, in memory) for each element of the box that lies in the tensor.
template <typename F>
void ForElements(const TensorMap& map, const std::vector<int64_t>& at, const F& f) {
  uint32_t place[5] = {};
  for (size_t byte = 0; byte < BoxBytes(map); byte += map.element_bytes) {
    bool inside = true;
    int64_t offset = 0;
    for (uint32_t d = 0; d < map.rank; ++d) {
      const int64_t x = at[d] + place[d];
      inside = inside && x >= 0 && x < map.extents[d];
      offset += x * static_cast<int64_t>(d == 0 ? map.element_bytes : map.strides[d - 1]);
    }
    if (inside) f(byte, map.memory + offset);
    for (uint32_t d = 0; d < map.rank && ++place[d] == map.box[d]; ++d) place[d] = 0;
  }
}

}  // namespace

size_t BoxBytes(const TensorMap& map) {
  size_t bytes = map.element_bytes;
  for (uint32_t d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

std::vector<char> ReadBox(const TensorMap& map, const std::vector<int64_t>& at) {
  std::vector<char> box(BoxBytes(map), 0);
  ForElements(map, at, [&](size_t in_box, const char* in_memory) {
    std::memcpy(box.data() + in_box, in_memory, map.element_bytes);
  });
  return box;
}

void WriteBox(const TensorMap& map, const std::vector<int64_t>& at, const std::vector<char>& box) {
  ForElements(map, at, [&](size_t in_box, char* in_memory) {
    std::memcpy(in_memory, box.data() + in_box, map.element_bytes);
  });
}

}  // namespace rondo::fake_cuda
