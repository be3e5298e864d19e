// A test that compiles models and runs their plans in every way that devices allow.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "runtime/plan.h"
#include "tests/defects/effect.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {

class CompiledModels : public testing::Test {
 protected:
  // Compiles `model`, which replaces the models of `options`.
  Result<CompiledPlan> Compile(const ModelMaker& model, CompileOptions options) {
    std::ofstream file(folder_ / "m.onnx", std::ios::binary);
    model.proto.SerializeToOstream(&file);
    file.close();
    options.models = {{"main", folder_ / "m.onnx"}};
    options.check_passes = true;
    return CompileToMemory(options);
  }
  // Runs the plan in all ways and expects the same results; returns them.
  defects::Results Run(const CompiledPlan& compiled, uint32_t devices = 1) {
    const std::vector<uint8_t> weights = AssembleWeights(compiled);
    Result<Plan> plan = Plan::FromData(compiled.plan, weights);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    Result<std::vector<defects::Results>> results = defects::EffectRunner(devices).Run(*plan);
    EXPECT_TRUE(results.ok()) << results.status().message();
    for (const defects::Results& each : *results) EXPECT_EQ(each, results->front());
    return results->front();
  }
  TemporaryFolder folder_;
};

}  // namespace rondo
