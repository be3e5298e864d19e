// Opens the libraries of custom ops that a driver's options name. Internal to drivers/capi.
#pragma once

#include <cstddef>

#include "core/custom_op.h"
#include "core/driver_handle.h"

namespace rondo {

// A driver's handle, and the ops that the driver calls.
struct HandleWithOps : rondo_driver {
  OpRegistry ops;
};

// Opens `count` libraries into `ops`. `options` is the name of the struct that names them.
inline Status LoadOpLibraries(const char* options, const char* const* paths, size_t count, OpRegistry* ops) {
  for (size_t i = 0; i < count; ++i) {
    if (paths == nullptr || paths[i] == nullptr) {
      return Status::Error(Code::kInvalidArgument, "%s: %zu op_libraries, but path %zu is NULL", options,
                           count, i);
    }
    RONDO_RETURN_IF_ERROR(ops->Load(paths[i]));
  }
  return Status::Ok();
}

}  // namespace rondo
