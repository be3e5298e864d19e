// NormOf: recognises kernels that add a residual and normalise the sum, which an all-reduce can do in the
// same kernel. Pure functions of contracts.
#pragma once

#include <optional>

#include "core/driver.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "drivers/cuda/peer_collectives/exchange_layout.h"

namespace rondo::cuda {

// Such a kernel, by its parameters: s = addends[0] + addends[1] + ..., in this order; `sum` = s, rounded;
// `normed` = the norm of each row of s, as in small::Norm. All are of `dtype`.
struct NormKernel {
  struct Addend {
    uint16_t param = 0;
    bool row = false;  // one row, added to all
  };
  static constexpr uint32_t kMostAddends = 3;
  Addend addends[kMostAddends];
  uint32_t num_addends = 0;
  uint16_t scale = 0, bias = kNoParam, sum = kNoParam, normed = 0;
  DType dtype = DType::kF32;
  uint32_t rows = 0, columns = 0;
  float count = 0, epsilon = 0;
  bool centred = false, rounded = false;
  bool wide_rows = false;      // scale and bias are f32, even if `dtype` is not
  bool constant_rows = false;  // nothing writes scale and bias while a plan runs
};

// No value if the kernel does something else, in another order, or with other layouts. The text of `binary`
// must be one with the summation order of peer_collectives/norm.h (rows whose vectors stay in their threads),
// so that results are bit-identical.
std::optional<NormKernel> NormOf(const Kernel& kernel, const KernelBinary& binary);

// What a launch of the kernel with `addresses` does after an all-reduce of `bytes` from `from` to `to`. No
// value if it does not add the memory at `to`, or if one thread might read what another has overwritten.
std::optional<small::Norm> NormAfter(const NormKernel& kernel, const SyncPoint& point, DeviceAddress from,
                                     DeviceAddress to, Span<const DeviceAddress> addresses);

}  // namespace rondo::cuda
