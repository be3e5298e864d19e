// Connects processes that mpirun (or srun, with MPI) has started, through MPI.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/status.h"
#include "drivers/processes/processes.h"

namespace rondo {

// Opens Open MPI's library (4 or 5; first in the folders of `library_path`, null: none), starts MPI, has the
// processes of MPI_COMM_WORLD meet and connect, and ends MPI again. After that they use connections of their
// own, so that the others notice when one ends. Rank, size and place come from MPI; `secret` is that of
// ProcessOptions. Only for programs that do not use MPI themselves: those pass an all_gather of theirs.
Result<Processes*> ConnectThroughMpi(const char* library_path, uint64_t timeout_ns, std::string_view secret);

}  // namespace rondo
