// Numbers in the form of a graph's inputs and outputs.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo {

// `values` are stored as the type's elements, one each.
template <typename T>
std::shared_ptr<const ir::ConstantData> Data(DType dtype, const Shape& shape, const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return ir::ConstantData::Own(dtype, shape, std::move(bytes));
}
inline std::shared_ptr<const ir::ConstantData> Data(const Shape& shape, const std::vector<float>& values) {
  return Data(DType::kF32, shape, values);
}
inline std::shared_ptr<const ir::ConstantData> Data(const Shape& shape, const std::vector<int64_t>& values) {
  return Data(DType::kI64, shape, values);
}

// Random numbers of a normal distribution.
inline std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

}  // namespace rondo
