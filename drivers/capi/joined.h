// Connects the processes that a driver's options name. Internal to drivers/capi.
#pragma once

#include <cstring>
#include <memory>

#include "drivers/capi/rondo_processes.h"
#include "drivers/processes/processes.h"

namespace rondo {

// Connects with the processes of `given`; null if `given` is null.
inline Status Join(const rondo_processes* given, std::unique_ptr<Processes>* joined) {
  if (given == nullptr) return Status::Ok();
  if (given->size < sizeof(size_t)) {
    return Status::Error(Code::kInvalidArgument,
                         "rondo_processes: its size is not set; use sizeof(rondo_processes)");
  }
  rondo_processes full = {};
  std::memcpy(&full, given, given->size < sizeof(full) ? given->size : sizeof(full));
  ProcessOptions options;
  options.rank = full.rank;
  options.size = full.count;
  options.place.all_gather = full.all_gather;
  options.place.user = full.user;
  options.place.address = full.address;
  if (full.secret != nullptr) options.secret = full.secret;
  if (full.timeout_nanoseconds != 0) options.timeout_ns = full.timeout_nanoseconds;
  RONDO_ASSIGN_OR_RETURN(Processes * made, Processes::Connect(options));
  joined->reset(made);
  return Status::Ok();
}

}  // namespace rondo
