// The subcommands, one file each.
#pragma once

#include <memory>

#include "tools/rondo/options.h"

namespace rondo::tools {

std::unique_ptr<Command> MakeBenchCommand();     // bench.cc
std::unique_ptr<Command> MakeCheckCommand();     // check.cc
std::unique_ptr<Command> MakeCompareCommand();   // compare.cc
std::unique_ptr<Command> MakeCompileCommand();   // compile.cc
std::unique_ptr<Command> MakeFlightCommand();    // flight.cc
std::unique_ptr<Command> MakeGenerateCommand();  // generate.cc
std::unique_ptr<Command> MakeInspectCommand();   // inspect.cc
std::unique_ptr<Command> MakeOpsCommand();       // ops.cc
std::unique_ptr<Command> MakePackCommand();      // pack.cc
std::unique_ptr<Command> MakeProfileCommand();   // profile_plan.cc
std::unique_ptr<Command> MakeRunCommand();       // run.cc
std::unique_ptr<Command> MakeServeCommand();     // serve.cc
std::unique_ptr<Command> MakeSignCommand();      // sign.cc
std::unique_ptr<Command> MakeTestCommand();      // test.cc
std::unique_ptr<Command> MakeTuneCommand();      // tune.cc
std::unique_ptr<Command> MakeWeightsCommand();   // weights.cc

}  // namespace rondo::tools
