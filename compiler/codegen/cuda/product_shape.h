// ProductShape: a contraction or convolution as the product of two flat matrices. Internal to
// compiler/codegen/cuda.
//
//   acc_j[batch, row, column] = sum over depth of lhs[batch, row, depth] * rhs_j[batch, column, depth]
//
// Each flat number counts through some loops of the part, the last one fastest. A convolution is such a
// product too: rows are output points, columns output channels, depth the kernel's points and the input
// channels.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_PRODUCT_SHAPE_H_
#define RONDO_COMPILER_CODEGEN_CUDA_PRODUCT_SHAPE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel.h"

namespace rondo::cuda {

// A type that tensor cores multiply as it is.
constexpr bool Is16Bit(DType type) { return type == DType::kF16 || type == DType::kBF16; }

// What is known of the memory bound to a parameter, whichever step binds it.
struct ParamFacts {
  uint64_t alignment = 1;  // bytes
  bool constant = false;   // never written while a plan runs
};

// An operand's address with its guards folded in: element `offset` + strides, and the coordinates that must
// lie within their extents. Guards that cannot fail are left out.
struct FlatOperand {
  struct Coordinate {
    int64_t offset = 0, extent = 0;
    std::vector<int64_t> strides;  // one a loop
  };
  int64_t offset = 0;
  std::vector<int64_t> strides;  // one a loop
  std::vector<Coordinate> coordinates;
};

// Whether nothing but the loops says which element of the operand is meant, or whether there is one.
inline bool IsPlain(const Operand& operand) { return operand.indirects.empty() && operand.guards.empty(); }

FlatOperand Flatten(const Part& part, const Operand& operand);

// Elements of `operand` that lie one after another along loop `along` and can be accessed as one aligned
// vector of at most 16 bytes: a power of two, 1 if there is no such vector.
int VectorAlong(const Part& part, const Operand& operand, size_t along, const ParamFacts& facts);

struct ProductShape {
  std::vector<size_t> batch, row, column, depth;  // loops of the part
  int64_t batches = 1, rows = 1, columns = 1, depths = 1;
  // How either side is read: elements a vector, and whether vectors lie along the depth (else along rows or
  // columns). 1: element by element.
  int lhs_vector = 1, rhs_vector = 1;
  bool lhs_along_depth = true, rhs_along_depth = true;
};

// None if the part's sides do not fit (an index from data on a side, a side that moves with the other's
// loops, several right sides that lie differently).
std::optional<ProductShape> ShapeOfProduct(const Part& part, Span<const ParamFacts> params);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_PRODUCT_SHAPE_H_
