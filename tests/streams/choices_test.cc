// `--annotate NODES:matmul=`, `precision=` and `deterministic`: kernels follow the annotation of their nodes
// or region, or the compilation fails with the node and the reason.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/import/model_maker.h"
#include "tests/streams/annotated_models.h"
#include "tests/streams/annotated_plan.h"

namespace rondo {
namespace {

constexpr int64_t kWide = 256;

// Matmuls q, k and v of x; their sum is the output.
ModelMaker Products() {
  ModelMaker m;
  m.Input("x", {kWide, kWide});
  for (const std::string name : {"q", "k", "v"}) {
    std::vector<float> numbers(static_cast<size_t>(kWide * kWide));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<float>((i * 31 + static_cast<size_t>(name[0])) % 17) / 64 - 0.125f;
    m.Floats("w_" + name, {kWide, kWide}, numbers);
    m.Node("MatMul", {"x", "w_" + name}, {name + "_out"})->set_name(name);
  }
  m.Node("Add", {"q_out", "k_out"}, {"qk"})->set_name("qk");
  m.Node("Add", {"qk", "v_out"}, {"y"})->set_name("sum");
  m.Output("y");
  return m;
}

class Choices : public AnnotatedModels {
 protected:
  // "q:library k:generated ...": what computes each matmul on a GPU, and in which type.
  std::string OnGpu(const std::vector<std::string>& annotations, Matmuls matmuls = Matmuls::kAuto) {
    Result<Targets> targets = ParseTargets("cuda:sm_90a");
    options_.targets = targets.Take();
    options_.matmuls = matmuls;
    LoweredProgram lowered;
    Status status = StatusWith(Products(), annotations);
    if (status.ok()) status = LowerForGpu(options_, &lowered);
    if (!status.ok()) return status.message();
    std::string text;
    for (const std::string name : {"q", "k", "v"}) {
      for (const LoweredOp& op : lowered.ops) {
        const bool is_of = std::count(op.sources.begin(), op.sources.end(), "MatMul \"" + name + "\"") > 0;
        if (!is_of || op.kernel.parts[0].skeleton != Skeleton::kMatMul) continue;
        const Part& part = op.kernel.parts[0];
        text += text.empty() ? "" : " ";
        text += name + ":" + (op.library ? "library" : "generated") + "/";
        text += part.tf32 ? "tf32" : Name(part.operands[part.rhs[0]].dtype);
      }
    }
    return text;
  }
};

TEST_F(Choices, AreThoseOfKernelsForGpus) {
  EXPECT_EQ(OnGpu({}, Matmuls::kGenerated), "q:generated/f32 k:generated/f32 v:generated/f32");
  EXPECT_EQ(OnGpu({"q:precision=f16", "k:precision=bf16", "v:precision=tf32"}, Matmuls::kGenerated),
            "q:generated/f16 k:generated/bf16 v:generated/tf32");
  EXPECT_EQ(OnGpu({"q:region=r", "region:r:matmul=library", "region:r:precision=bf16", "k:deterministic"},
                  Matmuls::kGenerated),
            "q:library/bf16 k:generated/f32 v:generated/f32");
}

TEST_F(Choices, OfPrecisionGoBeforeThatOfTheModel) {
  options_.precision = Precision::kBF16;
  EXPECT_EQ(OnGpu({"k:precision=f32", "v:precision=f16"}, Matmuls::kGenerated),
            "q:generated/bf16 q:generated/f32 k:generated/f32 v:generated/f16");  // k's kernel adds q's
                                                                                  // widened result
  EXPECT_EQ(OnGpu({"q:matmul=library"}, Matmuls::kGenerated),
            "q:library/bf16 k:generated/bf16 v:generated/bf16");
  EXPECT_EQ(OnGpu({"k:matmul=generated", "v:deterministic"}, Matmuls::kLibrary),
            "q:library/bf16 k:generated/bf16 v:generated/bf16");
}

TEST_F(Choices, HoldOnSeveralDevices) {
  for (const Weights weights : {Weights::kDivide, Weights::kGather}) {
    options_.tensor_parallel = 2;
    options_.weights = weights;
    for (const char* choice : {"deterministic", "matmul=generated", "precision=bf16"}) {
      for (const char* nodes : {"q:", "*:"}) {
        const Status status = Compile(Products(), {std::string(nodes) + choice}).status();
        EXPECT_TRUE(status.ok()) << status.message();
      }
    }
  }
}

TEST_F(Choices, ThatCannotBeKeptAreRefusedWithTheReason) {
  ExpectRefused(Products(), {"q:matmul=library"}, {"MatMul \"q\"", "plans for the host call no library"});
  ExpectRefused(Products(), {"qk:matmul=generated"}, {"Add \"qk\"", "no matmul, convolution or attention"});
  ExpectRefused(Products(), {"q:deterministic", "q:matmul=library"}, {"MatMul \"q\"", "does not go with"});
  ExpectRefused(Products(), {"q:matmul=generated", "q:matmul=library"},
                {"MatMul \"q\"", "neither goes before"});
  ExpectRefused(Products(), {"q:precision=f64"}, {"precision: f64", "f32|tf32|f16|bf16"});
  // A pattern applies to the matmuls among the nodes.
  EXPECT_TRUE(Compile(Products(), {"*:matmul=generated", "*:precision=f16"}).ok());
}

}  // namespace
}  // namespace rondo
