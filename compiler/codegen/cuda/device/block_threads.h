// The threads of a block.
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// Of most launches; templates that want others say so.
enum : int { kBlockThreads = 256, kBlockWarps = kBlockThreads / 32 };

}  // namespace rondo::cuda
