// The fields of a CUtensorMap, decoded from its 128 bytes, and the boxes that TMA copies by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::fake_cuda {

struct TensorMap {
  char* memory = nullptr;
  uint32_t extents[5] = {};  // in elements, the innermost first
  uint64_t strides[4] = {};  // in bytes, from the second dimension on
  uint16_t box[5] = {};
  uint8_t rank = 0, element_bytes = 0;
  uint8_t swizzle_bytes = 0;  // 32, 64, 128; 0: none
};
static_assert(sizeof(TensorMap) <= 128);

size_t BoxBytes(const TensorMap& map);
// The box whose first element is at `at`, line by line; zeros outside of the tensor.
std::vector<char> ReadBox(const TensorMap& map, const std::vector<int64_t>& at);
// Writes the box, but for what lies outside of the tensor.
void WriteBox(const TensorMap& map, const std::vector<int64_t>& at, const std::vector<char>& box);

// The address of a 16-byte piece with swizzles of so many bytes. Within each run of `swizzle_bytes`, pieces
// are exchanged by the number of their 128 bytes, modulo 8.
inline uint32_t Swizzled(uint32_t address, uint32_t swizzle_bytes) {
  return swizzle_bytes == 0 ? address : address ^ (address >> 7 & (swizzle_bytes / 16 - 1)) << 4;
}

}  // namespace rondo::fake_cuda
