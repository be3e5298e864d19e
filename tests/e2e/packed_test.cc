// Models with packed weights, on the host: their distance from f32, their memory, and the refusal of plans
// whose description of their weights is wrong.
#include <cmath>
#include <cstring>
#include <functional>

#include "formats/plan/verifier.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

CompileOptions Pycoder(const char* bits) {
  CompileOptions options;
  options.models = {{"prefill", DataPath("pycoder/prefill64.onnx")},
                    {"decode", DataPath("pycoder/decode.onnx")}};
  if (bits != nullptr) options.quantize = *ParseWeightBits(bits);
  return options;
}

// The logits of the prompt of 64 bytes.
std::vector<float> LogitsOf(const CompileOptions& options, uint64_t* weights) {
  LiveModel model(options, HostOptions());
  if (!model.session().valid()) return {};
  *weights = model.data().weights_bytes;
  const uint32_t prefill = model.Program("prefill");
  LiveModel::Buffers prompt = model.MakeBuffers(prefill);
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t token = 97 + i % 26;
    std::memcpy(prompt.input_bytes[0].data() + 8 * i, &token, 8);
  }
  const Status status = model.session().Run(prefill, prompt.inputs, prompt.outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> logits(prompt.output_bytes[0].size() / 4);
  std::memcpy(logits.data(), prompt.output_bytes[0].data(), logits.size() * 4);
  return logits;
}

TEST(PackedModels, LoseAsMuchAsTheirBitsAndTakeAsMuchMemory) {
  uint64_t whole = 0;
  const std::vector<float> exact = LogitsOf(Pycoder(nullptr), &whole);
  ASSERT_FALSE(exact.empty());
  const struct {
    const char* bits;
    double error, bytes;  // the largest error, and the largest share of f32's bytes
  } cases[] = {{"int8", 0.03, 0.5}, {"fp8", 0.15, 0.5}, {"int4:32", 0.4, 0.4}};
  for (const auto& c : cases) {
    uint64_t weights = 0;
    const std::vector<float> rounded = LogitsOf(Pycoder(c.bits), &weights);
    ASSERT_EQ(rounded.size(), exact.size());
    double norm = 0, error = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      norm += double{exact[i]} * exact[i];
      error += (double{exact[i]} - rounded[i]) * (double{exact[i]} - rounded[i]);
    }
    EXPECT_LT(std::sqrt(error / norm), c.error) << c.bits;
    EXPECT_GT(error, 0) << c.bits;
    EXPECT_LT(static_cast<double>(weights), c.bytes * static_cast<double>(whole)) << c.bits;
  }
}

TEST(PackedModels, BothProgramsReadTheSamePackedBytes) {
  const Result<CompiledPlan> compiled = CompileToMemory(Pycoder("int4:32"));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  uint64_t prefill = 0;
  CompileOptions one = Pycoder("int4:32");
  one.models.resize(1);
  const Result<CompiledPlan> alone = CompileToMemory(one);
  ASSERT_TRUE(alone.ok());
  prefill = alone->plan.weights_bytes;
  EXPECT_LT(compiled->plan.weights_bytes, prefill + prefill / 20);
}

TEST(PackedModels, WeightsThatDoNotLieAsTheirPartSaysAreRefused) {
  const Result<CompiledPlan> compiled = CompileToMemory(Pycoder("int4:32"));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  Part* part = nullptr;
  for (const Kernel& kernel : compiled->plan.kernels) {
    for (const Part& one : kernel.parts) {
      if (one.packed.type != PackedType::kNone) part = const_cast<Part*>(&one);
    }
  }
  ASSERT_NE(part, nullptr);
  ASSERT_TRUE(VerifyPlan(compiled->plan).ok());
  const Part good = *part;
  const auto operand = [&](uint16_t index) -> Operand& {
    return const_cast<Operand&>(part->operands[index]);
  };
  const auto stride = [&](uint16_t index, size_t loop) -> int64_t& {
    return const_cast<int64_t&>(operand(index).strides[loop]);
  };
  const size_t n = size_t{good.outer} + good.m, k = n + good.n;
  static constexpr uint16_t kTwo[] = {0, 0};
  const std::function<void()> changes[] = {
      [&] { part->packed.type = PackedType{77}; },
      [&] { part->packed.type = PackedType::kU8; },  // the codes would be twice as long
      [&] { part->packed.dtype = DType::kI32; },
      [&] { part->packed.block = 0; },
      [&] { part->packed.block = 24; },
      [&] { part->packed.block = -32; },
      [&] { part->packed.block = 16; },  // it would need twice as many scales
      [&] { part->packed.block = INT64_MAX; },
      [&] { part->scales = {}; },
      [&] { part->zeros = Span<const uint16_t>(kTwo, 2); },
      [&] { part->acc_type = TapeType::kF64; },
      [&] { const_cast<uint16_t&>(part->scales[0]) = 4095; },
      [&] { operand(part->rhs[0]).dtype = DType::kI32; },
      [&] { operand(part->rhs[0]).offset = 1; },
      [&] { operand(part->scales[0]).dtype = DType::kI32; },
      [&] { stride(part->rhs[0], n) += 1; },
      [&] { stride(part->rhs[0], k) += 1; },
      [&] { stride(part->scales[0], n) += 1; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    std::vector<Operand> operands(part->operands.begin(), part->operands.end());
    std::vector<std::vector<int64_t>> strides;
    for (const Operand& o : operands) strides.emplace_back(o.strides.begin(), o.strides.end());
    const uint16_t scales = good.scales[0];
    changes[i]();
    const Status status = VerifyPlan(compiled->plan);
    EXPECT_EQ(status.code(), Code::kCorrupt) << "change " << i;
    *part = good;
    const_cast<uint16_t&>(part->scales[0]) = scales;
    for (size_t o = 0; o < operands.size(); ++o) {
      operand(static_cast<uint16_t>(o)) = operands[o];
      std::copy(strides[o].begin(), strides[o].end(), const_cast<int64_t*>(operands[o].strides.data()));
    }
    ASSERT_TRUE(VerifyPlan(compiled->plan).ok()) << "change " << i;
  }
}

TEST(PackedModels, BitsAreNamedAsPeopleWriteThem) {
  EXPECT_EQ(ParseWeightBits("int4:32")->block, 32);
  EXPECT_EQ(ParseWeightBits("fp8")->type, PackedType::kE4M3);
  for (const char* bad : {"", "int3", "int4:", "int4:33", "int4:0032", "int4:8", "4", "fp8:x", "int8:512"})
    EXPECT_FALSE(ParseWeightBits(bad).has_value()) << bad;
}

}  // namespace
}  // namespace rondo
