// What `rondo compile` prints about a plan that it has compiled, and about the compiler's passes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/compile.h"
#include "tools/rondo/command_output.h"

namespace rondo::tools {

// Prints how a whole model was sharded (if `shared_out`), and the remarks of import besides its counts.
// Weights on every device are summed up in one line, unless `verbose`.
void PrintRemarks(const CompileReport& report, bool shared_out, bool verbose, CommandOutput* out);

// Prints the size of the plan at `path`, and of each program its steps, partitions and arena.
void PrintSummary(const CompileReport& report, const std::string& path, CommandOutput* out);

// The whole report, for --json.
nlohmann::ordered_json CompileReportJson(const CompileReport& report, const std::string& path);

// Prints the table of passes and what holds after each. Returns the command's exit status.
int ListPasses(CommandOutput* out);

}  // namespace rondo::tools
