// The steps of the passes of quantise.h, one file each. Each returns the number of places it changed; the
// caller tidies the graph. Internal to compiler/quantise.
#pragma once

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
// Extremes of small tensors that no kernel computes are found in one reduction.
int64_t FindRangesAtOnce(Graph* graph, bool clusters);
// Other kernels that compute a tensor also compute its extremes.
int64_t CombineRanges(Graph* graph);

// What is read for `id`, if that is the maximum or minimum over all its elements, found in one step or
// several; kNoNode for other nodes.
NodeId ReducedInput(const Graph& graph, NodeId id);
// The same; without its view, if that shows all of a tensor.
NodeId ReducedTensor(const Graph& graph, NodeId id);

}  // namespace rondo::passes
