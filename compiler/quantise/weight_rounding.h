// RoundWeights: rounds a weight in f32, f16 or bf16 to fewer bits. Internal to compiler/quantise.
#pragma once

#include <memory>

#include "compiler/ir/packed.h"
#include "compiler/quantise/weight_layout.h"

namespace rondo::passes {

struct WeightBlocks {
  PackedType type = PackedType::kNone;
  int64_t size = 0;  // numbers along k that share a scale
  DType scale_type = DType::kBF16;
};

// Each number becomes the nearest that its block's scale allows; the scale maps the block's largest magnitude
// to the type's. `error`: the RMS of the differences divided by that of the weight. Null if a number is not
// finite. Spread over the cores; the result does not depend on their number.
std::shared_ptr<const ir::PackedMatrix> RoundWeights(const ir::ConstantData& data, const WeightLayout& layout,
                                                     const WeightBlocks& blocks, double* error);

}  // namespace rondo::passes
