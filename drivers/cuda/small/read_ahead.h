// What of the next kernel's weights an all-reduce brings into L2 while it waits for other ranks. Pure
// functions.
#ifndef RONDO_DRIVERS_CUDA_SMALL_READ_AHEAD_H_
#define RONDO_DRIVERS_CUDA_SMALL_READ_AHEAD_H_

#include "core/driver.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "drivers/cuda/small/exchange_layout.h"

namespace rondo::cuda {

// The matrices that the contractions of a kernel stream, of those that nothing writes while a plan runs: by
// parameter, and how many bytes from where it is bound.
struct StreamedWeights {
  struct One {
    uint16_t param = 0;
    uint64_t bytes = 0;
  };
  One of[small::kMostAhead];
  uint32_t count = 0;
};
StreamedWeights WeightsOf(const Kernel& kernel, const KernelImage& image);

// Bytes that are brought at most: what memory gives in about the time that an all-reduce of two ranks takes.
inline constexpr uint64_t kMostReadAhead = uint64_t{8} << 20;

// Has `norm` bring as much of each as its share of all is.
void ReadAhead(const StreamedWeights& weights, Span<const DeviceAddress> addresses, small::Norm* norm);

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_SMALL_READ_AHEAD_H_
