// All passes of this folder (those for quantised numbers: compiler/quantise/quantise.h). NAME.cc has the pass
// of that name. The comments are the passes' promises.
#pragma once

#include "compiler/passes/pass.h"

namespace rondo::passes {

// Nodes that depend on small constants alone are constants; weights and synthetic weights are unchanged.
Result<PassResult> FoldConstants(ir::Graph* graph, const PassOptions& options);
// There is only one of all equal nodes with equal annotations.
Result<PassResult> EliminateCommonSubexpressions(ir::Graph* graph, const PassOptions& options);
// Every node is needed by an output or an effect.
Result<PassResult> RemoveDead(ir::Graph* graph, const PassOptions& options);
// No node is an identity; cheaper forms replace expensive ones if the result rounds the same or better.
Result<PassResult> Simplify(ir::Graph* graph, const PassOptions& options);
// Graph::states names every input and output that are one persistent buffer.
Result<PassResult> PairState(ir::Graph* graph, const PassOptions& options);
// With options.sample_logits: the program draws the next token of each text, with temperature, top-k, top-p
// and a seed as states, and stores it in a state that a program of one token a text reads.
Result<PassResult> AppendSampling(ir::Graph* graph, const PassOptions& options);
// With options.token_rounds above 1: a program that reads the token it draws does so in so many rounds of a
// run, until all texts have ended.
Result<PassResult> TokenLoop(ir::Graph* graph, const PassOptions& options);
// A concatenation of evenly spaced pieces of one tensor is a view of it times a small vector.
Result<PassResult> RecogniseConcat(ir::Graph* graph, const PassOptions& options);
// A state's output is a chain of kIndexedWrites, each to the whole state, wherever its index maps allow.
// Parts that calls of custom ops change are written to their own places (fusion finds that they lie there).
Result<PassResult> RecogniseUpdates(ir::Graph* graph, const PassOptions& options);
// Softmax of a scaled, masked matmul, multiplied by values, is one kAttention with unrepeated key and value
// heads.
Result<PassResult> RecogniseAttention(ir::Graph* graph, const PassOptions& options);
// A mask that keeps a prefix of the keys of each row is replaced by a limit.
Result<PassResult> RecogniseCausal(ir::Graph* graph, const PassOptions& options);
// Attention over one of options.fixed_caches, to which this run's rows are written, ends with the last
// written row; so does a softmax over numbers computed per position from such a cache. kUnsupported, with the
// node, if another operation mixes positions.
Result<PassResult> LimitToCached(ir::Graph* graph, const PassOptions& options);
// Attention with a sink is decomposed into matmuls and softmax: no kernel supports sinks.
Result<PassResult> DecomposeSinks(ir::Graph* graph, const PassOptions& options);
// In 16-bit attention on tensor cores, an added mask that is a sum of matmuls, each constant over many keys,
// becomes additional features of queries and keys.
Result<PassResult> FoldScoreBias(ir::Graph* graph, const PassOptions& options);
// In 16-bit attention on tensor cores, values with more features than a kernel can sum are split, one
// attention for each part.
Result<PassResult> SplitValues(ir::Graph* graph, const PassOptions& options);
// With options.target.atomics, many updates that add floats at places from data are added as integers, so
// that their order does not matter.
Result<PassResult> SumInIntegers(ir::Graph* graph, const PassOptions& options);
// A matmul with a constant, whose readers take disjoint columns, is one matmul for each of them; with
// options.target.tensor_cores, not one of 256 rows or more that only attention reads.
Result<PassResult> SplitMatmuls(ir::Graph* graph, const PassOptions& options);
// Leftovers of the recognising passes are folded, simplified, merged and removed.
Result<PassResult> CleanUp(ir::Graph* graph, const PassOptions& options);
// Nodes that form a norm, a softmax, a rotary embedding or a gated activation have that as their `label`.
Result<PassResult> Label(ir::Graph* graph, const PassOptions& options);

// Matmuls, convolutions, attention and lookups that the model computes in f32 compute in options.precision,
// and so do states; other inputs, outputs and integers are unchanged. kUnsupported for a weight that the type
// cannot hold.
Result<PassResult> LowerPrecision(ir::Graph* graph, const PassOptions& options);

// A pool with a single window is a reduction. Unless options.target.convolutions_reorder, a convolution of
// single pixels, or with a single window, is a matmul; with options.target.tensor_cores, 16-bit matmuls are
// made pixel by pixel.
Result<PassResult> SimplifyWindows(ir::Graph* graph, const PassOptions& options);

// With options.target.tensor_cores, 16-bit attention reads masks whose rows are no whole vectors of eight
// (197 keys), or whose keys are no neighbours, from a copy with padded rows, where the copy takes less time
// than it saves.
Result<PassResult> PadMasks(ir::Graph* graph, const PassOptions& options);

// With options.target.tensor_cores, a convolution (16-bit floats, 8-bit integers) whose channels do not form
// vectors (3, 17, 255) reads a copy padded to four, or to a multiple of eight.
Result<PassResult> PadChannels(ir::Graph* graph, const PassOptions& options);

// With options.target.tensor_cores, constant Bs of 16-bit matmuls are stored column after column, in whole
// vectors of eight, unless others read them too or all are more than options.reordered_bytes; a matmul with
// an odd K reads a padded copy of A.
Result<PassResult> PadMatmuls(ir::Graph* graph, const PassOptions& options);

// Small, cheap values computed from inputs and constants are recomputed by each small node that reads them.
Result<PassResult> Rematerialise(ir::Graph* graph, const PassOptions& options);

// Constant weights of convolutions have the element order in which they are read: on a host with output
// channels last, for vectors along them; on a GPU, those of 16 bits and several points with input channels
// last, for tensor cores.
Result<PassResult> OrderConvolutionWeights(ir::Graph* graph, const PassOptions& options);

}  // namespace rondo::passes
