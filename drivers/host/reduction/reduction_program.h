// The prepared form of reductions. Words: see program.h.
#pragma once

#include "drivers/host/map/map_program.h"

namespace rondo::host {

struct StageProgram {
  bool per_row = false;
  uint32_t resets = 0;  // bit s: scalar s is reset in this stage
  Program program;
  // Variant::kOneRow. Set if the stage only takes the minimum or maximum of floats (slots; -1: not that one),
  // or only converts floats to bytes by its last two instructions (an operation and a store, after `straight`
  // others, which are the same everywhere). The floats are contiguous along the innermost loop; these runs
  // are run_step apart.
  const Access* floats = nullptr;
  int64_t run_step = 0;
  uint32_t straight = 0;  // instructions that load and compute the floats
  int least = -1, greatest = -1;
  bool quantises = false;
  // The floats are first multiplied by a per-channel factor, and a per-channel term is added; channels are
  // the points of the innermost loop.
  const Access *factors = nullptr, *terms = nullptr;
  float low = -__builtin_inff(), high = __builtin_inff();  // clamps the result of the term
  const TransposeProgram* transpose = nullptr;             // replaces `program`
};

// How a row scalar is accumulated.
struct ScalarSlot {
  TapeOp reduce = TapeOp::kConst;  // kReduce..., or kConst if only set
  TapeType type = TapeType::kF32;
  TapeType of = TapeType::kF32;  // of the values compared (arg reductions)
  bool last = false;             // arg reductions: the last extreme
};

// A softmax over rows of contiguous elements: exp(x - maximum) / sum of these. x are floats, or (byte - zero)
// * scale. Results are stored as they are, or as bytes by `quantise`, which reads and writes memory
// (Engine::quantise).
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
  const SoftmaxProgram* softmax = nullptr;  // kRows: replaces the stages
  const int* phase_stage = nullptr;         // kOneRow: the per-element stage of each phase
};

}  // namespace rondo::host
