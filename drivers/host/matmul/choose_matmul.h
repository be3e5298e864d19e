// Chooses the variant for a matmul, a convolution or a pool.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

Status BuildMatmul(PartContext& c, PartProgram** out);

}  // namespace rondo::host
