// rondo_driver: a driver on its way through the C API (runtime/rondo.h), from the library that makes it to
// the runtime that takes it over. Its layout is shared by the two, which must be of one release.
#pragma once

#include "core/driver.h"
#include "core/status.h"

struct rondo_driver {
  // Null when making the driver failed; `status` then says why, and rondo_runtime_create repeats it.
  rondo::Driver* driver = nullptr;
  rondo::Status status;
  // Destroys the driver and this handle.
  void (*destroy)(rondo_driver* handle) = nullptr;
};
