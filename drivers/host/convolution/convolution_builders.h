// The variants of convolutions and pools that are not matmuls: whether each fits, and how it is built.
// `Build...` may leave *out null: then the variant does not fit after all.
#pragma once

#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Depthwise convolutions and pools of f32 with contiguous channels (Variant::kChannels).
bool FitsChannels(const PartContext& c);
Status BuildChannels(PartContext& c, PartProgram** out);

// Depthwise convolutions of 8-bit integers with contiguous channels (Variant::kChannelBytes).
bool FitsChannelBytes(const PartContext& c);
Status BuildChannelBytes(PartContext& c, PartProgram** out);

// f32 convolutions with few output channels in a group (Variant::kDirect).
bool FitsDirect(const PartContext& c);
Status BuildDirect(PartContext& c, PartProgram** out);

// Depthwise convolutions and pools of f32 whose channels are planes (Variant::kPlanes).
bool FitsPlanes(const PartContext& c);
Status BuildPlanes(PartContext& c, PartProgram** out);

// Maximum pools of 8-bit integers (Variant::kBytePool).
bool FitsBytePool(const PartContext& c);
Status BuildBytePool(PartContext& c, PartProgram** out);

// Computes the offsets of the taps of `input` and of `weight` (null: a pool), and the range of their
// coordinates, which is added to the guards' tests. If `run` is not -1, each tap covers all of loop `run` of
// k.
Status BuildTaps(PartContext& c, const Access& input, const Access* weight, int run, Taps* taps);

}  // namespace rondo::host
