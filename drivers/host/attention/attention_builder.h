// Attention: queries against keys and values, a few queries at a time.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

Status BuildAttention(PartContext& c, PartProgram** out);

}  // namespace rondo::host
