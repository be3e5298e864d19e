// TimedDriver: a wrapper around a driver of one device that times its calls until a session is ready.
#pragma once

#include <memory>

#include "core/driver.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

// Adds the times of Open and of device 0's calls to `times`. `inner` and `times` must outlive the result.
std::unique_ptr<Driver> MakeTimedDriver(Driver* inner, ReadyTimes* times);

}  // namespace rondo::tools
