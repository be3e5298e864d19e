// Weights of FP4 and FP8 in blocks: experts of QMoE in every layout of its quant_type, compared with MoE with
// the same numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "compiler/import/import.h"
#include "core/packed_weights.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

constexpr int kE4M3 = onnx::TensorProto::FLOAT8E4M3FN, kE8M0 = onnx::TensorProto::FLOAT8E8M0;
constexpr int64_t kExperts = 2, kWidth = 64, kInner = 48 * 2, kTokens = 3;

// The kind of weights of a test's experts.
struct Kind {
  std::string name;
  int64_t block = 0;       // block_size; 0: none
  bool prepacked = false;  // NVFP4, stored by rows
};

bool IsFp4(const Kind& kind) { return kind.name != "fp8"; }

uint8_t CodeOf(const Kind& kind, int64_t i) {
  const auto code = static_cast<uint8_t>(i * 7919 % 251 * 5 + i / 3);
  return IsFp4(kind) ? code & 15 : (code & 0x7f) == 0x7f ? 0x30 : code & 0xbf;  // no large numbers
}

// One layer: the bytes of its inputs, and its numbers [experts, n, k].
struct Layer {
  std::string codes, scales;
  Numbers global, floats, numbers;
  int64_t n = 0, k = 0, blocks = 0, lines = 0;
};

Layer MakeLayer(const Kind& kind, int64_t n, int64_t k) {
  Layer layer;
  layer.n = n, layer.k = k;
  const int64_t size = kind.name == "fp4" ? 32 : kind.name == "nvfp4" ? 16 : kind.block > 0 ? kind.block : k;
  const int64_t rows = kind.name == "fp8" && kind.block > 0 ? kind.block : 1;
  layer.blocks = (k + size - 1) / size, layer.lines = (n + rows - 1) / rows;
  for (int64_t e = 0; e < kExperts; ++e) layer.global.push_back(kind.name == "fp4" ? 1 : 0.5f + 0.25f * e);
  std::vector<float> scale;
  for (int64_t i = 0; i < kExperts * layer.lines * layer.blocks; ++i) {
    const auto power = static_cast<uint8_t>(122 + i % 3);  // 2^-5 to 2^-3
    const auto e4m3 = static_cast<uint8_t>(0x18 + i % 5);  // about 2^-4
    const float one = 0.0625f * static_cast<float>(1 + i % 4);
    layer.scales.push_back(static_cast<char>(kind.name == "fp4" ? power : e4m3));
    layer.floats.push_back(one);
    scale.push_back(kind.name == "fp4"     ? std::ldexp(1.0f, power - 127)
                    : kind.name == "nvfp4" ? PackedValue(PackedType::kE4M3, e4m3)
                                           : one);
  }
  const auto code = [&](int64_t e, int64_t row, int64_t at) { return CodeOf(kind, (e * n + row) * k + at); };
  const bool by_rows = !IsFp4(kind) || kind.prepacked;
  for (int64_t e = 0; e < kExperts; ++e) {
    for (int64_t i = 0; i < n * k; i += IsFp4(kind) ? 2 : 1) {
      const auto at = [&](int64_t j) { return by_rows ? code(e, j / k, j % k) : code(e, j % n, j / n); };
      layer.codes.push_back(static_cast<char>(IsFp4(kind) ? at(i) | at(i + 1) << 4 : at(i)));
    }
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t at = 0; at < k; ++at) {
        float x = PackedValue(IsFp4(kind) ? PackedType::kE2M1 : PackedType::kE4M3, code(e, row, at));
        if (IsFp4(kind) || kind.block == 0) x *= layer.global[static_cast<size_t>(e)];
        if (IsFp4(kind) || kind.block > 0)
          x *= scale[static_cast<size_t>((e * layer.lines + row / rows) * layer.blocks + at / size)];
        layer.numbers.push_back(x);
      }
    }
  }
  return layer;
}

void SetCommon(onnx::NodeProto* node) {
  Set(node, "k", int64_t{2});
  Set(node, "normalize_routing_weights", int64_t{1});
  Set(node, "activation_type", std::string("swiglu"));
  Set(node, "swiglu_fusion", int64_t{1});
}

// The quantised experts, and plain ones with the same numbers.
struct Pair {
  ModelMaker quantised, plain;
};

void Make(const Kind& kind, Pair* pair) {
  std::vector<std::string> names = {"x", "router"}, global = {}, plain_names = {"x", "router"};
  for (ModelMaker* m : {&pair->quantised, &pair->plain}) {
    m->Input("x", {kTokens, kWidth});
    m->Input("router", {kTokens, kExperts});
  }
  ModelMaker& q = pair->quantised;
  const std::pair<int64_t, int64_t> sizes[] = {{2 * kInner, kWidth}, {kWidth, kInner}};
  for (int i : {0, 1}) {
    const Layer layer = MakeLayer(kind, sizes[i].first, sizes[i].second);
    const std::string w = "w" + std::to_string(i), s = "s" + std::to_string(i), g = "g" + std::to_string(i);
    if (IsFp4(kind)) {
      Bytes(q, w, {kExperts, layer.k, layer.n / 2}, layer.codes);
      Bytes(q, s, {kExperts, layer.n, layer.blocks}, layer.scales, kind.name == "fp4" ? kE8M0 : kE4M3);
    } else {
      Bytes(q, w, {kExperts, layer.n, layer.k}, layer.codes, kE4M3);
      if (kind.block > 0) q.Floats(s, {kExperts, layer.lines, layer.blocks}, layer.floats);
    }
    const bool of_blocks = IsFp4(kind) || kind.block > 0, of_experts = IsFp4(kind) || kind.block == 0;
    if (of_experts) q.Floats(g, {kExperts}, layer.global);
    names.insert(names.end(), {w, of_blocks ? s : "", ""});
    global.push_back(of_experts ? g : "");
    pair->plain.Floats(w, {kExperts, layer.n, layer.k}, layer.numbers);
    plain_names.insert(plain_names.end(), {w, ""});
  }
  names.insert(names.end(), {"", "", "", "", "", "", ""});
  names.insert(names.end(), global.begin(), global.end());
  onnx::NodeProto* node = Microsoft(q, "QMoE", names, {"y"});
  SetCommon(node);
  Set(node, "quant_type", kind.name);
  Set(node, "expert_weight_bits", int64_t{IsFp4(kind) ? 4 : 8});
  if (kind.block > 0) Set(node, "block_size", kind.block);
  if (kind.prepacked) Set(node, "weights_prepacked", int64_t{1});
  SetCommon(Microsoft(pair->plain, "MoE", plain_names, {"y"}));
  for (ModelMaker* m : {&pair->quantised, &pair->plain}) m->Output("y");
}

TEST(FloatExperts, AreTheNumbersThatCodesAndScalesMean) {
  const ir::Values inputs = {Data(DType::kF32, {kTokens, kWidth}, Random(kTokens * kWidth, 1)),
                             Data(DType::kF32, {kTokens, kExperts}, Random(kTokens * kExperts, 2))};
  for (const Kind& kind : {Kind{"fp4", 32}, Kind{"fp4"}, Kind{"nvfp4", 16}, Kind{"nvfp4", 0, true},
                           Kind{"fp8"}, Kind{"fp8", 32}, Kind{"fp8", 128}, Kind{"fp8", 24}}) {
    SCOPED_TRACE(kind.name + " in blocks of " + std::to_string(kind.block));
    Pair pair;
    Make(kind, &pair);
    const Numbers got = Evaluate(pair.quantised, inputs)[0], expected = Evaluate(pair.plain, inputs)[0];
    ASSERT_EQ(got.size(), expected.size());
    float most = 0;
    for (const float x : expected) most = std::max(most, std::abs(x));
    ASSERT_GT(most, 0.1f);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5f * most) << i;
    EXPECT_EQ(HasPacked(pair.quantised), kind.block != 24);  // no kernel reads blocks of 24
  }
}

// A NaN code of E4M3 or a NaN scale makes only the values NaN that depend on it.
TEST(FloatExperts, KeepWhatIsNoNumber) {
  for (const std::string name : {"fp4", "fp8"}) {
    Pair pair;
    Make({name}, &pair);
    auto* tensors = pair.quantised.graph()->mutable_initializer();
    for (onnx::TensorProto& t : *tensors) {
      if (t.name() == (name == "fp4" ? "s1" : "w1"))
        (*t.mutable_raw_data())[0] = name == "fp4" ? '\xff' : '\x7f';
    }
    const Numbers got =
        Evaluate(pair.quantised, {Data(DType::kF32, {kTokens, kWidth}, Random(kTokens * kWidth, 1)),
                                  Data(DType::kF32, {kTokens, kExperts}, Numbers(6, 0))})[0];
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(std::isnan(got[i]), i % kWidth == 0) << name << " " << i;
  }
}

TEST(FloatExperts, WhatDoesNotFitIsRefused) {
  const auto says = [](const Kind& kind, const std::function<void(onnx::GraphProto*)>& change,
                       std::initializer_list<const char*> parts) {
    Pair pair;
    Make(kind, &pair);
    change(pair.quantised.graph());
    const Status status = ImportModel(pair.quantised.Make(), {}, nullptr).status();
    EXPECT_TRUE(Says(status, {"QMoE \"QMoE_y\""}));
    EXPECT_TRUE(Says(status, parts));
  };
  const auto node = [](onnx::GraphProto* g) { return g->mutable_node(0); };
  const auto attribute = [&](onnx::GraphProto* g, const std::string& name) {
    for (onnx::AttributeProto& a : *node(g)->mutable_attribute()) {
      if (a.name() == name) return &a;
    }
    return static_cast<onnx::AttributeProto*>(nullptr);
  };
  says({"fp4"}, [&](auto* g) { attribute(g, "quant_type")->set_s("wfp4afp8"); }, {"wfp4afp8", "\"nvfp4\""});
  says({"fp4"}, [&](auto* g) { attribute(g, "expert_weight_bits")->set_i(8); }, {"fc1 of 8 bits", "has 4"});
  says({"fp4", 16}, [](auto*) {}, {"block_size 16", "blocks of 32"});
  says({"fp4"}, [&](auto* g) { node(g)->set_input(15, ""); }, {"fc1", "of its blocks and of its experts"});
  says({"nvfp4"}, [&](auto* g) { attribute(g, "quant_type")->set_s("fp4"); },
       {"scales of fc1", "FLOAT8E8M0"});
  says({"fp8"}, [&](auto* g) { attribute(g, "quant_type")->set_s("nvfp4"); }, {"fc1", "scales"});
  says({"fp8"}, [&](auto* g) { attribute(g, "quant_type")->set_s("int"); }, {"scales of experts", "\"int\""});
  says({"fp4"}, [&](auto* g) { node(g)->set_input(8, "w0"), node(g)->set_input(9, "s0"); },
       {"fc3", "swiglu_fusion"});
  // Weights that a run computes are refused, with the node that computes them.
  says({"fp8"},
       [](auto* g) {
         onnx::TensorProto* t = g->mutable_initializer(0);
         t->set_data_type(onnx::TensorProto::UINT8);
       },
       {"fc1 of type", "FLOAT8E4M3FN"});
}

// The graph is the same whether weights have values or only shapes. Import with fixed caches relies on that.
TEST(FloatExperts, HaveOneGraphWithAndWithoutValues) {
  for (const Kind& kind : {Kind{"fp4"}, Kind{"nvfp4"}, Kind{"fp8"}, Kind{"fp8", 32}}) {
    Pair pair;
    Make(kind, &pair);
    ImportOptions options;
    const auto whole = ImportModel(pair.quantised.Make(), options, nullptr);
    options.shapes_only = true;
    const auto shapes = ImportModel(pair.quantised.Make(), options, nullptr);
    ASSERT_TRUE(whole.ok() && shapes.ok()) << shapes.status().message();
    ASSERT_EQ(whole->size(), shapes->size()) << kind.name;
    for (ir::NodeId id = 0; id < whole->size(); ++id)
      EXPECT_EQ(whole->node(id).op, shapes->node(id).op) << id;
  }
}

constexpr int64_t kN = 32, kK = 72;

// Adds a matmul of FP4 or FP8. Its weight's numbers [kN, kK] go to `numbers`.
void Product(bool fp4, int64_t block, float of_activations, bool bias, ModelMaker* m, Numbers* numbers) {
  const int64_t blocks = (kK + block - 1) / block;
  const Kind kind = {fp4 ? "fp4" : "fp8"};
  std::string codes, scales;
  Numbers floats, biases(kN, 0.5f);
  for (int64_t i = 0; i < kN * blocks; ++i) {
    scales.push_back(static_cast<char>(0x28 + i % 9));
    floats.push_back(0.125f * static_cast<float>(1 + i % 5));
  }
  for (int64_t i = 0; i < kN * kK; ++i) {
    const auto at = static_cast<size_t>(i / kK * blocks + i % kK / block);
    const float scale =
        fp4 ? 0.25f * PackedValue(PackedType::kE4M3, static_cast<uint8_t>(scales[at])) : floats[at];
    numbers->push_back(PackedValue(fp4 ? PackedType::kE2M1 : PackedType::kE4M3, CodeOf(kind, i)) * scale);
    if (!fp4) codes.push_back(static_cast<char>(CodeOf(kind, i)));
    if (fp4 && i % 2 == 0) codes.push_back(static_cast<char>(CodeOf(kind, i) | CodeOf(kind, i + 1) << 4));
  }
  m->Input("a", {2, kK});
  Bytes(*m, "b", {kN, fp4 ? kK / 2 : kK}, codes, fp4 ? onnx::TensorProto::UINT8 : kE4M3);
  if (fp4) Bytes(*m, "scales", {kN, blocks}, scales);
  if (!fp4) m->Floats("scales", {kN, blocks}, floats);
  m->Floats("all", {}, {0.25f});
  m->Floats("of_a", {}, {of_activations});
  m->Floats("bias", {kN}, biases);
  std::vector<std::string> names = {"a", "b", "scales"};
  if (fp4) names.insert(names.end(), {"all", ""});
  if (!fp4) names.push_back(of_activations > 0 ? "of_a" : "");
  if (bias) names.push_back("bias");
  onnx::NodeProto* node =
      Microsoft(*m, fp4 ? "MatMulBlockQuantizedFp4Weight" : "MatMulBlockQuantizedFp8Weight", names, {"y"});
  if (block != (fp4 ? 16 : 128)) Set(node, "block_size", block);
  m->Output("y");
}

TEST(FloatBlocks, MultiplyByTheNumbersThatTheyMean) {
  for (const bool fp4 : {true, false}) {
    for (const int64_t block : {16, 32, 128}) {
      for (const float of_activations : {0.0f, 0.5f}) {
        ModelMaker m;
        Numbers w;
        Product(fp4, block, of_activations, block != 32, &m, &w);
        const auto whole = [](int64_t i) { return static_cast<float>(i % 7 - 3); };
        Numbers a, expected;
        // The first number is not exact in FP8: 8.75 is 17.5 times 0.5, and 17.5 becomes 18. The others are
        // exact.
        for (int64_t i = 0; i < 2 * kK; ++i) a.push_back(i == 0 ? 8.75f : whole(i));
        const float first = !fp4 && of_activations > 0 ? 9 : 8.75f;
        for (int64_t i = 0; i < 2 * kN; ++i) {
          double sum = block != 32 ? 0.5 : 0;
          for (int64_t k = 0; k < kK; ++k) {
            const int64_t at = i / kN * kK + k;
            sum += double{at == 0 ? first : a[static_cast<size_t>(at)]} *
                   w[static_cast<size_t>(i % kN * kK + k)];
          }
          expected.push_back(static_cast<float>(sum));
        }
        const Numbers got = Evaluate(m, {Data(DType::kF32, {2, kK}, a)})[0];
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR(got[i], expected[i], 1e-4f * (1 + std::abs(expected[i])))
              << fp4 << ", " << block << ", " << i;
        EXPECT_TRUE(HasPacked(m));
      }
    }
  }
}

TEST(FloatBlocks, WhatDoesNotFitIsRefused) {
  const auto says = [](bool fp4, const std::function<void(onnx::GraphProto*)>& change,
                       std::initializer_list<const char*> parts) {
    ModelMaker m;
    Numbers w;
    Product(fp4, 16, 0.5f, true, &m, &w);
    change(m.graph());
    const Status status = ImportModel(m.Make(), {}, nullptr).status();
    EXPECT_TRUE(Says(status, {"MatMulBlockQuantizedFp"}));
    EXPECT_TRUE(Says(status, parts));
  };
  for (const bool fp4 : {true, false}) {
    says(fp4, [](auto* g) { g->mutable_node(0)->set_input(2, "all"); },
         {fp4 ? "scales" : "scales of shape []"});
    says(fp4, [](auto* g) { g->mutable_initializer(0)->set_data_type(onnx::TensorProto::INT8); },
         {"B of type"});
    says(fp4, [](auto* g) { g->mutable_node(0)->set_input(g->node(0).input_size() - 1, "all"); }, {"bias"});
    says(fp4, [](auto* g) { g->mutable_node(0)->set_input(3, "bias"); }, {"input 3", "one number"});
  }
}

}  // namespace
}  // namespace rondo
