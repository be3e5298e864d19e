// Enforces annotations: each one holds, or the compile fails and says why.
//
// Import records every node that an annotation binds (BoundNode), and passes keep bound nodes apart
// (ir::Graph::KeepsAnnotations, fusion::Context::SamePlace). These two functions do not rely on that:
// FollowBoundNodes records, after each pass, what became of each node, and AnnotationsHold looks for each
// annotation in the finished steps.
#pragma once

#include <string>

#include "compiler/compilation.h"

namespace rondo {

// Call it after `pass`, while the program is a graph. Records which nodes of program->bound still run, and
// what became of the others.
void FollowBoundNodes(const char* pass, ProgramInWork* program);

// Called once partitions are known. kInvalidArgument, naming the node and the conflict, in these cases:
// - A step that computes a bound node is not where its annotation says: on the wrong stream, in a graph, or
//   outside its region, or it also computes something outside its region; or, with `fuse: off`, it also
//   computes part of another ONNX node.
// - No node that an annotation names runs in any program, for example because it became a constant or no
//   output needs it. For a pattern, one running node is enough; `keep` needs none.
Status AnnotationsHold(const Compilation& compilation, std::string* text);

}  // namespace rondo
