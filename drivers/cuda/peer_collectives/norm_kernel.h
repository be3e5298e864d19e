// NormOf: kernels that add a residual and take the norm of the sum, which an all-reduce can do in one go with
// its own work. Pure functions of contracts.
#pragma once

#include <optional>

#include "core/driver.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "drivers/cuda/peer_collectives/exchange_layout.h"

namespace rondo::cuda {

// What such a kernel does, by its parameters: s = addends[0] + addends[1] + ..., in this order; s rounded to
// `sum`; of each row of s its norm, as small::Norm has it, to `normed`. All are of `dtype`.
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
  bool wide_rows = false;      // scale and bias are f32, whatever `dtype` is
  bool constant_rows = false;  // nothing writes scale and bias while a plan runs
};

// Nothing: the kernel does something else, in another order, or of tensors that lie otherwise. The text of
// `binary` is one whose sums are those of peer_collectives/norm.h (rows whose vectors are kept by their
// threads), so that the bits are.
std::optional<NormKernel> NormOf(const Kernel& kernel, const KernelBinary& binary);

// What a launch of it with `addresses` does after an all-reduce of `bytes` at `from` to `to`; nothing: it
// does not add what is at `to`, or what one thread writes another might have to read.
std::optional<small::Norm> NormAfter(const NormKernel& kernel, const SyncPoint& point, DeviceAddress from,
                                     DeviceAddress to, Span<const DeviceAddress> addresses);

}  // namespace rondo::cuda
