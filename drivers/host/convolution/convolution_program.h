// The prepared form of convolutions and pools that are not matmuls. Words: see program.h. The input is
// rhs[0].by_n.
#pragma once

#include "drivers/host/convolution/taps_program.h"
#include "drivers/host/matmul/byte_program.h"

namespace rondo::host {

// Variants that read the input in place, tap by tap. The points of k are taps.
struct WindowPart : MatmulPart {
  const Access* weight = nullptr;  // lanes along n; null: a pool
  Taps taps;
};

// Variant::kChannels.
struct ChannelsPart : WindowPart {
  Combine combine = Combine::kProduct;
  int64_t taps_at = 0;  // scratch: the present taps of a point, two arrays
};

// Variant::kBytePool.
struct BytePoolPart : WindowPart {
  const Access* out = nullptr;      // contiguous lanes
  const float* of_bytes = nullptr;  // the number written for each byte; null: the byte itself
};

// Variant::kDirect. Each tap is a run of `run` points of k.
struct DirectPart : WindowPart {
  int64_t run = 1, run_step = 0, run_weight_step = 0;  // elements of the input; elements of the weight
  int64_t last_tap = 0;                                // the greatest of taps.at
  int64_t zeros = 0, zeros_at = 0;                     // floats that replace an absent tap in all groups
  int64_t taps_at = 0;                                 // scratch: the taps of all points of a block
  int64_t weights_at = 0;                              // scratch: packed
  int64_t stored = 0;                                  // RhsProgram::stored of the weight
  bool packs = true;  // false: where a panel is a register block's, it is read in place
};

// Variant::kPlanes. A plane is copied into scratch with its padding, as one *phase* for every offset modulo
// the steps of the kernel, so that the points of a row find any tap in adjacent floats. The points of all
// rows are computed as one run, including unused ones between rows.
inline constexpr int kMaxPlaneAxes = 3;
struct PlaneAxis {
  int64_t points = 1, taps = 1;
  int64_t step = 1, dilation = 1;  // coordinates between points; between taps
  int64_t length = 1;              // coordinates that are read, counted from 0
  int64_t first = 0, last = 1;     // those inside the input
  int64_t stride = 1;              // elements of the input between coordinates
  int64_t pitch = 1;               // coordinates of one phase
  int64_t phase_floats = 0;        // from phase to phase
  int64_t pitch_floats = 0;        // between coordinates of a phase
};
struct PlanesProgram {
  PlaneAxis axis[kMaxPlaneAxes];  // the last axes; unused ones before them have one coordinate
  int64_t phases = 1, phase = 1;  // floats of a phase
  int64_t points = 1, taps = 1;
  int64_t flat = 0;                     // points of all rows, including those between rows
  const int64_t* tap_at = nullptr;      // offsets in the phases, in floats
  const int64_t* tap_weight = nullptr;  // elements of the weight
};

struct PlanesPart : MatmulPart {
  Combine combine = Combine::kProduct;
  const Access* weight = nullptr;  // null: a pool
  PlanesProgram planes;
  int64_t plane_at = 0, weight_at = 0, count_at = 0;  // scratch
};

// Variant::kChannelBytes. A strip of points along the innermost loop of group m shares its columns: the input
// under the taps of the innermost loop of k (horizontal taps), for all other taps (vertical).
struct ChannelStripProgram {
  ChannelInstructions with;
  int64_t vertical = 1, horizontal = 1;        // taps
  int64_t fours = 1;                           // groups of four vertical taps; or of two
  int64_t points = 1;                          // of a strip, at most
  int64_t point_columns = 1, tap_columns = 1;  // columns between points; between horizontal taps
  int64_t unit = 0;                            // bytes of the input between columns
  const int64_t* guard_unit = nullptr;         // coordinates between columns, for each guard
  // Scratch. Weights are converted when a worker first needs them in a launch, and kept: weights_bytes for
  // each step of channels of a tile. made_at records which are there, and in which form.
  int64_t columns_at = 0, weights_at = 0, rows_at = 0, absent_at = 0, sums_at = 0, made_at = 0;
  int64_t weights_bytes = 0;
  int64_t tile_steps = 1;
};
struct ChannelBytesPart : SumsPart {
  const Access* weight = nullptr;  // lanes along n
  Taps taps;
  ChannelStripProgram strip;
};

}  // namespace rondo::host
