// Errors of the libraries beside librondo, which are of its release. Internal to Rondo.
#pragma once

#include <cstdlib>
#include <new>
#include <utility>

#include "runtime/c_error.h"

namespace rondo {

// Null for OK. Never null for an error.
inline rondo_error* NewError(Status status) {
  if (status.ok()) return nullptr;
  void* block = std::malloc(sizeof(rondo_error));
  if (block != nullptr) return new (block) rondo_error{std::move(status), false};
  // Made once, for use when memory has run out, and never destroyed.
  static rondo_error last_resort{
      Status::Error(Code::kOutOfMemory, "out of host memory while describing another error"), true};
  return &last_resort;
}

}  // namespace rondo
