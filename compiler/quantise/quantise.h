// The passes about quantised numbers. Each is in the pipeline's table; passes/pass.h says what passes are.
#pragma once

#include "compiler/passes/pass.h"

namespace rondo::passes {

// Products whose factors are quantised (quantised.h) multiply the codes: 8-bit integers, with zero points as
// corrections of the sums, or with options.target.fp8 those of FP8. Scales multiply the sums; weights keep
// their 8 bits. Other constants of 8 bits that matmuls read keep them where
// options.target.widens_as_it_reads, and rows of quantised tables are read before they are widened.
Result<PassResult> LowerQuantised(Graph* graph, const PassOptions& options);

// What multiplies a packed weight, for each row and block of it or for all, is part of its scales.
Result<PassResult> FoldWeightScales(Graph* graph, const PassOptions& options);

// Where 8-bit numbers are scaled and quantised again as they were, they are used as they are; maxima of
// windows, and concatenations, are of the numbers.
Result<PassResult> KeepQuantised(Graph* graph, const PassOptions& options);

// Constant weights of matmuls are of options.quantize, in blocks of options.quantize_block; the text has a
// line for each behind its first: name, [n, k], type, relative RMS error, bytes before and after, with tabs
// between. Weights that something else reads as well, and small ones, stay as they are.
Result<PassResult> QuantizeWeights(Graph* graph, const PassOptions& options);

// No constant is packed any more: matmuls of few rows, and with options.target.wgmma of any number, read
// codes (ir::PackedAttrs), all others numbers that are unpacked in every run.
Result<PassResult> PackWeights(Graph* graph, const PassOptions& options);

// What quantises a tensor by its range (dynamic quantisation) reads the range from the kernel before it, or
// finds it itself: no kernel looks at the tensor for its range alone. For GPUs.
Result<PassResult> FuseQuantRange(Graph* graph, const PassOptions& options);

}  // namespace rondo::passes
