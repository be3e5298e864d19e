// Fusion: an ir::Graph becomes kernels.
//
// Every node is computed inside exactly one kernel part; movement costs nothing, because a part reads its
// operands through composed index maps and its loops are split and reordered until those maps are plain
// strides. In order:
//   prepare    what must have memory of its own gets it: graph outputs, copies for concatenation and scatter
//   group      matmuls, convolutions and attention take the pointwise work after them (epilogues), row
//              reductions the pointwise and reductions around them, what is left forms maps; producers that
//              nothing else reads are computed where they are used, whatever loop order the reader has
//   place      values get their memory, in the order of elements that their readers want
//   emit       each group becomes a part: loops, accesses, tapes; where that shows that no loops can read
//   what
//              a node reads, the node becomes a constraint (constraints.h), and groups are formed again
//   siblings   independent parts at the same depth become one kernel
//
// A pure function; thread-safe. Errors: kUnsupported for a graph that the skeletons cannot express (a part
// with more than kMaxLoops loops), kInternal for a broken promise of the IR; both name source nodes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/target_traits.h"
#include "core/status.h"

namespace rondo {

using NodePair = std::pair<ir::NodeId, ir::NodeId>;

struct FuseOptions {
  TargetTraits target = HostTraits();
  bool epilogues = true;               // pointwise work after matmuls, convolutions and attention
  bool reductions = true;              // pointwise work around row reductions
  bool inlining = true;                // pointwise producers into their only reader
  int64_t longest_kept_row = 1 << 20;  // elements of a row that may be kept on chip between stages
  // The same of longer rows, and few, where a GPU's multiprocessors share them: one value of each element.
  int64_t least_shared_row = 0, most_shared_row = 0, most_shared_rows = 0;
  bool tf32 = false;                            // factors of f32 products may be rounded to tf32
  bool siblings = true;                         // independent parts into one kernel
  int64_t device = 0;                           // that the program is for, among those of its collectives
  std::vector<NodePair> apart;                  // each both ways round, ascending: never in one part
  std::vector<ir::LoopCondition> needed_where;  // of a loop's body: LoopInfo::when
  double least_skipped = 1 << 16;  // multiplications that a condition must save, for kernels to look at it
};

struct FuseReport {
  int nodes = 0;     // compute nodes of the graph
  int parts = 0;     // parts before sibling fusion
  int kernels = 0;   // ops of the result
  int copies = 0;    // nodes that had to be copied to dense memory
  int rounds = 0;    // of grouping and emission, each with more constraints than the one before
  std::string text;  // one sentence
};

Result<LoweredProgram> Fuse(ir::Graph graph, const FuseOptions& options, FuseReport* report);

}  // namespace rondo
