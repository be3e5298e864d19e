// Every pass of this folder. NAME.cc holds the pass of that name.
#pragma once

#include "compiler/passes/pass.h"

namespace rondo::passes {

// Products and convolutions of quantised factors multiply 8-bit integers: zero points become corrections of
// the sums, scales multiply them. Weights keep their 8 bits. Convolutions of few channels a group stay, but,
// unless options.target.integer_epilogues, those of one.
Result<PassResult> IntegerMatmuls(ir::Graph* graph, const PassOptions& options);
// With options.target.fp8, products of numbers of FP8, each times a scale, are products of the numbers:
// constants with k contiguous, scales behind the sums.
Result<PassResult> Fp8Matmuls(ir::Graph* graph, const PassOptions& options);
// Rows of a constant table that is widened and scaled (quantised embeddings) are read first, and the work is
// done for them alone. Tables that are small and read otherwise as well are left to be folded.
Result<PassResult> SinkDequantiseBelowGather(ir::Graph* graph, const PassOptions& options);
// With options.target.widens_as_it_reads, constants of 8-bit integers that are widened and scaled by column,
// by blocks or at once, and that matmuls alone read, are packed: neither folded to floats nor widened in
// every run. Their products are multiplied by what is not rounded to f16 or bf16 in between.
Result<PassResult> PackBytes(ir::Graph* graph, const PassOptions& options);
// Nodes that depend on small constants alone are constants; weights and synthetic weights stay as they are.
Result<PassResult> FoldConstants(ir::Graph* graph, const PassOptions& options);
// Of equal nodes with equal annotations one is left.
Result<PassResult> EliminateCommonSubexpressions(ir::Graph* graph, const PassOptions& options);
// Every node is needed by an output or an effect.
Result<PassResult> RemoveDead(ir::Graph* graph, const PassOptions& options);
// No node is an identity; cheap forms stand for dear ones where the result rounds the same or better.
Result<PassResult> Simplify(ir::Graph* graph, const PassOptions& options);
// Graph::states names every input and output that are one persistent buffer.
Result<PassResult> PairState(ir::Graph* graph, const PassOptions& options);
// With options.sample_logits: the program draws the next token of each text, with temperature, top-k, top-p
// and a seed that are states, and leaves it in a state that a program of one token a text reads.
Result<PassResult> AppendSampling(ir::Graph* graph, const PassOptions& options);
// What multiplies a packed weight, for each row and block of it or for all, is part of its scales.
Result<PassResult> FoldWeightScales(ir::Graph* graph, const PassOptions& options);
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
// A product with a constant whose readers take disjoint columns is one product for each of them.
Result<PassResult> SplitMatmuls(ir::Graph* graph, const PassOptions& options);
// What the recognising passes left behind is folded, simplified, shared and dead code removed once more.
Result<PassResult> CleanUp(ir::Graph* graph, const PassOptions& options);
// Where 8-bit numbers are scaled and quantised again as they were, they are used as they are; maxima of
// windows, and concatenations, are of the numbers.
Result<PassResult> SimplifyQuantisation(ir::Graph* graph, const PassOptions& options);
// Nodes that form a norm, a softmax, a rotary embedding or a gated activation say so in their `label`.
Result<PassResult> Label(ir::Graph* graph, const PassOptions& options);

// What the model computes in f32, products, convolutions, attention and lookups compute in options.precision;
// states are of that type; other inputs, outputs and integers stay as they are. kUnsupported for a weight
// that the type does not hold.
Result<PassResult> LowerPrecision(ir::Graph* graph, const PassOptions& options);

// Constant weights of matmuls are of options.quantize, in blocks of options.quantize_block; the text has a
// line for each behind its first: name, [n, k], type, relative RMS error, bytes before and after, with tabs
// between. Weights that something else reads as well, and small ones, stay as they are.
Result<PassResult> QuantizeWeights(ir::Graph* graph, const PassOptions& options);

// No constant is packed any more: matmuls of few rows, and with options.target.wgmma of any number, read
// codes (ir::PackedAttrs), all others numbers that are unpacked in every run.
Result<PassResult> PackWeights(ir::Graph* graph, const PassOptions& options);

// A pool of one window is a reduction. Unless options.target.convolutions_reorder, a convolution of single
// pixels, or of one window, is a product; with options.target.tensor_cores, products of 16-bit values are
// made pixel by pixel.
Result<PassResult> SimplifyWindows(ir::Graph* graph, const PassOptions& options);

// With options.target.tensor_cores, a convolution (16-bit floats, 8-bit integers) of channels that are no
// vectors (3, 17, 255) reads a copy of four, or of a multiple of eight.
Result<PassResult> PadChannels(ir::Graph* graph, const PassOptions& options);

// What is small and quick to compute from inputs and constants is computed by each small node that reads it.
Result<PassResult> Rematerialise(ir::Graph* graph, const PassOptions& options);

// Products of bytes with one row, whose left side is quantised by its range, are sums over rows of weights,
// and each row finds that range itself.
Result<PassResult> SmallMatmuls(ir::Graph* graph, const PassOptions& options);

// The range of a picture times a factor a channel comes from extremes of the picture's channels, where
// something reduces those anyway.
Result<PassResult> ScaledRanges(ir::Graph* graph, const PassOptions& options);

// Extremes of what products make, which dynamic quantisation looks for, are combined by the kernels that
// compute those.
Result<PassResult> CombinedRanges(ir::Graph* graph, const PassOptions& options);

// What quantises a picture by its range, which was found line by line, finds that itself: at once where the
// picture is small, else in each of its rows, from the extremes of lines.
Result<PassResult> RangesInRows(ir::Graph* graph, const PassOptions& options);

// Constant weights of convolutions lie as they are read: on a host with their output channels last, for
// vectors along them; on a GPU those of 16 bits and several points with their input channels last, for tensor
// cores.
Result<PassResult> OrderConvolutionWeights(ir::Graph* graph, const PassOptions& options);

}  // namespace rondo::passes
