// Live weights: constants of a plan whose values may be replaced (compile --live-weights).
//
// The compiler has not used their values. Each is an initializer of the model in its own element order, or a
// device's share of one, in its own type, rounded to f16 or bf16, or packed in fewer bits. So new values need
// no compilation, and give the plan that the compiler would make of them. Values that the compiler did use
// (scalars, shapes, integers) are in the plan as digests; a model in which they differ needs another plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "core/dtype.h"
#include "core/packed_weights.h"
#include "core/plan.h"
#include "core/shape.h"
#include "core/status.h"
#include "core/synthetic.h"

namespace rondo {

// Which initializers are live: floats with more elements than anything that describes a shape.
constexpr bool IsLiveWeight(DType dtype, const Shape& shape) {
  return IsFloat(dtype) && !IsFp8(dtype) && shape.elements() > kMaxRank;
}

// Buffer::synthetic_key of a live weight, from the initializer's name.
constexpr uint64_t LiveWeightKey(std::string_view name) { return SyntheticKey(0x6c697665, name); }

// How many elements lie between the beginnings of what has these keys: more than kMostElements where they are
// not of one weight.
constexpr uint64_t ElementsBetween(uint64_t whole, uint64_t part) {
  uint64_t inverse = kSyntheticStride;  // modulo 2^64, by Newton's iteration: of 3 bits, 6, 12, ...
  for (int i = 0; i < 5; ++i) inverse *= 2 - kSyntheticStride * inverse;
  return (part - whole) * inverse;
}
inline constexpr uint64_t kMostElements = uint64_t{1} << 40;

// How the compiler rounds a matrix to fewer bits (--quantize-weights, core/packed_weights.h).
struct WeightPacking {
  PackedType type = PackedType::kNone;
  DType from = DType::kF32;  // what the weight is rounded to before
  int64_t block = 0;         // numbers that share a scale; 0: all along the dim
  int dim = 0;               // along which they lie

  friend bool operator==(const WeightPacking&, const WeightPacking&) = default;
  DType scale_type() const { return from == DType::kF16 ? DType::kF16 : DType::kBF16; }
  PackedShape ShapeOf(const Shape& matrix) const {
    const int64_t k = matrix[dim];
    return {matrix[1 - dim], k, block == 0 ? k : block, BitsOf(type)};
  }
};
// The key of the codes of a live weight that has this key, packed; that of its scales is SyntheticMix of it.
uint64_t PackedWeightKey(uint64_t key, const WeightPacking& packing);
// Whether what has this key is a part of the live weight `name`, packed or not.
bool IsOfLiveWeight(std::string_view name, uint64_t key);

// The elements of an initializer that a buffer holds.
struct LiveWeight {
  std::string_view name;  // of the initializer; empty: the buffer is no live weight
  Shape shape;            // of the whole initializer
  // The buffer's element i is number first + i of the initializer, or, if it is packed, of all its codes or
  // scales; in runs, as Buffer::synthetic_run says.
  uint64_t first = 0;
  WeightPacking packing = {};
  bool scales = false;  // and not the codes
};
LiveWeight LiveWeightOf(const PlanData& plan, uint32_t buffer);

// The share of an initializer in a constant, for the compiler, which knows the initializer's shape (`whole`).
// No name if the buffer holds anything else.
LiveWeight ShareOfInitializer(const PlanData& plan, uint32_t buffer, const Shape& whole);
// The initializer that is the buffer's only source, or "".
std::string_view InitializerOf(const PlanData& plan, uint32_t buffer);
// The source text for such a buffer, which LiveWeightOf parses.
std::string LiveWeightSource(const LiveWeight& weight, const Buffer& buffer);

// An initializer of a model: name, type, shape, dense elements.
struct WeightValue {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Span<const uint8_t> bytes;
};

// The bytes of `value` for `buffer`, which holds `weight`, not packed: part of the value or, if elements are
// picked or rounded (as the compiler rounds), a copy in `room`. kInvalidArgument, naming both, if shape or
// type do not fit: the type must be the buffer's own, or f32 for f16 or bf16. kOutOfRange for a number that
// becomes infinite.
Result<Span<const uint8_t>> BytesOfWeight(const WeightValue& value, const LiveWeight& weight,
                                          const Buffer& buffer, std::vector<uint8_t>* room);

// The note of a weight that is not live, for PlanData::sources. `reader`: a node that reads it.
std::string FixedWeightNote(const WeightValue& value, const std::string& reader);
// OK if the plan was compiled with this value; kInvalidArgument if with another, or if it has no such weight.
Status CheckFixedWeight(const PlanData& plan, const WeightValue& value);

}  // namespace rondo
