// The first elements of each row, in order.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

Status BuildTopK(PartContext& c, PartProgram** out);

}  // namespace rondo::host
