// Helpers shared by the evaluator's files: tensors widened to the type they compute in. Internal to
// evaluate*.cc.
#pragma once

#include <memory>
#include <vector>

#include "compiler/ir/evaluate.h"
#include "core/scalar.h"

namespace rondo::ir {

using Data = std::shared_ptr<const ConstantData>;

// A tensor widened to its tape type T (float, double or int64_t).
template <typename T>
std::vector<T> Widen(const ConstantData& data) {
  int64_t n = data.shape.elements();
  std::vector<T> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = scalar::Load<T>(data.dtype, data.bytes.data(), i);
  return out;
}

template <typename T>
Data Narrow(DType dtype, const Shape& shape, const std::vector<T>& values) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements() * ByteSize(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    scalar::Store<T>(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  }
  return ConstantData::Own(dtype, shape, std::move(bytes));
}

// Calls f with a zero of the tape type of `dtype`.
template <typename F>
auto WithType(DType dtype, F f) {
  switch (NaturalType(dtype)) {
    case TapeType::kF32: return f(0.0f);
    case TapeType::kF64: return f(0.0);
    default: return f(int64_t{0});
  }
}

// The values of such nodes (evaluate_windows.cc, evaluate_attention.cc).
Data EvalConv(const Node& node, const Values& in);
Data EvalPool(const Node& node, const Values& in);
Data EvalAttention(const Node& node, const Values& in);

}  // namespace rondo::ir
