#include "compiler/quantise/quantise.h"
#include "compiler/quantise/steps.h"

namespace rondo::passes {

Result<PassResult> LowerQuantised(Graph* graph, const PassOptions& options) {
  const int64_t tables = SinkDequantiseBelowGather(graph, options.fold_bytes);
  Tidy(graph);  // import leaves unused nodes
  const int64_t integers = LowerToIntegers(graph, options.target);
  Tidy(graph);
  const int64_t fp8 = options.target.fp8 ? LowerToFp8(graph) : 0;
  int64_t bytes = 0;
  Tidy(graph);
  const int64_t weights = options.target.widens_as_it_reads ? KeepWeightBytes(graph, &bytes) : 0;
  Tidy(graph);
  PassResult result;
  result.changes = tables + integers + fp8 + weights;
  result.text = Count(integers, "product") + " of 8-bit integers";
  if (fp8 > 0) result.text += ", " + Count(fp8, "product") + " of FP8";
  if (weights > 0)
    result.text += ", " + Count(weights, "weight") + " of " + Count(bytes, "byte") + " in 8 bits";
  if (tables > 0) result.text += ", " + Count(tables, "table") + " read before it is widened";
  return result;
}

}  // namespace rondo::passes
