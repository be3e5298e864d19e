// evaluate_cases [--model M] [--import-only | --attributes] FOLDER...: imports and evaluates model cases, and
// prints one line for each. --attributes: imports models, and prints each attribute that their handlers read
// (AttributeRead), one per line.
#include <cstdio>
#include <cstring>
#include <string>

#include "compiler/import/import.h"
#include "tests/import/case_runner.h"

int main(int argc, char** argv) {
  rondo::CaseOptions options;
  bool import_only = false, attributes = false;
  int passed = 0, failed = 0, refused = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--model") == 0 && i + 1 < argc) {
      options.model = argv[++i];
      continue;
    }
    if (std::strcmp(argv[i], "--import-only") == 0) {
      import_only = true;
      continue;
    }
    if (std::strcmp(argv[i], "--attributes") == 0) {
      attributes = true;
      continue;
    }
    rondo::Status status;
    if (attributes) {
      auto model = rondo::onnx::Model::Open(argv[i]);
      rondo::ImportOptions import;
      import.list_attributes = true;
      rondo::ImportReport report;
      status = model.status();
      if (model.ok()) status = rondo::ImportModel(*model, import, &report).status();
      for (const rondo::AttributeRead& read : report.attributes) {
        std::printf("%s\t%s\t%s\t%s\t%d\t%d\t%d\n", argv[i], read.domain.c_str(), read.op.c_str(),
                    read.name.c_str(), read.kind, read.is_other ? 1 : 0, read.line);
      }
    } else if (import_only) {
      auto model = rondo::onnx::Model::Open(argv[i]);
      rondo::ImportOptions import;
      import.allow_synthetic = true;
      rondo::ImportReport report;
      status = model.status();
      if (model.ok()) {
        auto graph = rondo::ImportModel(*model, import, &report);
        status = graph.status();
        if (graph.ok()) {
          std::printf("%s: %ld ONNX nodes, %d IR nodes, %zu synthetic weights\n", argv[i], report.onnx_nodes,
                      graph->size(), report.synthetic.size());
          std::string broken = rondo::ir::Validate(*graph);
          if (!broken.empty()) status = rondo::Status::Error(rondo::Code::kInternal, "%s", broken.c_str());
        }
      }
    } else {
      status = rondo::RunCase(argv[i], options);
    }
    bool is_refusal = status.code() == rondo::Code::kUnsupported;
    (status.ok() ? passed : is_refusal ? refused : failed)++;
    if (!status.ok())
      std::printf("%s %s: %s\n", is_refusal ? "REFUSED" : "FAILED", argv[i], status.message());
  }
  std::printf("%d passed, %d failed, %d refused\n", passed, failed, refused);
  return failed == 0 ? 0 : 1;
}
