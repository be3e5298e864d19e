// The prepared form of convolutions and pools that are no matmuls: see program.h, whose words these are. The
// input is rhs[0].by_n.
#pragma once

#include "drivers/host/convolution/taps_program.h"
#include "drivers/host/matmul/byte_program.h"

namespace rondo::host {

// Those that read the input where it lies, tap by tap. The points of k are taps.
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
  const Access* out = nullptr;      // lanes side by side
  const float* of_bytes = nullptr;  // what is written for each byte; null: itself
};

// Variant::kDirect. Each tap is a run of `run` points of k.
struct DirectPart : WindowPart {
  int64_t run = 1, run_step = 0, run_weight_step = 0;  // elements of the input, of the weight
  int64_t zeros = 0, zeros_at = 0;                     // floats that stand for an absent tap in all groups
  int64_t taps_at = 0;                                 // scratch: the taps of all points of a block
  int64_t weights_at = 0;                              // scratch: packed
};

// Variant::kPlanes. A plane is copied into scratch with its padding, one *phase* for every offset modulo the
// steps of the kernel, so that the points of a row find any tap in neighbouring floats. All points of all
// rows are computed in one go, those that lie between rows in vain.
inline constexpr int kMaxPlaneAxes = 3;
struct PlaneAxis {
  int64_t points = 1, taps = 1;
  int64_t step = 1, dilation = 1;  // coordinates from point to point, from tap to tap
  int64_t length = 1;              // coordinates that are read; the first counts as 0
  int64_t first = 0, last = 1;     // those inside the input
  int64_t stride = 1;              // elements of the input from one to the next
  int64_t pitch = 1;               // coordinates of one phase
  int64_t phase_floats = 0;        // from phase to phase
  int64_t pitch_floats = 0;        // from one coordinate of a phase to the next
};
struct PlanesProgram {
  PlaneAxis axis[kMaxPlaneAxes];  // the last ones; those before have one coordinate
  int64_t phases = 1, phase = 1;  // floats of a phase
  int64_t points = 1, taps = 1;
  int64_t flat = 0;                     // points of all rows and what lies between
  const int64_t* tap_at = nullptr;      // floats of the phases
  const int64_t* tap_weight = nullptr;  // elements of the weight
};

struct PlanesPart : MatmulPart {
  Combine combine = Combine::kProduct;
  const Access* weight = nullptr;  // null: a pool
  PlanesProgram planes;
  int64_t plane_at = 0, weight_at = 0, count_at = 0;  // scratch
};

// Variant::kChannelBytes. A strip of points along the innermost loop of group m shares its columns: those of
// the input under every tap of the innermost loop of k (horizontal; the others are vertical), a few
// coordinates apart.
struct ChannelStripProgram {
  ChannelInstructions with;
  int64_t vertical = 1, horizontal = 1;        // taps
  int64_t fours = 1;                           // of vertical taps; pairs
  int64_t points = 1;                          // of a strip, at most
  int64_t point_columns = 1, tap_columns = 1;  // from point to point, from one horizontal tap to the next
  int64_t unit = 0;                            // bytes of the input from column to column
  const int64_t* guard_unit = nullptr;         // coordinates from column to column, of each guard
  // Scratch. Weights are made when a worker first needs them in a launch, and kept: so many bytes for each
  // step of channels of a tile, of which made_at says whether, and as what, they are there.
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
