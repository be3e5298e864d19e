// Every pass of this folder (those about quantised numbers: compiler/quantise/quantise.h). NAME.cc holds the
// pass of that name.
#pragma once

#include "compiler/passes/pass.h"

namespace rondo::passes {

// Nodes that depend on small constants alone are constants; weights and synthetic weights stay as they are.
Result<PassResult> FoldConstants(ir::Graph* graph, const PassOptions& options);
// Of equal nodes with equal annotations one is left.
Result<PassResult> EliminateCommonSubexpressions(ir::Graph* graph, const PassOptions& options);
// Every node is needed by an output or an effect.
Result<PassResult> RemoveDead(ir::Graph* graph, const PassOptions& options);
// No node is an identity; cheap forms stand for expensive ones where the result rounds the same or better.
Result<PassResult> Simplify(ir::Graph* graph, const PassOptions& options);
// Graph::states names every input and output that are one persistent buffer.
Result<PassResult> PairState(ir::Graph* graph, const PassOptions& options);
// With options.sample_logits: the program draws the next token of each text, with temperature, top-k, top-p
// and a seed that are states, and leaves it in a state that a program of one token a text reads.
Result<PassResult> AppendSampling(ir::Graph* graph, const PassOptions& options);
// A concatenation of evenly spaced pieces of one tensor is a view of it, times a small vector.
Result<PassResult> RecogniseConcat(ir::Graph* graph, const PassOptions& options);
// A state's output is a chain of kIndexedWrites, each to the whole state, wherever its index maps allow.
Result<PassResult> RecogniseUpdates(ir::Graph* graph, const PassOptions& options);
// Softmax of a scaled, masked product times values is one kAttention, with unrepeated key and value heads.
Result<PassResult> RecogniseAttention(ir::Graph* graph, const PassOptions& options);
// A mask that keeps a prefix of the keys of each row is a limit instead.
Result<PassResult> RecogniseCausal(ir::Graph* graph, const PassOptions& options);
// Attention over one of options.fixed_caches, which this run's rows are written to, ends with the last row
// that is written; a softmax of numbers that come of such a cache one by one, too. kUnsupported, with the
// node, where something else mixes its positions.
Result<PassResult> LimitToCached(ir::Graph* graph, const PassOptions& options);
// Attention with a sink is its products and softmax instead: no kernel knows sinks.
Result<PassResult> DecomposeSinks(ir::Graph* graph, const PassOptions& options);
// Of 16-bit attention on tensor cores, an added mask that is a sum of matmuls, each of which says one number
// for many keys, is features of queries and keys instead.
Result<PassResult> FoldScoreBias(ir::Graph* graph, const PassOptions& options);
// Of 16-bit attention on tensor cores, values of more features than a kernel sums are split, one attention
// for each part.
Result<PassResult> SplitValues(ir::Graph* graph, const PassOptions& options);
// A product with a constant whose readers take disjoint columns is one product for each of them.
Result<PassResult> SplitMatmuls(ir::Graph* graph, const PassOptions& options);
// What the recognising passes left behind is folded, simplified, shared and dead code removed once more.
Result<PassResult> CleanUp(ir::Graph* graph, const PassOptions& options);
// Nodes that form a norm, a softmax, a rotary embedding or a gated activation say so in their `label`.
Result<PassResult> Label(ir::Graph* graph, const PassOptions& options);

// What the model computes in f32, products, convolutions, attention and lookups compute in options.precision;
// states are of that type; other inputs, outputs and integers stay as they are. kUnsupported for a weight
// that the type does not hold.
Result<PassResult> LowerPrecision(ir::Graph* graph, const PassOptions& options);

// A pool of one window is a reduction. Unless options.target.convolutions_reorder, a convolution of single
// pixels, or of one window, is a product; with options.target.tensor_cores, products of 16-bit values are
// made pixel by pixel.
Result<PassResult> SimplifyWindows(ir::Graph* graph, const PassOptions& options);

// With options.target.tensor_cores, a convolution (16-bit floats, 8-bit integers) of channels that are no
// vectors (3, 17, 255) reads a copy of four, or of a multiple of eight.
Result<PassResult> PadChannels(ir::Graph* graph, const PassOptions& options);

// What is small and quick to compute from inputs and constants is computed by each small node that reads it.
Result<PassResult> Rematerialise(ir::Graph* graph, const PassOptions& options);

// Constant weights of convolutions lie as they are read: on a host with their output channels last, for
// vectors along them; on a GPU those of 16 bits and several points with their input channels last, for tensor
// cores.
Result<PassResult> OrderConvolutionWeights(ir::Graph* graph, const PassOptions& options);

}  // namespace rondo::passes
