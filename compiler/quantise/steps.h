// The steps of the passes of quantise.h, a file each. Each returns how many places it changed; whoever calls
// it tidies the graph. Internal to compiler/quantise.
#pragma once

#include <optional>
#include <vector>

#include "compiler/passes/match.h"

namespace rondo::passes {

// ------------------------------------------------------------------------------- LowerQuantised

// Rows of a constant table that is widened and scaled (quantised embeddings) are read first, and the work is
// done for them alone. Tables of at most `fold_bytes` that are read otherwise as well are left to be folded.
int64_t SinkDequantiseBelowGather(Graph* graph, int64_t fold_bytes);
// Convolutions of few channels a group stay, but, unless target.integer_epilogues, those of one.
int64_t LowerToIntegers(Graph* graph, const TargetTraits& target);
int64_t LowerToFp8(Graph* graph);
// Weights of 8 bits that matmuls of floats alone read are packed; `bytes`: of those weights.
int64_t KeepWeightBytes(Graph* graph, int64_t* bytes);

// ------------------------------------------------------------------------------- FuseQuantRange

// A product of bytes with one row, quantised by its range, is sums that find the range.
int64_t SumSmallMatmuls(Graph* graph);
// The range of a picture times a factor a channel comes from extremes of its channels.
int64_t FindScaledRanges(Graph* graph);
// The kernel that computes a picture combines its extremes.
int64_t FindRangesInProducers(Graph* graph);
// What quantises a picture finds its range: at once if the picture is small, else in each row.
int64_t FindRangesInReaders(Graph* graph, bool clusters);

// Lines of a picture that is another one times a factor a line: their extremes follow from that one's.
// Rounding keeps order, so that of x times s, for one s, the greatest is the greatest of (greatest x) times s
// and (least x) times s, whatever the sign of s: to the bit, as long as all numbers are finite.
struct ScaledLines {
  NodeId picture = kNoNode;  // x times s
  std::vector<int> axes;     // of the picture, along which its lines are
};
// If `id` is the extremes of lines as FindScaledRanges makes them: whose.
std::optional<ScaledLines> ScaledLinesOf(Graph& graph, NodeId id);

// The picture of which `id`, one number, is the greatest or the least of all elements, found in one step or
// in several; kNoNode if it is no such number.
NodeId ReducedPicture(const Graph& graph, NodeId id);

// --------------------------------------------------------------------------------------- both

// Replaces matmuls and convolutions by what `rewrite(id)` makes of them. Where it returns kNoNode, what it
// added is taken back. Returns how many were replaced.
template <typename Rewrite>
int64_t ReplaceMatmuls(Graph* graph, Rewrite rewrite) {
  int64_t replaced = 0;
  for (NodeId id : graph->TopologicalOrder()) {
    const Op op = graph->node(id).op;
    if (op != Op::kMatMul && op != Op::kConv) continue;
    graph->Try();
    const NodeId product = rewrite(id);
    if (product == kNoNode || !graph->KeepsAnnotations(id, product)) {
      graph->TakeBack();
      continue;
    }
    graph->Keep();
    graph->Replace(id, product);
    ++replaced;
  }
  return replaced;
}

}  // namespace rondo::passes
