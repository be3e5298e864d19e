// The engines of this build: the same sources compiled for several instruction sets.
#pragma once

#include "drivers/host/engine.h"

namespace rondo::host {

namespace baseline {
void FillEngine(Engine* engine);
}
namespace avx2 {
void FillEngine(Engine* engine);
}
namespace avx512 {
void FillEngine(Engine* engine);
}

}  // namespace rondo::host
