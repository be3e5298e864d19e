// SplitValues: attention whose values have more features than a kernel can sum becomes one attention for each
// part of them (the one wide head of an image decoder). Scores are recomputed for each part, on tensor cores.
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace rondo::passes {

namespace {

// The limits of GPU kernels (compiler/codegen/cuda/attention/query_tiles.cc).
constexpr int64_t kWidestQuery = 512, kWidestValue = 256;
constexpr int64_t kOfOneAccess = 8;  // elements

NodeId Split(Match& m) {
  const Node& node = m.node();
  const ir::AttentionInputs in = ir::AttentionInputsOf(node);
  const int64_t values = node.shape[3];
  if (ByteSize(node.dtype) != 2 || values <= kWidestValue || m.graph().node(in.q).shape[3] > kWidestQuery)
    return kNoNode;
  const ir::AttentionAttrs attrs = node.As<ir::AttentionAttrs>();
  const int64_t parts = (values + kWidestValue - 1) / kWidestValue;
  const int64_t width = ((values + parts - 1) / parts + kOfOneAccess - 1) / kOfOneAccess * kOfOneAccess;
  Builder b = m.Make();
  std::vector<NodeId> pieces;
  for (int64_t first = 0; first < values; first += width) {
    const NodeId part = b.Slice(in.v, 3, first, 1, std::min(width, values - first));
    pieces.push_back(b.Attention(in.q, in.k, part, in.mask, in.limit, attrs, in.sink));
  }
  return b.Concat(pieces, 3);
}

}  // namespace

Result<PassResult> SplitValues(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.target.tensor_cores) result.changes = Total(ApplyOnce(graph, {{Op::kAttention, Split}}));
  result.text = Count(result.changes, "attention") + " by parts of its values";
  return result;
}

}  // namespace rondo::passes
