// Attention: queries against keys and values, a few queries at a time.
#ifndef RONDO_DRIVERS_HOST_ATTENTION_ATTENTION_BUILDER_H_
#define RONDO_DRIVERS_HOST_ATTENTION_ATTENTION_BUILDER_H_

#include "drivers/host/part_context.h"

namespace rondo::host {

Status BuildAttention(PartContext& c, PartProgram** out);

}  // namespace rondo::host

#endif  // RONDO_DRIVERS_HOST_ATTENTION_ATTENTION_BUILDER_H_
