#include "compiler/fusion/fuse.h"

#include "compiler/fusion/constraints.h"
#include "compiler/fusion/context.h"
#include "compiler/ir/throwing_arena.h"

namespace rondo {

using fusion::Context;
using ir::NodeId;

namespace {

// Lowers the bodies of the graph's loops.
Status LowerLoops(const ir::Graph& graph, const FuseOptions& options, fusion::LoweredLoops* loops) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).dead || graph.node(id).op != ir::Op::kLoop) continue;
    const std::shared_ptr<const ir::LoopInfo> info = graph.node(id).As<ir::LoopAttrs>().info;
    RONDO_ASSIGN_OR_RETURN((*loops)[info.get()], fusion::LowerLoop(info, options));
  }
  return Status::Ok();
}

// Forms groups until all can be emitted, and puts their ops into context->program. Each failure adds
// constraints for the next grouping.
Status GroupAndEmit(Context* context, FuseReport* report) {
  fusion::Constraints constraints(context);
  RONDO_RETURN_IF_ERROR(fusion::Prepare(context));
  for (report->rounds = 1;; ++report->rounds) {
    fusion::FormGroups(context);
    fusion::PlaceValues(context);
    std::vector<fusion::Obstacle> obstacles;
    RONDO_RETURN_IF_ERROR(fusion::EmitGroups(context, &obstacles));
    if (obstacles.empty()) return Status::Ok();
    const int copies = constraints.copies();
    RONDO_RETURN_IF_ERROR(constraints.Add(obstacles));
    report->copies = constraints.copies();
    if (report->copies > copies) RONDO_RETURN_IF_ERROR(fusion::Prepare(context));  // for the inputs of copies
  }
}

}  // namespace

Result<LoweredProgram> Fuse(ir::Graph graph, const FuseOptions& options, FuseReport* report) {
  FuseReport local;
  FuseReport* out = report != nullptr ? report : &local;
  *out = FuseReport();
  fusion::LoweredLoops loops;
  fusion::PassConditionsToLoops(&graph, options.least_skipped);
  RONDO_RETURN_IF_ERROR(LowerLoops(graph, options, &loops));
  Context context;
  context.options = options;
  context.loops = &loops;
  context.graph = std::move(graph);
  fusion::WidenAtReaders(&context.graph);
  if (options.target.widens_as_it_reads) fusion::WidenBytesForReductions(&context.graph);
  RONDO_RETURN_IF_ERROR(GroupAndEmit(&context, out));
  out->parts = static_cast<int>(context.groups.size());
  for (const fusion::Group& group : context.groups) out->nodes += static_cast<int>(group.nodes.size());
  if (options.siblings) fusion::FuseSiblings(&context.program);
  out->kernels = static_cast<int>(context.program.ops.size());
  out->text = std::to_string(out->nodes) + " nodes in " + std::to_string(out->parts) + " parts of " +
              std::to_string(out->kernels) + " kernels, " + std::to_string(out->copies) + " copies";
  if (out->rounds > 1) out->text += ", in " + std::to_string(out->rounds) + " rounds";
  return std::move(context.program);
}

}  // namespace rondo
