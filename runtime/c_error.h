// The error object of the C interface, for librondo and the libraries beside it. Internal to runtime/.
#pragma once

#include "core/status.h"
#include "runtime/rondo.h"

// Allocated with the system's malloc, except for an immortal one, which is never destroyed.
struct rondo_error {
  rondo::Status status;
  bool immortal = false;
};
