// The prepared form of matmuls: see program.h, whose words these are. A convolution, too, is a matmul of its
// windows; convolution/ has those that are computed otherwise.
#pragma once

#include "core/packed_weights.h"
#include "drivers/host/program.h"

namespace rondo::host {

inline constexpr int kFewRows = 8;  // matmuls with at most so many rows stream their rhs

// The groups of a nest: outer loops, rows, columns, and what is summed over.
inline constexpr int kOuter = 0, kM = 1, kN = 2, kK = 3;

// One right-hand side.
struct RhsProgram {
  const Access* by_n = nullptr;  // lanes along n
  bool k_unit = false;           // element (k, n) is at k + lane(n): rows of n
  int64_t k_step = 0;            // elements per step of the (single) k loop
};

// What all of them have.
struct MatmulPart : PartProgram {
  Tiling tiling;  // of group n
  Program epilogue;
  // Epilogues of several rows at once, along the innermost loop of group m: all of n each. 1: of one tile.
  int64_t epilogue_rows = 1;
  int num_rhs = 0;
  RhsProgram rhs[kMaxSlots];
  int64_t acc_at = 0, acc_stride = 0;  // accumulators; bytes from those of one rhs to the next
  int64_t acc_row = kLanes;            // accumulators from row to row
  int64_t block_rows = 0;              // rows of a task
};

// The left-hand side, packed along k. For a convolution of planes it is the weight, and the rhs the input.
struct LeftSide {
  Tiling tiling;                   // of group k
  Program program;                 // lanes along k; yields
  const Access* load = nullptr;    // lanes along k, widened to f32 by its load alone: no tape needed
  const Access* direct = nullptr;  // f32 of unit stride over one k loop, no prologue: read in place
  int64_t at = 0;
  int64_t row = 0;  // elements from row to row, where they are not those of a block
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

// Weights in fewer bits. How codes lie: core/packed_weights.h.
inline constexpr int64_t kPackedDepth = 256;  // of k, whole pieces, and columns that are unpacked at a time
inline constexpr int kPackedColumns = 16;
inline constexpr int kMostPanelColumns = 32;
// Of more rows in all it takes less time to unpack codes once, into memory, than for every kPackedRows.
inline constexpr int64_t kMostInRegisters = 16;
inline constexpr int kPackedRows = 16;  // that are multiplied together
struct PackedProgram {
  const Access* codes[kMaxSlots] = {};  // lanes along n; `stride` from one n to the next
  const Access* scales[kMaxSlots] = {};
  const Access* zeros[kMaxSlots] = {};  // null: `zero` everywhere
  int64_t stride = 1, piece = 0, pieces = 0, block = 0, blocks = 0;
  PackedType type = PackedType::kNone;
  uint32_t bits = 0, mask = 0;
  float zero = 0;
  const float* values = nullptr;  // of each code; null: the code itself
  int groups = 1;                 // into which scales divide what a word has along k
  bool whole_pieces = false;      // no piece is of two blocks
  int block_shift = -1;           // block = 1 << block_shift, if it is such a number
  int64_t rows_at = 0;            // scratch: kPackedRows rows in the order of lanes (packed_sums.h)
};

// Variant::kPacked.
struct PackedPart : MatmulPart {
  LeftSide left;
  int64_t rhs_at = 0, temp_at = 0;
  PackedProgram packed;
};

}  // namespace rondo::host
