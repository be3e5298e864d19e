// The `cuda` driver: plans on NVIDIA GPUs, through the driver API.
//
// One primary context a device, held from the first Open until the driver is destroyed and pushed for the
// length of each call: a caller's own current context is never changed. Graphs are captured from a stream and
// instantiated and uploaded in EndRecord. Devices may be used from several threads as core/driver.h says.
#ifndef RONDO_DRIVERS_CUDA_CUDA_DRIVER_H_
#define RONDO_DRIVERS_CUDA_CUDA_DRIVER_H_

#include "core/driver.h"
#include "core/status.h"

namespace rondo {

// Errors: kUnsupported when the machine has no NVIDIA driver, too old a one, or no device.
Result<Driver*> CreateCudaDriver();
void DestroyCudaDriver(Driver* driver);

}  // namespace rondo

#endif  // RONDO_DRIVERS_CUDA_CUDA_DRIVER_H_
