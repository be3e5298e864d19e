// The prepared form of matmuls. Words: see program.h. A convolution is also a matmul, of its windows;
// convolution/ has the variants that compute it in another way.
#pragma once

#include "core/packed_weights.h"
#include "core/weight_panels.h"
#include "drivers/host/program.h"

namespace rondo::host {

inline constexpr int kFewRows = 8;  // matmuls with at most this many rows stream their rhs

// The groups of a nest: outer loops, M, N and K.
inline constexpr int kOuter = 0, kM = 1, kN = 2, kK = 3;

// One right-hand side.
struct RhsProgram {
  const Access* by_n = nullptr;  // lanes along n
  bool k_unit = false;           // element (k, n) is at k + lane(n): rows of n
  int64_t k_step = 0;            // elements per step of the (single) k loop
  int64_t stored = 0;            // panels of the plan: floats from each to the next. 0: packed in every run
};

// An epilogue that register blocks apply to their sums before they store them: up to kMostAdded operands are
// added, then the result is clamped. All are contiguous floats along n, in evenly spaced rows along m.
inline constexpr int kMostAdded = 2;
struct BlockEnd {
  const Access* result = nullptr;  // null: the epilogue is something else
  int64_t row = 0;                 // elements between rows of the result
  int added = 0;
  const Access* add[kMostAdded] = {};
  int64_t add_row[kMostAdded] = {};
  float low = -__builtin_inff(), high = __builtin_inff();
};

// The common fields of all variants.
struct MatmulPart : PartProgram {
  Tiling tiling;  // of group n
  Program epilogue;
  BlockEnd end;  // the same epilogue, where it is simple
  // How many rows along the innermost loop of group m one epilogue covers, each with all of n. 1: one tile at
  // a time.
  int64_t epilogue_rows = 1;
  int num_rhs = 0;
  RhsProgram rhs[kMaxSlots];
  int64_t acc_at = 0, acc_stride = 0;  // accumulators; bytes between those of two rhs
  int64_t acc_row = kLanes;            // accumulators between rows
  int64_t block_rows = 0;              // rows in a task
};

// The lhs, packed along k. For a convolution of planes it is the weight, and the rhs is the input.
struct LeftSide {
  Tiling tiling;                   // of group k
  Program program;                 // lanes along k; yields
  const Access* load = nullptr;    // lanes along k, widened to f32 by the load alone: no tape needed
  const Access* direct = nullptr;  // f32 of unit stride over one k loop, no prologue: read in place
  int64_t at = 0;
  int64_t row = 0;  // elements between rows, if they differ from those of a block
};

// Variant::kAccumulate.
struct AccumulatePart : MatmulPart {
  TapeType acc_type = TapeType::kF32;
  Combine combine = Combine::kProduct;
  bool pool = false;  // there is no weight
  Program step;       // lanes along n, one k; adds to its first num_rhs registers
  int64_t count_at = 0, temp_at = 0;
};

// Variant::kFewRows.
struct FewRowsPart : MatmulPart {
  LeftSide left;
  int64_t tiles_at_once = 1;  // of n
};

// Variant::kGemm.
struct GemmPart : MatmulPart {
  LeftSide left;
  int64_t rhs_at = 0, temp_at = 0;
};

// Packed weights. Layout of the codes: core/packed_weights.h.
inline constexpr int64_t kPackedDepth = 256;  // of k, whole pieces, and columns that are unpacked at a time
inline constexpr int kPackedColumns = 16;
inline constexpr int kMostPanelColumns = 32;
// With more rows than this, codes are unpacked once into memory, not once for every kPackedRows.
inline constexpr int64_t kMostInRegisters = 16;
inline constexpr int kPackedRows = 16;  // rows multiplied together
struct PackedProgram {
  const Access* codes[kMaxSlots] = {};  // lanes along n; `stride` from one n to the next
  const Access* scales[kMaxSlots] = {};
  const Access* zeros[kMaxSlots] = {};  // null: `zero` for all
  int64_t stride = 1, piece = 0, pieces = 0, block = 0, blocks = 0;
  PackedType type = PackedType::kNone;
  uint32_t bits = 0, mask = 0;
  float zero = 0;
  const float* values = nullptr;  // for each code; null: the code itself
  int groups = 1;                 // number of scales within a word along k
  bool whole_pieces = false;      // no piece spans two blocks
  int block_shift = -1;           // block = 1 << block_shift, if it is a power of two
  int64_t rows_at = 0;            // scratch: kPackedRows rows in the order of lanes (packed_sums.h)
};

// Variant::kPacked.
struct PackedPart : MatmulPart {
  LeftSide left;
  int64_t rhs_at = 0, temp_at = 0;
  PackedProgram packed;
};

}  // namespace rondo::host
