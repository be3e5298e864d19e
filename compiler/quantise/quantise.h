// The passes for quantised numbers. Each is in the pipeline's table; passes/pass.h defines passes.
#pragma once

#include "compiler/passes/pass.h"

namespace rondo::passes {

// Matmuls and convolutions with quantised inputs (quantised.h) multiply the codes: 8-bit integers, with zero
// points as corrections of the sums, or, with options.target.fp8, FP8. Scales multiply the sums; weights keep
// their 8 bits. Other 8-bit constants that matmuls read keep them if options.target.widens_as_it_reads, and
// rows of quantised tables are gathered before they are widened.
Result<PassResult> LowerQuantised(Graph* graph, const PassOptions& options);

// Factors of a packed weight, for each row and block or for all of it, are folded into its scales.
Result<PassResult> FoldWeightScales(Graph* graph, const PassOptions& options);

// 8-bit numbers that are dequantised and quantised again in the same way are used directly; maximum pools and
// concatenations work on the 8-bit numbers.
Result<PassResult> KeepQuantised(Graph* graph, const PassOptions& options);

// Constant weights of matmuls have type options.quantize, in blocks of options.quantize_block. After its
// first line, the text has a line for each weight: name, [n, k], type, relative RMS error, bytes before and
// after, separated by tabs. Weights with other readers, and small ones, are unchanged.
Result<PassResult> QuantizeWeights(Graph* graph, const PassOptions& options);

// No constant is packed any more: matmuls of few rows (with options.target.wgmma, of any number) read codes
// (ir::PackedAttrs); all others read numbers that are unpacked in every run.
Result<PassResult> PackWeights(Graph* graph, const PassOptions& options);

// Kernels that quantise a tensor by its range (dynamic quantisation) get the range from the kernel before, or
// compute it themselves: no kernel reads the tensor for its range alone. For GPUs.
Result<PassResult> FuseQuantRange(Graph* graph, const PassOptions& options);

}  // namespace rondo::passes
