// Options of commands that read or run a plan, each declared once. Options of commands that compile are in
// model_options.h.
//
// The variables given here must outlive the parsing.
#pragma once

#include <string>
#include <vector>

#include "tools/rondo/loaded.h"
#include "tools/rondo/options.h"

namespace rondo::tools {

// The argument PLAN, of commands that read one plan.
void DeclarePlan(OptionSet& options, std::vector<std::string>* plans, const char* help = "the plan file");
void DeclareIgnoreHashes(OptionSet& options, bool* ignore);
void DeclareKeys(OptionSet& options, std::vector<std::string>* files);
void DeclareProgram(OptionSet& options, std::string* program);
// --input NAME=FILE. `others` ends the help text: it describes the other inputs.
void DeclareInputs(OptionSet& options, std::vector<std::string>* inputs, const char* others = "");
inline constexpr const char* kSyntheticInputs = "; other inputs: integers 0, floats synthetic";
void DeclareTrace(OptionSet& options, std::string* file);
// -o and --merge, of commands that measure.
void DeclareProfile(OptionSet& options, std::string* file, bool* merge);
void DeclareFirstInteger(OptionSet& options, int64_t* first);

void DeclareDriver(OptionSet& options, std::string* driver);
// `--library-path`: the folders in which vendors' libraries are searched.
void DeclareLibraryPath(OptionSet& options, std::string* folders);
void DeclareOps(OptionSet& options, std::vector<std::string>* libraries);
// How a plan is run, without --devices, whose help differs in commands that also compile.
void DeclareRunning(OptionSet& options, LoadOptions* to);
// All options of commands that run a plan.
void DeclareLoad(OptionSet& options, LoadOptions* to);

}  // namespace rondo::tools
