// kernels.ptx and norm_*.ptx, zero-terminated.
#ifndef RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_KERNELS_TEXT_H_
#define RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_KERNELS_TEXT_H_

namespace rondo::cuda {

extern const char kSmallKernelsText[];
// One for each type and number of ranks: f32 for up to 2, 4 and 8, then f16, then bf16.
inline constexpr int kSmallNorms = 9;
extern const char* const kSmallNormTexts[kSmallNorms];

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_KERNELS_TEXT_H_
