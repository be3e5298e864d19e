// Which build of Rondo this command is.
#pragma once

namespace rondo::tools {

// "rondo 0.2.0 (commit 1a2b3c4d5e6f, Release, GNU 12.2.0)"; "commit ... and changes" if files differ from the
// commit; "no git checkout" without one. It is regenerated with each build in a separate file
// (tools/cmake/WriteBuild.cmake), so that a new commit recompiles nothing else.
extern const char* const kBuild;

}  // namespace rondo::tools
