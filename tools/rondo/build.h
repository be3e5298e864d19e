// Which build of Rondo this command is.
#pragma once

namespace rondo::tools {

// "rondo 0.2.0 (commit 1a2b3c4d5e6f, Release, GNU 12.2.0)"; "commit ... and changes" where files differ from
// it, "no git checkout" where there is none. Made anew with each build, in a file of its own
// (tools/cmake/WriteBuild.cmake), so that nothing else is compiled for a commit.
extern const char* const kBuild;

}  // namespace rondo::tools
