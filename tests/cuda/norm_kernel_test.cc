// NormOf: the kernels that an all-reduce can compute as well. Kernels that do anything else are refused.
#include "drivers/cuda/peer_collectives/norm_kernel.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/compile/norm_chain.h"
#include "tests/cuda/have_nvrtc.h"
#include "tests/how_many.h"

namespace rondo::cuda {
namespace {

class NormKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  }
};

TEST_F(NormKernels, EveryNormBehindAnAllReduceIsOne) {
  int number = 0;
  for (const int type : {onnx::TensorProto::FLOAT, onnx::TensorProto::FLOAT16, onnx::TensorProto::BFLOAT16}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 192}, {1, 4096}, {16, 2048}}) {
      for (const bool layer_norm : {false, true}) {
        if (!IsTaken(number++, HowMany("RONDO_COMPILED_EACH", 3))) continue;
        const Result<CompiledPlan> compiled =
            CompileNormChain({rows, columns, 2, type, layer_norm}, "cuda:sm_90a");
        ASSERT_TRUE(compiled.ok()) << compiled.status().message();
        const PlanData& plan = compiled->plan;
        uint32_t launches = 0, norms = 0, stored = 0;
        for (const Step& step : plan.programs[0].steps) {
          if (step.kind != StepKind::kLaunch) continue;
          const auto norm = NormOf(plan.kernels[step.kernel], plan.modules[0].binaries[step.kernel]);
          ++launches;
          norms += norm.has_value();
          if (!norm) continue;
          EXPECT_EQ(norm->rows, rows);
          EXPECT_EQ(norm->columns, columns);
          EXPECT_EQ(norm->centred, layer_norm);
          EXPECT_EQ(norm->bias != kNoParam, layer_norm);
          EXPECT_EQ(norm->num_addends, layer_norm ? 3u : 2u);
          stored += norm->sum != kNoParam;
          EXPECT_EQ(norm->count, static_cast<float>(columns));
          EXPECT_TRUE(norm->constant_rows);
        }
        EXPECT_EQ(norms, 16u) << rows << " x " << columns << ", type " << type << ", layer norm "
                              << layer_norm;
        EXPECT_EQ(stored, 14u);    // nothing reads the last sum
        EXPECT_EQ(launches, 18u);  // each device also has a first scaling
      }
    }
  }
}

// A norm kernel that a test can change.
struct Copy {
  explicit Copy(const CompiledPlan& compiled) {
    const PlanData& plan = compiled.plan;
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      if (!NormOf(plan.kernels[k], plan.modules[0].binaries[k])) continue;
      kernel = plan.kernels[k];
      binary = plan.modules[0].binaries[k];
      break;
    }
    part = kernel.parts[0];
    for (const Operand& operand : part.operands) operands.push_back(operand);
    for (const Operand& operand : operands)
      strides.emplace_back(operand.strides.begin(), operand.strides.end());
    for (const Stage& stage : part.stages) {
      tapes.emplace_back(stage.tape.begin(), stage.tape.end());
      stages.push_back(stage);
    }
    assumes.assign(binary.assumes.begin(), binary.assumes.end());
    const uint16_t param = NormOf(kernel, binary)->scale;
    while (operands[scale].param != param) ++scale;
  }
  std::optional<NormKernel> Read() {
    for (size_t i = 0; i < operands.size(); ++i) operands[i].strides = strides[i];
    for (size_t i = 0; i < stages.size(); ++i) stages[i].tape = tapes[i];
    part.operands = operands;
    part.stages = stages;
    kernel.parts = Span<const Part>(&part, 1);
    binary.assumes = assumes;
    return NormOf(kernel, binary);
  }
  TapeInst& Find(TapeOp op, size_t stage) {
    for (TapeInst& inst : tapes[stage]) {
      if (inst.op == op) return inst;
    }
    ADD_FAILURE() << "no such instruction";
    return tapes[0][0];
  }

  Kernel kernel;
  KernelBinary binary;
  Part part;
  std::vector<Operand> operands;
  std::vector<std::vector<int64_t>> strides;
  std::vector<Stage> stages;
  std::vector<std::vector<TapeInst>> tapes;
  std::vector<uint32_t> assumes;
  uint16_t scale = 0;  // operand
};

TEST_F(NormKernels, WhatDoesAnythingElseIsNone) {
  for (const bool layer_norm : {false, true}) {
    const Result<CompiledPlan> compiled =
        CompileNormChain({4, 512, 2, onnx::TensorProto::FLOAT, layer_norm}, "cuda:sm_90a");
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    ASSERT_TRUE(Copy(*compiled).Read().has_value());
    const size_t last = Copy(*compiled).stages.size() - 1;
    const std::vector<std::pair<const char*, std::function<void(Copy*)>>> changes = {
        {"a maximum", [](Copy* c) { c->Find(TapeOp::kAdd, 0).op = TapeOp::kMax; }},
        {"a difference", [](Copy* c) { c->Find(TapeOp::kAdd, 0).op = TapeOp::kSub; }},
        {"a product", [](Copy* c) { c->Find(TapeOp::kReduceSum, 0).op = TapeOp::kReduceMax; }},
        {"another divisor in one stage", [](Copy* c) { c->Find(TapeOp::kDiv, 1).op = TapeOp::kMul; }},
        {"no root", [last](Copy* c) { c->Find(TapeOp::kRsqrt, last - 1).op = TapeOp::kReciprocal; }},
        {"other addends later", [last](Copy* c) { c->Find(TapeOp::kLoad, last).arg = c->scale; }},
        {"the norm stored twice", [last](Copy* c) { c->tapes[last].push_back(c->tapes[last].back()); }},
        {"scaled by itself",
         [last](Copy* c) { c->Find(TapeOp::kMul, last).b = c->Find(TapeOp::kMul, last).a; }},
        {"an offset", [](Copy* c) { c->operands[0].offset = 4; }},
        {"columns apart", [](Copy* c) { c->strides[0].back() = 2; }},
        {"rows apart", [](Copy* c) { c->strides[0].front() = 1024; }},
        {"another type", [](Copy* c) { c->operands[1].dtype = DType::kF16; }},
        {"an alignment of 8", [](Copy* c) { c->assumes[0] = 8; }},
        {"a text that relies on nothing", [](Copy* c) { c->assumes.clear(); }},
        {"one thread", [](Copy* c) { c->part.sequential = true; }},
        {"long rows",
         [](Copy* c) {
           const std::vector<int64_t> loops = {4, 1 << 15};
           c->part.loops = Span<const int64_t>(loops);
           for (std::vector<int64_t>& of : c->strides) of[0] = of[0] == 0 ? 0 : 1 << 15;
           EXPECT_FALSE(c->Read().has_value());
           c->part.skeleton = Skeleton::kMap;
         }},
    };
    for (const auto& [what, change] : changes) {
      Copy copy(*compiled);
      change(&copy);
      EXPECT_FALSE(copy.Read().has_value()) << what << ", layer norm " << layer_norm;
    }
  }
}

// An all-reduce and a kernel after it.
struct Behind {
  Behind() {
    kernel.addends[0] = {0, false};
    kernel.addends[1] = {1, false};
    kernel.addends[2] = {2, true};
    kernel.num_addends = 3;
    kernel.scale = 3;
    kernel.sum = 4;
    kernel.normed = 5;
    kernel.rows = 2;
    kernel.columns = 64;
    point.bytes = 512;
  }
  std::optional<small::Norm> Ask() const { return NormAfter(kernel, point, from, to, addresses); }

  NormKernel kernel;
  SyncPoint point;
  DeviceAddress from = 0x1000, to = 0x2000;
  std::vector<DeviceAddress> addresses = {0x3000, 0x2000, 0x4000, 0x5000, 0x6000, 0x7000};
};

TEST(NormAfterAllReduce, TakesTheOtherAddendsInTheirOrder) {
  Behind behind;
  std::optional<small::Norm> norm = behind.Ask();
  ASSERT_TRUE(norm.has_value());
  EXPECT_EQ(norm->addends[0], reinterpret_cast<const char*>(0x3000));
  EXPECT_EQ(norm->addends[1], reinterpret_cast<const char*>(0x4000));
  EXPECT_EQ(norm->flags, uint32_t{small::kSecondIsRow});
  EXPECT_EQ(norm->bias, nullptr);
  behind.kernel.addends[1] = {2, true};
  behind.kernel.addends[2] = {1, false};
  norm = behind.Ask();
  ASSERT_TRUE(norm.has_value());
  EXPECT_EQ(norm->flags, uint32_t{small::kSecondIsRow | small::kLastOfSum});
}

TEST(NormAfterAllReduce, IsRefusedWhereItIsNotTheSumOrThreadsWouldMeet) {
  const auto refused = [](const char* what, const std::function<void(Behind*)>& change) {
    Behind behind;
    change(&behind);
    EXPECT_FALSE(behind.Ask().has_value()) << what;
  };
  refused("it adds something else", [](Behind* b) { b->to = 0x8000; });
  refused("a larger sum", [](Behind* b) { b->point.bytes = 1024; });
  refused("no all-reduce", [](Behind* b) { b->point.op = CollectiveOp::kAllGather; });
  refused("another type", [](Behind* b) { b->point.dtype = DType::kF16; });
  refused("a row that is not aligned", [](Behind* b) { b->addresses[3] = 0x5008; });
  for (const uint16_t written : {4, 5}) {
    for (const DeviceAddress near : {0x1000, 0x2000, 0x3000, 0x4000, 0x5000}) {
      refused("a result that begins within something else",
              [&](Behind* b) { b->addresses[written] = near + 16; });
    }
    refused("a result that lies over a row", [&](Behind* b) { b->addresses[written] = 0x5000; });
    Behind in_place;
    in_place.addresses[written] = in_place.from;
    EXPECT_TRUE(in_place.Ask().has_value()) << "in place of what the rank gave";
  }
}

}  // namespace
}  // namespace rondo::cuda
