// kernels.ptx and norm_*.ptx, zero-terminated.
#ifndef RONDO_DRIVERS_CUDA_SMALL_KERNELS_TEXT_H_
#define RONDO_DRIVERS_CUDA_SMALL_KERNELS_TEXT_H_

namespace rondo::cuda {

extern const char kSmallKernelsText[], kSmallNormF32Text[], kSmallNormF16Text[], kSmallNormBF16Text[];

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_SMALL_KERNELS_TEXT_H_
