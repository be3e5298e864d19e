// Launch: this process's rank among the processes that mpirun, torchrun or srun started, read from the
// environment, and how the processes meet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/status.h"
#include "drivers/processes/processes.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

enum class Launcher { kNone, kMpirun, kTorchrun, kSrun };

struct Launch {
  Launcher launcher = Launcher::kNone;
  uint32_t rank = 0, size = 1;
  // this process's index on its machine, and how many there are; 0: unknown
  uint32_t local = 0, locals = 0;
  std::string address;   // of kTorchrun and kSrun: "host:port"
  bool store = false;    // torchrun's own store listens there
  std::string job = "";  // for the store
  std::string secret;    // RONDO_SECRET, shared by all processes; empty: none
};

// `value` returns an environment variable, or null if it is not set. Without launcher variables, or with one
// process, the result is a single process. kInvalidArgument, naming the variable, for a value that makes no
// sense.
Result<Launch> ReadLaunch(const char* (*value)(const char* name));
// The same from this process's environment.
Result<Launch> ReadLaunch();

// Returns when all processes have met; null for a single process.
Result<std::unique_ptr<Processes>> Meet(const Launch& launch, const std::string& library_path,
                                        uint64_t timeout_ns);

// Meets the others for a command that runs plans; `load` then holds the processes. All processes except 0
// print only errors; their standard output is dropped.
Status JoinOthers(LoadOptions* load);

// For commands that measure from one process: kInvalidArgument, with the remedy, if a launcher started
// several.
Status MeasuresAlone(const char* command);

}  // namespace rondo::tools
