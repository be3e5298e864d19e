// DeclareLoad: the options of commands that run a plan.
#ifndef RONDO_TOOLS_RONDO_LOAD_OPTIONS_H_
#define RONDO_TOOLS_RONDO_LOAD_OPTIONS_H_

#include "tools/rondo/loaded.h"
#include "tools/rondo/options.h"

namespace rondo::tools {

// `to` must outlive the parsing.
void DeclareLoad(OptionSet& options, LoadOptions* to);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_LOAD_OPTIONS_H_
