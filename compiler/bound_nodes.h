// Annotations hold, or the compile fails and says why.
//
// Import notes every node that an annotation binds (BoundNode); passes keep what is bound apart from the rest
// (ir::Graph::KeepsAnnotations, fusion::Context::SamePlace). These two functions trust none of that:
// FollowBoundNodes notes, pass by pass, what became of each node, and AnnotationsHold looks for each
// annotation in the finished steps.
#pragma once

#include <string>

#include "compiler/compilation.h"

namespace rondo {

// After `pass`, while the program is a graph: which of program->bound still run, and what the others became.
void FollowBoundNodes(const char* pass, ProgramInWork* program);

// Once partitions are known. kInvalidArgument, with the node and what stands in the way, where
//  - a step that computes a bound node is not where its annotation says: on another stream, in a graph or out
//    of its region; or, with `fuse: off`, it computes something of another ONNX node;
//  - nothing that an annotation names runs in any program: its node became a constant, say, or no output
//  needs
//    it. Of a pattern, it is enough that one of its nodes runs; `keep` asks for none.
Status AnnotationsHold(const Compilation& compilation, std::string* text);

}  // namespace rondo
