#include "compiler/import/import.h"

#include <algorithm>

#include "compiler/import/importer.h"
#include "compiler/import/registry.h"

namespace rondo {

Result<ir::Graph> ImportModel(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                              ImportReport* report) {
  ImportReport unread;
  ir::Graph graph;
  importer::Importer run(model, options, report == nullptr ? &unread : report, &graph);
  RONDO_RETURN_IF_ERROR(run.Run());
  graph.RemoveDead();
  return graph;
}

std::vector<std::string> ImportableOperators() {
  std::vector<std::string> names;
  for (const importer::OpRow* row : importer::AllOps()) {
    names.push_back(std::string(row->domain[0] == '\0' ? "ai.onnx" : row->domain) + "::" + row->op);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace rondo
