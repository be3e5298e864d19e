// LlamaModel: a decoder of any size, node by node as PyTorch's exporter writes Llama: norms in f32 between
// casts, one matmul for query, key and value, rotation by halves, caches that are transposed, scattered into
// and transposed back, grouped heads by Expand, a gated hidden layer, and the last token's logits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/import/model_maker.h"

namespace rondo {

// The caches are inputs `k_cache.I` and `v_cache.I`, outputs `k_cache.I.out` and `v_cache.I.out`, of shape
// {batch, kv_heads, positions, head}.
struct LlamaShape {
  int64_t layers = 2, heads = 4, kv_heads = 2, head = 128, hidden = 768, words = 300, positions = 2048;
  int64_t batch = 1, tokens = 1;  // of a run; all texts of a batch have the same positions
  int64_t width() const { return heads * head; }
};

// Its weights' file does not exist: compile it with a synthetic seed.
class LlamaModel : public ModelMaker {
 public:
  explicit LlamaModel(const LlamaShape& shape) : shape_(shape) {
    Input("tokens", {s().batch, s().tokens}, onnx::TensorProto::INT64);
    Input("positions", {s().tokens}, onnx::TensorProto::INT64);
    Constants();
    Weight("emb", {s().words, s().width()});
    Set(Add("Gather", {"emb", "tokens"}, "x0"), "axis", 0);
    Rotations();
    for (int64_t layer = 0; layer < s().layers; ++layer) Layer(layer);
    Norm("x" + std::to_string(s().layers), "norm", "last");
    Set(Add("Gather", {"last", "minus_one"}, "select"), "axis", 1);
    Weight("head", {s().words, s().width()});
    Set(Add("Gemm", {"select", "head"}, "logits"), "transB", 1);
    Output("logits");
    for (const std::string& cache : caches_) Output(cache);
  }

  void Write(const std::string& path) const {
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  }

 private:
  using Texts = std::vector<std::string>;
  const LlamaShape& s() const { return shape_; }

  onnx::NodeProto* Add(const std::string& op, const Texts& inputs, const std::string& out) {
    return Node(op, inputs, {out});
  }
  static void Set(onnx::NodeProto* node, const char* name, int64_t value) {
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(value);
  }
  void Transpose(const std::string& from, const std::string& to, const std::vector<int64_t>& order) {
    onnx::AttributeProto* a = Add("Transpose", {from}, to)->add_attribute();
    a->set_name("perm");
    a->set_type(onnx::AttributeProto::INTS);
    for (int64_t axis : order) a->add_ints(axis);
  }
  void Cast(const std::string& from, const std::string& to, int type) {
    Set(Add("Cast", {from}, to), "to", type);
  }
  void ToBF16(const std::string& from, const std::string& to) { Cast(from, to, onnx::TensorProto::BFLOAT16); }

  void Weight(const std::string& name, const std::vector<int64_t>& dims) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::BFLOAT16);
    t->set_data_location(onnx::TensorProto::EXTERNAL);
    int64_t bytes = 2;
    for (int64_t d : dims) t->add_dims(d), bytes *= d;
    for (const auto& [key, value] : {std::pair<const char*, std::string>{"location", "llama.data"},
                                     {"offset", std::to_string(end_)},
                                     {"length", std::to_string(bytes)}}) {
      auto* entry = t->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    end_ += (bytes + 63) / 64 * 64;
  }
  // One bf16 number; a scalar unless `dims`.
  void BF16(const std::string& name, float value, const std::vector<int64_t>& dims = {}) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::BFLOAT16);
    for (int64_t d : dims) t->add_dims(d);
    uint32_t bits = 0;
    static_assert(sizeof(bits) == sizeof(value));
    std::memcpy(&bits, &value, sizeof(bits));
    t->add_int32_data(static_cast<int32_t>((bits + 0x8000) >> 16));
  }
  void Int(const std::string& name, int64_t value) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::INT64);
    t->add_int64_data(value);
  }

  void Constants() {
    Floats("two", {}, {2});
    Floats("epsilon", {}, {1e-5f});
    Ints("last_axis", {-1});
    Ints("axis_1", {1});
    Ints("axis_2", {2});
    Ints("axes_01", {0, 1});
    Int("minus_one", -1);
    const int64_t kv = s().kv_heads, width = s().width();
    Ints("parts", {width, kv * s().head, kv * s().head});
    Ints("query_shape", {s().batch, s().tokens, s().heads, s().head});
    Ints("key_shape", {s().batch, s().tokens, kv, s().head});
    Ints("grouped", {1, 1, s().heads / kv, 1, 1});
    Ints("all_heads", {s().batch, -1, s().positions, s().head});
    Ints("flat_heads", {s().batch * s().heads, s().positions, s().head});
    Ints("turned_heads", {s().batch, s().heads, s().head, s().positions});
    Ints("joined", {s().batch, s().tokens, -1});
    BF16("scale", std::sqrt(std::sqrt(1.0f / static_cast<float>(s().head))), {1});
    BF16("zero", 0);
    BF16("lowest", -3.38953e38f);
    std::vector<float> rates;
    for (int64_t i = 0; i < s().head / 2; ++i)
      rates.push_back(std::pow(500000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(s().head)));
    Floats("rates", {1, s().head / 2}, rates);
    Ints("all_positions", Positions());
  }
  std::vector<int64_t> Positions() const {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < s().positions; ++i) all.push_back(i);
    return all;
  }

  void Rotations() {
    Add("Unsqueeze", {"positions", "axis_1"}, "position_column");
    Cast("position_column", "position_floats", onnx::TensorProto::FLOAT);
    Add("Mul", {"position_floats", "rates"}, "angles");
    Set(Add("Concat", {"angles", "angles"}, "both_angles"), "axis", -1);
    Add("Cos", {"both_angles"}, "cos_f32");
    Add("Sin", {"both_angles"}, "sin_f32");
    ToBF16("cos_f32", "cos");
    ToBF16("sin_f32", "sin");
    Add("LessOrEqual", {"all_positions", "position_column"}, "seen_rows");
    Add("Unsqueeze", {"seen_rows", "axes_01"}, "seen");
  }

  void Norm(const std::string& from, const std::string& name, const std::string& to) {
    Weight(name + ".w", {s().width()});
    Cast(from, name + ".f32", onnx::TensorProto::FLOAT);
    Add("Pow", {name + ".f32", "two"}, name + ".squares");
    Set(Add("ReduceMean", {name + ".squares", "last_axis"}, name + ".mean"), "keepdims", 1);
    Add("Add", {name + ".mean", "epsilon"}, name + ".sum");
    Add("Sqrt", {name + ".sum"}, name + ".root");
    Add("Reciprocal", {name + ".root"}, name + ".inverse");
    Add("Mul", {name + ".f32", name + ".inverse"}, name + ".scaled");
    ToBF16(name + ".scaled", name + ".bf16");
    Add("Mul", {name + ".bf16", name + ".w"}, to);
  }

  // Rotates rows {batch, tokens, heads, head}, flat, and orders them by heads.
  void Rotate(const std::string& from, const std::string& shape, const std::string& n) {
    Add("Reshape", {from, shape}, n + ".view");
    Transpose(n + ".view", n + ".heads", {0, 2, 1, 3});
    onnx::NodeProto* split = Node("Split", {n + ".heads"}, {n + ".low", n + ".high"});
    Set(split, "axis", 3);
    Set(split, "num_outputs", 2);
    Add("Mul", {n + ".heads", "cos"}, n + ".straight");
    Add("Neg", {n + ".high"}, n + ".negative");
    Set(Add("Concat", {n + ".negative", n + ".low"}, n + ".turned"), "axis", -1);
    Add("Mul", {n + ".turned", "sin"}, n + ".across");
    Add("Add", {n + ".straight", n + ".across"}, n + ".rotated");
  }

  // Writes the rows of this run's positions into the cache. Returns all of its heads, each repeated as often
  // as it is used.
  void Update(const std::string& cache, const std::string& rows, const std::vector<int64_t>& order) {
    Input(cache, {s().batch, s().kv_heads, s().positions, s().head}, onnx::TensorProto::BFLOAT16);
    Transpose(cache, cache + ".rows", {2, 0, 1, 3});
    Transpose(rows, cache + ".new", order);
    Add("Unsqueeze", {"positions", "last_axis"}, cache + ".places");
    Add("ScatterND", {cache + ".rows", cache + ".places", cache + ".new"}, cache + ".scattered");
    Transpose(cache + ".scattered", cache + ".out", {1, 2, 0, 3});
    caches_.push_back(cache + ".out");
    Add("Unsqueeze", {cache + ".out", "axis_2"}, cache + ".column");
    Add("Expand", {cache + ".column", "grouped"}, cache + ".groups");
  }

  void Attention(const std::string& n, const std::string& k, const std::string& v) {
    Add("Reshape", {v + ".groups", "all_heads"}, n + ".values");
    Add("Reshape", {k + ".groups", "flat_heads"}, n + ".flat");
    Transpose(n + ".flat", n + ".flat_turned", {0, 2, 1});
    Add("Reshape", {n + ".flat_turned", "turned_heads"}, n + ".keys");
    Add("Mul", {n + ".q.rotated", "scale"}, n + ".q.scaled");
    Add("Mul", {n + ".keys", "scale"}, n + ".keys.scaled");
    Add("Where", {"seen", "zero", "lowest"}, n + ".mask");
    Add("MatMul", {n + ".q.scaled", n + ".keys.scaled"}, n + ".scores");
    Add("Add", {n + ".scores", n + ".mask"}, n + ".masked");
    Set(Add("Softmax", {n + ".masked"}, n + ".softmax"), "axis", -1);
    Add("IsNaN", {n + ".softmax"}, n + ".nan");
    Add("Where", {n + ".nan", "zero", n + ".softmax"}, n + ".weights");
    Add("MatMul", {n + ".weights", n + ".values"}, n + ".attended");
    Transpose(n + ".attended", n + ".tokens", {0, 2, 1, 3});
    Add("Reshape", {n + ".tokens", "joined"}, n + ".joined");
  }

  void Layer(int64_t layer) {
    const std::string i = std::to_string(layer), n = "layer" + i, x = "x" + i;
    const std::string k = "k_cache." + i, v = "v_cache." + i;
    const int64_t width = s().width(), kv = s().kv_heads * s().head;
    Norm(x, n + ".n1", n + ".in");
    Weight(n + ".qkv", {width, width + 2 * kv});
    Add("MatMul", {n + ".in", n + ".qkv"}, n + ".parts");
    Set(Node("Split", {n + ".parts", "parts"}, {n + ".q", n + ".k", n + ".v"}), "axis", 2);
    Rotate(n + ".q", "query_shape", n + ".q");
    Rotate(n + ".k", "key_shape", n + ".k");
    Add("Reshape", {n + ".v", "key_shape"}, n + ".v.view");
    Update(k, n + ".k.rotated", {2, 0, 1, 3});
    Update(v, n + ".v.view", {1, 0, 2, 3});
    Attention(n, k, v);
    Weight(n + ".o", {width, width});
    Add("MatMul", {n + ".joined", n + ".o"}, n + ".attention");
    Add("Add", {x, n + ".attention"}, n + ".between");
    Norm(n + ".between", n + ".n2", n + ".hidden_in");
    Weight(n + ".up", {width, 2 * s().hidden});
    Add("MatMul", {n + ".hidden_in", n + ".up"}, n + ".hidden");
    onnx::NodeProto* split = Node("Split", {n + ".hidden"}, {n + ".gate", n + ".linear"});
    Set(split, "axis", 2);
    Set(split, "num_outputs", 2);
    Add("Sigmoid", {n + ".gate"}, n + ".sigmoid");
    Add("Mul", {n + ".gate", n + ".sigmoid"}, n + ".silu");
    Add("Mul", {n + ".silu", n + ".linear"}, n + ".gated");
    Weight(n + ".down", {s().hidden, width});
    Add("MatMul", {n + ".gated", n + ".down"}, n + ".out");
    Add("Add", {n + ".between", n + ".out"}, "x" + std::to_string(layer + 1));
  }

  const LlamaShape shape_;
  int64_t end_ = 0;  // of the weights so far
  Texts caches_;
};

}  // namespace rondo
