// Packed: constants that are kept in 2, 4 or 8 bits, and matmuls that read them so.
//
// A constant may stand for numbers that are packed (ConstantData::packed): to every pass it is a constant
// without bytes of its own, as synthetic ones are, until the pass `pack_weights` decides who reads the packed
// form. Functions of values; no state. How codes lie: core/packed_weights.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/packed_weights.h"

namespace rondo::ir {

// A matrix [n, k] in packed form. Immutable and shared.
struct PackedMatrix {
  PackedType type = PackedType::kNone;
  int64_t n = 0, k = 0, block = 0;
  int32_t zero = 0;
  std::shared_ptr<const ConstantData> codes;          // u8 [PackedShape::covered()]
  std::shared_ptr<const ConstantData> scales, zeros;  // one float type, [scales_covered()]; zeros may be null

  PackedShape shape() const { return {n, k, block, BitsOf(type)}; }
  // What it takes in memory.
  int64_t byte_size() const;
};

// Codes [n, k], a byte each, scales and zero points [n, blocks] as a packed matrix. `scales` are rounded to
// `scale_type`; zeros may be empty. n is at least 16, k at least 32, block a multiple of 16, or at least k.
std::shared_ptr<const PackedMatrix> Pack(PackedType type, int64_t n, int64_t k, int64_t block,
                                         std::span<const uint8_t> codes, std::span<const float> scales,
                                         std::span<const float> zeros, int32_t zero, DType scale_type);

// One whose codes are synthetic bytes and whose scales are synthetic numbers, so that its numbers spread
// about as evenly over [-spread, spread] would.
std::shared_ptr<const PackedMatrix> SyntheticPacked(PackedType type, int64_t n, int64_t k, int64_t block,
                                                    DType scale_type, uint64_t key, float spread);

// The constant [n, k] of `dtype` that stands for it.
std::shared_ptr<const ConstantData> PackedConstant(std::shared_ptr<const PackedMatrix> matrix, DType dtype,
                                                   std::string name);

// The same codes with other scales, f32: [n, blocks] of blocks that are parts of its own.
std::shared_ptr<const PackedMatrix> Rescaled(const PackedMatrix& matrix, int64_t block,
                                             std::span<const float> scales);
// The matrix [k, n]. Null unless all its numbers have one zero point, 16 rows or more have the same scales,
// and it is large enough.
std::shared_ptr<const PackedMatrix> Transposed(const PackedMatrix& matrix);

// The scale and the zero point of the number in row `row` and column `at`; codes and scales have bytes.
float ScaleOf(const PackedMatrix& matrix, int64_t row, int64_t at);
float ZeroOf(const PackedMatrix& matrix, int64_t row, int64_t at);

// Its numbers, row by row.
std::vector<float> Unpacked(const PackedMatrix& matrix);
// The matrix that the inputs of a packed kMatMul hold.
PackedMatrix PackedOf(const PackedAttrs& attrs, int64_t n, int64_t k,
                      std::span<const std::shared_ptr<const ConstantData>> inputs);

}  // namespace rondo::ir
