// Live weights: constants of a plan whose values may be exchanged (compile --live-weights).
//
// The compiler has not looked at them: each is an initializer of the model, whole and in its order, in its
// own type or rounded to f16 or bf16. So other values for an initializer need no compiler, and give the plan
// that it would make of them. What it did look at (scalars, shapes, whole numbers) is in the plan as a
// digest: a model in which that is another is another plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "core/dtype.h"
#include "core/plan.h"
#include "core/shape.h"
#include "core/status.h"
#include "core/synthetic.h"

namespace rondo {

// Which initializers are: floats of more elements than anything has that describes a shape.
constexpr bool IsLiveWeight(DType dtype, const Shape& shape) {
  return IsFloat(dtype) && !IsFp8(dtype) && shape.elements() > kMaxRank;
}

// Buffer::synthetic_key of one, by the initializer's name.
constexpr uint64_t LiveWeightKey(std::string_view name) { return SyntheticKey(0x6c697665, name); }

// The initializer that buffer `buffer` is; "" if it is no live weight.
std::string_view LiveWeightOf(const PlanData& plan, uint32_t buffer);

// An initializer of a model: name, type, shape, dense elements.
struct WeightValue {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Span<const uint8_t> bytes;
};

// Writes the elements as `buffer` has them to `out`, rounded as the compiler rounds. kInvalidArgument, naming
// both, if shape or type do not fit: a type is the buffer's own, or f32 where that is f16 or bf16;
// kOutOfRange for a number that becomes infinite.
Status ConvertWeight(const WeightValue& value, const Buffer& buffer, uint8_t* out);

// One of the others, as a text among PlanData::sources.
std::string FixedWeightNote(const WeightValue& value);
// OK if the plan was compiled with this value; kInvalidArgument if with another, or if it has no such weight.
Status CheckFixedWeight(const PlanData& plan, const WeightValue& value);

}  // namespace rondo
