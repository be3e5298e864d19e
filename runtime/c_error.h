// What an error of the C interface is: librondo and the libraries beside it make them. Internal to runtime/.
#pragma once

#include "core/status.h"
#include "runtime/rondo.h"

// In memory of the system's malloc, but for an immortal one, which is never destroyed.
struct rondo_error {
  rondo::Status status;
  bool immortal = false;
};
