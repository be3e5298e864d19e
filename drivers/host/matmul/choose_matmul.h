// Which variant computes a matmul, a convolution or a pool.
#ifndef RONDO_DRIVERS_HOST_MATMUL_CHOOSE_MATMUL_H_
#define RONDO_DRIVERS_HOST_MATMUL_CHOOSE_MATMUL_H_

#include "drivers/host/part_context.h"

namespace rondo::host {

Status BuildMatmul(PartContext& c, PartProgram** out);

}  // namespace rondo::host

#endif  // RONDO_DRIVERS_HOST_MATMUL_CHOOSE_MATMUL_H_
