// A test that compiles models with annotations.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {

class AnnotatedModels : public testing::Test {
 protected:
  Result<CompiledPlan> Compile(const ModelMaker& m, const std::vector<std::string>& annotations) {
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
