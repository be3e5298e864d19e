// The variants of convolutions and pools that are no matmuls: whether each fits, and what it needs.
// `Build...` may leave *out null: the variant does not fit after all.
#pragma once

#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Depthwise convolutions and pools of f32 channels that lie side by side (Variant::kChannels).
bool FitsChannels(const PartContext& c);
Status BuildChannels(PartContext& c, PartProgram** out);

// Depthwise convolutions of 8-bit channels that lie side by side (Variant::kChannelBytes).
bool FitsChannelBytes(const PartContext& c);
Status BuildChannelBytes(PartContext& c, PartProgram** out);

// f32 convolutions of few output channels a group (Variant::kDirect).
bool FitsDirect(const PartContext& c);
Status BuildDirect(PartContext& c, PartProgram** out);

// Depthwise convolutions and pools of f32 channels that are planes (Variant::kPlanes).
bool FitsPlanes(const PartContext& c);
Status BuildPlanes(PartContext& c, PartProgram** out);

// Greatest 8-bit integers of windows (Variant::kBytePool).
bool FitsBytePool(const PartContext& c);
Status BuildBytePool(PartContext& c, PartProgram** out);

// Where the taps of `input` lie, and of `weight` (null: a pool), and the range of their coordinates, which
// the guards' tests then allow for. Each tap is all of loop `run` of k, if that is not -1.
Status BuildTaps(PartContext& c, const Access& input, const Access* weight, int run, Taps* taps);

}  // namespace rondo::host
