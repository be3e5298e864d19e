// Launch: of how many processes this is one, as mpirun, torchrun or srun say in its environment, and how they
// meet.
#ifndef RONDO_TOOLS_RONDO_LAUNCH_H_
#define RONDO_TOOLS_RONDO_LAUNCH_H_

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
  // Of the processes of one machine: which this is, and how many; 0: not known.
  uint32_t local = 0, locals = 0;
  std::string address;   // of kTorchrun and kSrun: "host:port"
  bool store = false;    // torchrun's own store listens there
  std::string job = "";  // at the store
  std::string secret;    // RONDO_SECRET: what all of them know and no one else; empty: none
};

// What `value` says of a variable: null where it is not set. A process of its own where nothing is said, or
// of one. kInvalidArgument, naming the variable, for what makes no sense.
Result<Launch> ReadLaunch(const char* (*value)(const char* name));
// That of this process's environment.
Result<Launch> ReadLaunch();

// Returns when all have come; null for a process of its own.
Result<std::unique_ptr<Processes>> Meet(const Launch& launch, const std::string& library_path,
                                        uint64_t timeout_ns);

// The same for a command that runs plans, with the options that it has: from then on they say with whom. All
// but process 0 print nothing but errors: what goes to standard output is dropped.
Status JoinOthers(LoadOptions* load);

// For a command that measures a plan from one process: kInvalidArgument, with the remedy, where a launcher
// has started several.
Status MeasuresAlone(const char* command);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_LAUNCH_H_
