// The models of SmallTwins and BenchTwins.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/e2e/first_layers.h"
#include "tests/e2e/llama_model.h"
#include "tests/e2e/twins.h"

namespace rondo {
namespace {

using Folder = TemporaryFolder;
using Names = std::vector<std::string>;

// Numbers in [-1, 1) without a short period.
std::vector<float> Numbers(int64_t count, float scale, uint32_t seed) {
  std::vector<float> numbers(static_cast<size_t>(count));
  uint32_t x = seed * 2654435761u + 12345;
  for (float& number : numbers) {
    x = x * 1664525u + 1013904223u;
    number = scale * (static_cast<float>(x >> 8) / 8388608.0f - 1);
  }
  return numbers;
}

class SmallModel : public ModelMaker {
 public:
  SmallModel() : ModelMaker(21) {
    onnx::OperatorSetIdProto* set = proto.add_opset_import();
    set->set_domain("com.microsoft");
    set->set_version(1);
  }
  // A weight scaled so that sums over the last of `dims` stay as large as their terms.
  std::string Weight(const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    const std::string name = "w" + std::to_string(++weights_);
    Floats(name, dims, Numbers(count, std::sqrt(3.0f / static_cast<float>(dims.back())), weights_));
    return name;
  }
  // Packed 4-bit numbers, two a byte.
  std::string Packed(const std::vector<int64_t>& dims) {
    const std::string name = "w" + std::to_string(++weights_);
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::UINT8);
    int64_t count = 1;
    for (int64_t d : dims) t->add_dims(d), count *= d;
    for (float number : Numbers(count, 128, weights_))
      t->mutable_raw_data()->push_back(static_cast<char>(number));
    return name;
  }
  std::string Scales(const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    std::vector<float> numbers = Numbers(count, 0.005f, ++weights_);
    for (float& number : numbers) number += 0.02f;
    const std::string name = "w" + std::to_string(weights_);
    Floats(name, dims, numbers);
    return name;
  }
  std::string Add(const std::string& op, const Names& inputs, const std::string& out) {
    Node(op, inputs, {out});
    return out;
  }
  onnx::NodeProto* Microsoft(const std::string& op, const Names& inputs, const std::string& out) {
    onnx::NodeProto* node = Node(op, inputs, {out});
    node->set_domain("com.microsoft");
    return node;
  }
  static void Set(onnx::NodeProto* node, const char* name, int64_t value) {
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(value);
  }
  static void Set(onnx::NodeProto* node, const char* name, const std::string& value) {
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::STRING);
    a->set_s(value);
  }
  CompileOptions Write(const Folder& folder) const {
    const std::string path = folder.File("model.onnx");
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
    CompileOptions options;
    options.models = {{"main", path}};
    return options;
  }

 private:
  uint32_t weights_ = 0;
};

// Adds a mixture-of-experts node from x and the router's scores to `out`.
using AddExperts = onnx::NodeProto* (*)(SmallModel* m, const std::string& x, const std::string& router,
                                        const std::string& out);
// Two layers x + experts(x) over `rows` rows, with the two best experts for each row.
CompileOptions LayersOfExperts(const Folder& folder, int64_t rows, int64_t width, int64_t experts,
                               AddExperts add) {
  SmallModel m;
  m.Input("x", {1, rows, width});
  m.Ints("rows", {rows, experts});
  std::string x = "x";
  for (const std::string n : {"a", "b"}) {
    m.Add("MatMul", {x, m.Weight({width, experts})}, n + ".scores");
    m.Add("Reshape", {n + ".scores", "rows"}, n + ".router");
    onnx::NodeProto* node = add(&m, x, n + ".router", n + ".moe");
    SmallModel::Set(node, "k", 2);
    SmallModel::Set(node, "normalize_routing_weights", 1);
    x = m.Add("Add", {x, n + ".moe"}, n + ".y");
  }
  m.Output(x);
  return m.Write(folder);
}

// 8 experts, two for each of 5 rows.
CompileOptions Experts(const Folder& folder) {
  constexpr int64_t kExperts = 8, kWidth = 64, kInner = 128, kRows = 5;
  return LayersOfExperts(
      folder, kRows, kWidth, kExperts,
      [](SmallModel* m, const std::string& x, const std::string& router, const std::string& out) {
        const std::string up = m->Weight({kExperts, kInner, kWidth}), up_bias = m->Weight({kExperts, kInner}),
                          down = m->Weight({kExperts, kWidth, kInner}),
                          down_bias = m->Weight({kExperts, kWidth});
        onnx::NodeProto* node = m->Microsoft("MoE", {x, router, up, up_bias, down, down_bias}, out);
        SmallModel::Set(node, "activation_type", "silu");
        return node;
      });
}

// 4 gated experts with weights packed in 4 bits, with a scale for each 32.
CompileOptions PackedExperts(const Folder& folder) {
  constexpr int64_t kExperts = 4, kWidth = 128, kInner = 256, kRows = 3, kBlock = 32;
  return LayersOfExperts(
      folder, kRows, kWidth, kExperts,
      [](SmallModel* m, const std::string& x, const std::string& router, const std::string& out) {
        const std::string up = m->Packed({kExperts, 2 * kInner, kWidth / 2}),
                          up_scales = m->Scales({kExperts, 2 * kInner, kWidth / kBlock}),
                          down = m->Packed({kExperts, kWidth, kInner / 2}),
                          down_scales = m->Scales({kExperts, kWidth, kInner / kBlock});
        onnx::NodeProto* node =
            m->Microsoft("QMoE", {x, router, up, up_scales, "", down, down_scales, "", "", "", ""}, out);
        SmallModel::Set(node, "activation_type", "swiglu");
        SmallModel::Set(node, "swiglu_fusion", 1);
        SmallModel::Set(node, "expert_weight_bits", 4);
        SmallModel::Set(node, "block_size", kBlock);
        return node;
      });
}

// Lookups of a few rows of a large table, followed by matmuls.
CompileOptions Lookups(const Folder& folder) {
  SmallModel m;
  m.Input("ids", {1, 4}, onnx::TensorProto::INT64);
  m.Add("Gather", {m.Weight({1203, 64}), "ids"}, "rows");
  m.Add("MatMul", {"rows", m.Weight({64, 256})}, "up");
  m.Add("Tanh", {"up"}, "tanh");
  m.Add("MatMul", {"tanh", m.Weight({256, 64})}, "down");
  m.Add("Add", {"rows", "down"}, "y");
  m.Output("y");
  return m.Write(folder);
}

CompileOptions Decode(const std::string& bits) {
  CompileOptions options;
  options.models = {{"main", DataPath("pycoder/decode.onnx")}};
  if (!bits.empty()) options.quantize = *ParseWeightBits(bits);
  return options;
}

CompileOptions Llama(const Folder& folder, int64_t tokens, int64_t layers = 2) {
  LlamaShape shape;
  shape.layers = layers;
  shape.heads = 16;
  shape.kv_heads = 8;
  shape.positions = 512;
  shape.tokens = tokens;
  LlamaModel(shape).Write(folder.File("model.onnx"));
  CompileOptions options;
  options.models = {{"main", folder.File("model.onnx")}};
  options.synthetic_seed = 7;
  return options;
}

constexpr char kNoGraph[] = "a small Llama";

}  // namespace

std::vector<TwinCase> SmallTwins() {
  const auto decode = [](const char* bits) { return [bits](const Folder&) { return Decode(bits); }; };
  const auto llama = [](int64_t tokens) {
    return [tokens](const Folder& folder) { return Llama(folder, tokens); };
  };
  constexpr auto kDivide = Weights::kDivide, kGather = Weights::kGather;
  // When packed for GPUs, matrices as small as pycoder's are padded to whole tiles.
  return {
      {"PaddedHeads3", decode(""), 3, 1, kDivide, kApartF32, 100, 0.5},
      {"Experts2", Experts, 2, 1, kDivide, kApartF32, 0, 0.55},
      {"Experts4", Experts, 4, 1, kDivide, kApartF32, 0, 0.3},
      {"PackedExperts2", PackedExperts, 2, 1, kDivide, kApartF32, 0, 0.6},
      {"PackedInt4On2", decode("int4:32"), 2, 1, kDivide, kApartF32, 100, 0.75},
      {"PackedInt8On4", decode("int8"), 4, 1, kDivide, kApartF32, 100, 0.4},
      {"PackedFp8On2", decode("fp8"), 2, 1, kDivide, kApartF32, 100, 0.65},
      {"PackedStages", decode("int4:32"), 1, 2, kDivide, 0, 100, 0.7},
      {"Lookups2", Lookups, 2, 1, kDivide, kApartF32, 0, 0.55},
      {"GatheredLookups2", Lookups, 2, 1, kGather, 0, 0, 0.55},
      {"GatheredLookups3", Lookups, 3, 1, kGather, 0, 0, 0.4},
      {"Gathered2", decode(""), 2, 1, kGather, 0, 100, 0.55},
      {"GatheredInt4On2", decode("int4:32"), 2, 1, kGather, 0, 100, 0.6},
      {"StagesOfTwo", decode(""), 2, 2, kDivide, kApartF32, 100, 0.4},
      {"Llama2", llama(1), 2, 1, kDivide, kApartTwoLayersBF16, 300, 0.55},
      {"Llama8", llama(1), 8, 1, kDivide, kApartTwoLayersBF16, 300, 0.2},
      {"LlamaOf40Tokens4", llama(40), 4, 1, kDivide, kApartTwoLayersBF16, 300, 0.3},
  };
}

std::vector<TwinCase> BenchTwins(uint32_t devices) {
  const char* set = std::getenv("RONDO_LLAMA_GRAPHS");
  std::istringstream text(set == nullptr ? kNoGraph : set);
  std::vector<TwinCase> cases;
  for (std::string path; std::getline(text, path, ',');) {
    TwinCase of{"Two layers of " + std::filesystem::path(path).stem().string(), nullptr, devices};
    of.model = [path](const Folder& folder) {
      CompileOptions options = Llama(folder, 1, 4);
      const std::string from = path == kNoGraph ? options.models[0].path : path;
      options.models[0].path = folder.File("cut.onnx");
      const Status cut = WriteFirstLayers(from, 2, options.models[0].path);
      EXPECT_TRUE(cut.ok()) << cut.message();
      return options;
    };
    of.tolerance = kApartTwoLayersBF16;
    of.first = path == kNoGraph ? 300 : 500;
    of.share = 1.02 / devices + (path == kNoGraph ? 0.05 : 0);  // norms are on every device
    cases.push_back(of);
  }
  return cases;
}

}  // namespace rondo
