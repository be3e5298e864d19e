// kernels.ptx and norm_*.ptx, zero-terminated.
#pragma once

namespace rondo::cuda {

extern const char kSmallKernelsText[];
// One for each type and number of ranks: f32 for up to 2, 4 and 8, then f16, then bf16.
inline constexpr int kSmallNorms = 9;
extern const char* const kSmallNormTexts[kSmallNorms];

}  // namespace rondo::cuda
