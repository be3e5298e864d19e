// TimedDriver: another driver of one device, and how long its calls took until a session was ready.
#pragma once

#include <memory>

#include "core/driver.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

// Adds to `times` what Open and the calls of device 0 take; both must outlive the result.
std::unique_ptr<Driver> MakeTimedDriver(Driver* inner, ReadyTimes* times);

}  // namespace rondo::tools
