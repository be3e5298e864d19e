// The parameters that a launch passes to a kernel's function. Internal to drivers/cuda.
#pragma once

#include <type_traits>

#include "core/driver.h"
#include "core/plan.h"
#include "core/span.h"
#include "drivers/cuda/cuda_api.h"
#include "formats/machine_code/kernel_params.h"

namespace rondo::cuda {

static_assert(std::is_same_v<void(KERNEL_TAIL), void(FaultRecord*, uint32_t)>, "as Build passes them");
static_assert(sizeof(EncodedMap) == sizeof(TensorMapParam));

// The most parameters of a kernel, and the most tensor maps.
inline constexpr size_t kMostParams = 4096;
inline constexpr size_t kMostMaps = 64;

// The parameters of one launch. They point into this object and to Build's arguments: all must live until the
// kernel has been launched, or the graph's node has been updated.
class LaunchParams {
 public:
  // The addresses, then a tensor map for each of `maps` at those addresses, then the fault record and the
  // step. The device's context is current. Errors: the driver's error for a tensor map.
  Status Build(const Api& api, Span<const DeviceAddress> addresses, Span<const TensorMap> maps,
               FaultRecord* const& faults, const uint32_t& step);
  void** get() { return params_; }

 private:
  EncodedMap maps_[kMostMaps];
  void* params_[kMostParams + kMostMaps + 2];
};

}  // namespace rondo::cuda
