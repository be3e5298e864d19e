#include "compiler/import/importer.h"
#include "compiler/import/mask_padding.h"
#include "compiler/import/place_by_place.h"
#include "compiler/import/read_extents.h"
#include "compiler/import/sizes_of_data.h"
#include "formats/plan/true_size.h"

namespace rondo::importer {
namespace {

// One import, with room for `more` than data can ask for.
Status ImportOnce(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                  ImportReport* report, SizesOfData* names, ir::Graph* graph, ir::Sizes* sizes) {
  sizes->cause = "--bound";
  Importer run(model, options, report, graph);
  run.Follow(sizes, {});
  run.NameSizesWith(names);
  RONDO_RETURN_IF_ERROR(run.Run());
  // The sizes stay as outputs, because masks will read them.
  for (const NodeId node : names->nodes()) graph->outputs.push_back({"", node});
  graph->RemoveDead();
  graph->outputs.resize(graph->outputs.size() - names->nodes().size());
  return Status::Ok();
}

// Sets outputs to zero beyond the run's sizes, and adds outputs with these sizes.
void CutOutputs(const OutputSizes& sizes, ir::Builder* b) {
  std::vector<ir::GraphOutput> all;
  ir::Graph& graph = b->graph();
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    ir::GraphOutput output = graph.outputs[i];
    std::vector<ir::GraphOutput> lengths;
    b->SetSources({"Output \"" + output.name + "\""});
    for (size_t d = 0; d < sizes.of[i].size(); ++d) {
      if (sizes.of[i][d].known()) continue;
      const NodeId size = b->Number(sizes.of[i][d]);
      const Shape shape = b->shape(output.node);
      const NodeId real = b->Binary(TapeOp::kLess, b->Iota(shape, static_cast<int>(d)), size);
      output.node = b->Select(real, output.node, b->Scalar(b->dtype(output.node), 0));
      lengths.push_back({SizeOutputName(output.name, static_cast<uint32_t>(d)), size});
    }
    all.push_back(output);
    all.insert(all.end(), lengths.begin(), lengths.end());
  }
  graph.outputs = std::move(all);
}

}  // namespace

Result<ir::Graph> ImportNamingSizes(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                                    ImportReport* report, bool* asked) {
  ir::Graph graph, wider;
  ir::Sizes sizes(&graph), wider_sizes(&wider);
  SizesOfData names(0), wider_names(1);
  const Status status = ImportOnce(model, options, report, &names, &graph, &sizes);
  *asked = names.asked();
  RONDO_RETURN_IF_ERROR(status);
  ImportReport unsaid;
  RONDO_RETURN_IF_ERROR(ImportOnce(model, options, &unsaid, &wider_names, &wider, &wider_sizes));
  RONDO_RETURN_IF_ERROR(CheckNoExtentIsRead(graph, wider, RemedyFor(sizes.cause)));
  RONDO_ASSIGN_OR_RETURN(const OutputSizes outputs, MaskPadding(&graph, &sizes));
  ir::Builder b(&graph);
  b.Follow(&sizes);
  CutOutputs(outputs, &b);
  for (const ir::Size& name : names.names())
    report->remarks.push_back("\"" + name.Text() + "\" is a length that data decide, at most " +
                              std::to_string(name.most()));
  DropIdentityViews(&graph);
  graph.RemoveDead();
  graph.Compact();
  return graph;
}

}  // namespace rondo::importer
