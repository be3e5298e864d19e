// The prepared form of reductions: see program.h, whose words these are.
#pragma once

#include "drivers/host/map/map_program.h"

namespace rondo::host {

struct StageProgram {
  bool per_row = false;
  uint32_t resets = 0;  // bit s: scalar s starts anew in this stage
  Program program;
  // Variant::kOneRow. All that the stage does of elements is to look for the least or the greatest of floats
  // (slots; -1: not that one), or to make bytes of them by its last instructions (`straight` and two more: an
  // operation and a store), for which those before it are the same everywhere. The floats lie one behind the
  // other along the innermost loop, and run_step apart from there on.
  const Access* floats = nullptr;
  int64_t run_step = 0;
  uint32_t straight = 0;  // instructions that load and compute the floats
  int least = -1, greatest = -1;
  bool quantises = false;
  // The floats are first multiplied by a per-channel factor, and a per-channel term is added; channels are
  // the points of the innermost loop.
  const Access *factors = nullptr, *terms = nullptr;
  float low = -__builtin_inff(), high = __builtin_inff();  // what a term was added to is limited to
  const TransposeProgram* transpose = nullptr;             // in place of `program`
};

// A row scalar: how it is accumulated.
struct ScalarSlot {
  TapeOp reduce = TapeOp::kConst;  // kReduce..., or kConst if only set
  TapeType type = TapeType::kF32;
  TapeType of = TapeType::kF32;  // of the values compared (arg reductions)
  bool last = false;             // arg reductions: the last extreme
};

// Rows whose stages are a softmax of rows that lie one element behind the other: exp(x - greatest), over the
// sum of those. x are floats, or (byte - zero) * scale; what comes of them is stored as it is, or as bytes by
// `quantise`, which reads and writes memory (Engine::quantise).
struct SoftmaxProgram {
  const Access *from = nullptr, *to = nullptr;
  float zero = 0, scale = 1;
  const Inst* quantise = nullptr;
};

struct ReductionPart : PartProgram {
  Tiling tiling;  // of the lane group
  const StageProgram* stages = nullptr;
  int num_stages = 0;
  ScalarSlot scalars[kMaxSlots];
  int num_scalars = 0, num_kept = 0;
  TapeType kept_type[kMaxSlots] = {};
  int64_t kept_at = 0, kept_stride = 0, scalars_at = 0;
  const SoftmaxProgram* softmax = nullptr;  // kRows: in place of the stages
  const int* phase_stage = nullptr;         // kOneRow: the stage of elements of each phase
};

}  // namespace rondo::host
