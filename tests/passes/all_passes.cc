#include "tests/passes/all_passes.h"

#include "compiler/passes/passes.h"
#include "compiler/quantise/quantise.h"

namespace rondo::passes {

namespace {

constexpr Pass kPasses[] = {
    {"fold_constants", "", FoldConstants},
    {"simplify", "", Simplify},
    {"eliminate_common_subexpressions", "", EliminateCommonSubexpressions},
    {"recognise_concat", "", RecogniseConcat},
    {"pair_state", "", PairState},
    {"recognise_updates", "", RecogniseUpdates},
    {"recognise_attention", "", RecogniseAttention},
    {"recognise_causal", "", RecogniseCausal},
    {"split_matmuls", "", SplitMatmuls},
    {"fold_constants again", "", FoldConstants},
    {"simplify again", "", Simplify},
    {"eliminate_common_subexpressions again", "", EliminateCommonSubexpressions},
    {"remove_dead", "", RemoveDead},
    {"label", "", Label},
    {"fuse_quant_range", "", FuseQuantRange},
    {"rematerialise", "", Rematerialise},
};

}  // namespace

Status RunAllPasses(ir::Graph* graph, const PassOptions& options,
                    std::map<std::string, PassResult>* reports) {
  for (const Pass& pass : kPasses) {
    RONDO_ASSIGN_OR_RETURN(PassResult result, pass.run(graph, options));
    if (std::string broken = ir::Validate(*graph); !broken.empty()) {
      return Status::Error(Code::kInternal, "after %s: %s", pass.name, broken.c_str());
    }
    if (reports != nullptr) (*reports)[pass.name] = result;
  }
  return Status::Ok();
}

Census Count(const ir::Graph& graph) {
  Census c;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& n = graph.node(id);
    if (n.dead) continue;
    c.concats += n.op == ir::Op::kConcat;
    c.writes += n.op == ir::Op::kIndexedWrite;
    c.reads += n.op == ir::Op::kIndexedRead;
    c.products += n.op == ir::Op::kMatMul;
    if (n.op != ir::Op::kAttention) continue;
    ++c.attentions;
    c.with_limit += n.As<ir::AttentionAttrs>().has_limit;
    c.with_mask += n.As<ir::AttentionAttrs>().has_mask;
    c.grouped_attentions += graph.node(n.inputs[0]).shape[1] != graph.node(n.inputs[1]).shape[1];
  }
  for (const ir::StatePair& s : graph.states) {
    ir::NodeId id = graph.outputs[static_cast<size_t>(s.output)].node;
    int64_t writes = 0;
    for (; graph.node(id).op == ir::Op::kIndexedWrite; id = graph.node(id).inputs[0]) ++writes;
    if (id != graph.inputs[static_cast<size_t>(s.input)].node) continue;
    c.in_place += writes;
    ++c.states_chained;
  }
  return c;
}

}  // namespace rondo::passes
