// A test that compiles models with annotations.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/pipeline.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {

// Lowers a model's only program for GPUs: the passes up to machine code.
inline Status LowerForGpu(const CompileOptions& options, LoweredProgram* lowered) {
  Compilation compilation(options);
  compilation.programs.emplace_back();
  compilation.programs[0].source = options.models[0];
  for (const PipelineEntry& entry : Pipeline()) {
    std::string text;
    ProgramInWork* program = entry.once() ? nullptr : &compilation.programs[0];
    RONDO_RETURN_IF_ERROR(RunPass(entry, &compilation, program, &text).At("%s", entry.name));
    if (std::string_view(entry.name) == "memory") break;
  }
  *lowered = std::move(compilation.programs[0].planned.lowered);
  return Status::Ok();
}

class AnnotatedModels : public testing::Test {
 protected:
  // The status of Compile.
  Status StatusWith(const ModelMaker& m, const std::vector<std::string>& annotations) {
    const std::string path = folder_.File("m.onnx");
    std::ofstream(path, std::ios::binary) << m.proto.SerializeAsString();
    options_.models = {{"main", path}};
    options_.annotations.clear();
    for (const std::string& text : annotations) {
      Result<NodeAnnotation> parsed = ParseNodeAnnotation(text);
      if (!parsed.ok()) return parsed.status();
      options_.annotations.push_back(parsed.Take());
    }
    options_.check_passes = true;
    return Status::Ok();
  }
  Result<CompiledPlan> Compile(const ModelMaker& m, const std::vector<std::string>& annotations) {
    RONDO_RETURN_IF_ERROR(StatusWith(m, annotations));
    return CompileToMemory(options_);
  }
  void ExpectRefused(const ModelMaker& m, const std::vector<std::string>& annotations,
                     std::initializer_list<const char*> parts) {
    EXPECT_TRUE(Says(Compile(m, annotations).status(), parts));
  }

  TemporaryFolder folder_;
  CompileOptions options_;
};

}  // namespace rondo
