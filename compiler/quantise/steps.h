// The steps of the passes of quantise.h, one file each. Each returns the number of places it changed; the
// caller tidies the graph. Internal to compiler/quantise.
#pragma once

#include <optional>
#include <vector>

#include "compiler/passes/match.h"

namespace rondo::passes {

// ------------------------------------------------------------------------------- LowerQuantised

// Constant tables that are dequantised as a whole (quantised embeddings) are gathered first, and only the
// rows read are dequantised. Tables of at most `fold_bytes` with other readers are left to be folded.
int64_t SinkDequantiseBelowGather(Graph* graph, int64_t fold_bytes);
// Skips convolutions of few channels a group; without target.integer_epilogues it still takes those with one.
int64_t LowerToIntegers(Graph* graph, const TargetTraits& target);
int64_t LowerToFp8(Graph* graph);
// Packs 8-bit weights that only float matmuls read; `bytes`: their size.
int64_t KeepWeightBytes(Graph* graph, int64_t* bytes);

// ------------------------------------------------------------------------------- FuseQuantRange

// A byte matmul with one row, quantised by its range, becomes sums that also find the range.
int64_t SumSmallMatmuls(Graph* graph);
// The range of an image times a per-channel factor is computed from the extremes of its channels.
int64_t FindScaledRanges(Graph* graph);
// The kernel that computes an image also computes its extremes.
int64_t FindRangesInProducers(Graph* graph);
// The kernel that quantises an image computes its range: at once if the image is small, otherwise in each
// row.
int64_t FindRangesInReaders(Graph* graph, bool clusters);

// Lines of an image that is another image times a factor for each line: their extremes follow from that
// image's. Rounding is monotonic, so for x times s with one s, the maximum is the larger of (max x) times s
// and (min x) times s, whatever the sign of s: bit-identical as long as all numbers are finite.
struct ScaledLines {
  NodeId picture = kNoNode;  // x times s
  std::vector<int> axes;     // of the image, along which its lines run
};
// The image, if `id` is the extremes of lines as FindScaledRanges makes them.
std::optional<ScaledLines> ScaledLinesOf(Graph& graph, NodeId id);

// The image of which `id`, a single number, is the maximum or minimum over all elements, found in one step or
// several; kNoNode for other nodes.
NodeId ReducedPicture(const Graph& graph, NodeId id);

}  // namespace rondo::passes
