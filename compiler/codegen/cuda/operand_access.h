// The memory layout of operands along the loops of their part: flat addresses, and accesses as vectors.
// Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/codegen/cuda/part_context.h"
#include "core/kernel.h"

namespace rondo::cuda {

// Floats that tensor cores multiply directly.
constexpr bool Is16Bit(DType type) { return type == DType::kF16 || type == DType::kBF16; }
// A type whose elements vectors are made of.
constexpr bool HasVectors(DType type) { return type == DType::kF32 || Is16Bit(type); }
// Types that tapes read and write as vectors, too.
constexpr bool HasTapeVectors(DType type) {
  return type == DType::kI8 || type == DType::kU8 || type == DType::kBool || type == DType::kI32 ||
         IsFp8(type);
}

// An operand's address with its guards folded in: element `offset` + strides, and the coordinates that must
// lie within their extents. Guards that always hold are dropped.
struct FlatOperand {
  struct Coordinate {
    int64_t offset = 0, extent = 0;
    std::vector<int64_t> strides;  // one a loop
  };
  int64_t offset = 0;
  std::vector<int64_t> strides;  // one a loop
  std::vector<Coordinate> coordinates;
};

FlatOperand Flatten(const Part& part, const Operand& operand);

inline bool Is8Bit(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// Whether the loops alone determine the element, and it always exists.
inline bool IsPlain(const Operand& operand) { return operand.indirects.empty() && operand.guards.empty(); }

// Whether loop `along` changes the element, by a stride, a guard or an index.
bool MovesAlong(const Part& part, const Operand& operand, size_t along);

// The number of elements of `operand` along loop `along` that can be accessed as one aligned vector of at
// most 16 bytes: a power of two; 1 if there is no such vector.
int VectorAlong(const Part& part, const Operand& operand, size_t along, const ParamFacts& facts);

// Whether the elements of operand `index` at `lanes` neighbouring points along the loop can be accessed as
// vectors of 4 to 16 bytes.
bool FitsLanes(const PartContext& context, size_t index, size_t along, int lanes);

// Whether the indices of `lanes` neighbouring points differ and can be read as vectors of 32-bit integers.
bool IsVectorIndex(const PartContext& context, const Indirect& indirect, size_t along, int lanes);

// The most lanes that suit all `operands` that move along the loop; 1: none.
int LanesFor(const PartContext& context, Span<const size_t> operands, size_t along);

// Whether the operand's elements lie one after another in the order of the loops' points, however odd the
// extents are, so that vectors of `lanes` begin at aligned places.
bool IsFlat(const PartContext& context, size_t index, int lanes);

// Operands of the tape's instructions of one kind, each once.
std::vector<size_t> Touched(Tape tape, TapeOp op);

// Whether these operands are constant, so that they can be read before the kernels ahead are complete.
bool AreConstant(const PartContext& context, Span<const uint16_t> operands);

// Whether these operands are constant, and come from memory in every run, since L2 does not hold all
// constants that a run reads.
bool AreStreamed(const PartContext& context, Span<const uint16_t> operands);

// Whether an operand writes the parameter.
bool IsWritten(const Part& part, uint16_t param);

}  // namespace rondo::cuda
