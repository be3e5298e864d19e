// Packed constants in 2, 4 or 8 bits, and matmuls that read them.
//
// A constant may represent packed numbers (ConstantData::packed). To every pass it is a constant without
// bytes, like synthetic ones, until the pass `pack_weights` decides which readers use the packed form.
// Functions of values; no state. Layout of the codes: core/packed_weights.h.
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
  // Bytes in memory.
  int64_t byte_size() const;
};

// Packs codes [n, k], one byte each, with scales and zero points [n, blocks]. `scales` are rounded to
// `scale_type`; zeros may be empty. n is at least 16, k at least 32, block a multiple of 16 or at least k.
std::shared_ptr<const PackedMatrix> Pack(PackedType type, int64_t n, int64_t k, int64_t block,
                                         std::span<const uint8_t> codes, std::span<const float> scales,
                                         std::span<const float> zeros, int32_t zero, DType scale_type);

// A matrix with synthetic codes and synthetic scales, whose numbers spread about like a uniform distribution
// over [-spread, spread].
std::shared_ptr<const PackedMatrix> SyntheticPacked(PackedType type, int64_t n, int64_t k, int64_t block,
                                                    DType scale_type, uint64_t key, float spread);

// The constant [n, k] of `dtype` that represents the matrix.
std::shared_ptr<const ConstantData> PackedConstant(std::shared_ptr<const PackedMatrix> matrix, DType dtype,
                                                   std::string name);

// The same codes with other f32 scales: [n, blocks], where `block` divides the matrix's own block.
std::shared_ptr<const PackedMatrix> Rescaled(const PackedMatrix& matrix, int64_t block,
                                             std::span<const float> scales);
// The transposed matrix [k, n]. Null unless all numbers have the same zero point, groups of 16 rows or more
// have equal scales, and it is large enough.
std::shared_ptr<const PackedMatrix> Transposed(const PackedMatrix& matrix);

// The scale (zero point) of the number in row `row` and column `at`; codes and scales must have bytes.
float ScaleOf(const PackedMatrix& matrix, int64_t row, int64_t at);
float ZeroOf(const PackedMatrix& matrix, int64_t row, int64_t at);

// The numbers, row by row.
std::vector<float> Unpacked(const PackedMatrix& matrix);
// The matrix in the inputs of a packed kMatMul.
PackedMatrix PackedOf(const PackedAttrs& attrs, int64_t n, int64_t k,
                      std::span<const std::shared_ptr<const ConstantData>> inputs);

}  // namespace rondo::ir
