#include "compiler/import/import.h"

#include <algorithm>

#include "compiler/import/importer.h"
#include "compiler/import/registry.h"
#include "compiler/import/sizes_of_data.h"

namespace rondo {

Result<ir::Graph> ImportModel(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                              ImportReport* report) {
  ImportOptions own = options;
  const ImportReport before = report == nullptr ? ImportReport() : *report;
  ImportReport now = before;
  for (;;) {
    ir::Graph graph;
    importer::Importer run(model, own, &now, &graph);
    Status status = run.Run();
    if (!status.ok() && run.data_decide()) {
      ImportReport said = before;
      bool asked = false;
      Result<ir::Graph> named = importer::ImportNamingSizes(model, own, &said, &asked);
      if (named.ok() && report != nullptr) {
        said.frozen = std::move(now.frozen);
        *report = std::move(said);
      }
      if (named.ok()) return named;
      if (asked && named.status().code() == Code::kUnsupported) status = named.status();
    }
    std::vector<std::string> frozen = std::move(now.frozen);
    bool more = false;
    for (const std::string& name : run.must_know()) {
      const auto value = own.values_at_hand.find(name);
      if (status.ok() || value == own.values_at_hand.end()) continue;
      more = own.bound_inputs.insert(*value).second || more;
      frozen.push_back(name);
    }
    if (more) now = before;
    now.frozen = std::move(frozen);
    if (more) continue;
    if (report != nullptr) *report = std::move(now);
    RONDO_RETURN_IF_ERROR(status);
    graph.RemoveDead();
    return graph;
  }
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
