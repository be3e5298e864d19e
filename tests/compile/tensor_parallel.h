// A model of two layers for several devices, written by hand: up and down matmuls with sharded weights, an
// all-reduce after each layer, and a gather of columns at the end. And its twin for one device.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/import/model_maker.h"

namespace rondo {

inline constexpr int64_t kRows = 4, kWidth = 64, kHidden = 128;
inline constexpr int kLayers = 2;

// The form in which the compiler gets a model.
enum class Sharing {
  kTwin,        // for one device: no collectives
  kAttributes,  // whole weights with `rondo.shard`
  kFiles,       // the weights of one rank
};

struct TensorParallel {
  Sharing sharing = Sharing::kAttributes;
  int64_t devices = 2;
  int64_t rank = 0;  // kFiles only
};

// Part [first, first + count) along axis `axis` of a matrix of rows x columns. Its numbers lie in [-1/8, 1/8)
// and depend only on the seed.
inline std::vector<float> Weight(uint32_t seed, int64_t rows, int64_t columns, int axis, int64_t first,
                                 int64_t count) {
  std::vector<float> out;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t at = axis == 0 ? r : c;
      uint32_t x = seed * 7919u + static_cast<uint32_t>(r * columns + c) * 2654435761u;
      x ^= x >> 15;
      x *= 2246822519u;
      x ^= x >> 13;
      if (at >= first && at < first + count)
        out.push_back((static_cast<float>(x >> 8) / (1 << 24) - 0.5f) / 4);
    }
  }
  return out;
}

class TensorParallelModel : public ModelMaker {
 public:
  explicit TensorParallelModel(const TensorParallel& options) : options_(options) {
    auto* domain = proto.add_opset_import();
    domain->set_domain("com.microsoft");
    domain->set_version(1);
    Input("x", {kRows, kWidth});
    std::string x = "x";
    for (int layer = 0; layer < kLayers; ++layer) x = Layer(layer, x);
    Shared("head", 99, kWidth, kWidth, 1);
    Node("MatMul", {x, "head"}, {"columns"});
    Collective("AllGather", "columns", "y")->mutable_attribute(0)->set_i(-1);
    Output("y");
    if (options.sharing == Sharing::kTwin) {
      // The twin's collectives become Identity nodes.
      for (onnx::NodeProto& node : *graph()->mutable_node()) {
        if (node.domain().empty()) continue;
        node.set_op_type("Identity");
        node.clear_domain();
        node.clear_attribute();
      }
    }
  }

  void Write(const std::string& path) const {
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  }

 private:
  std::string Layer(int layer, const std::string& x) {
    const std::string n = std::to_string(layer);
    const auto seed = static_cast<uint32_t>(layer);
    Shared("up" + n, 10 + seed, kWidth, kHidden, 1);
    Shared("down" + n, 20 + seed, kHidden, kWidth, 0);
    Node("MatMul", {x, "up" + n}, {"h" + n});
    Node("Relu", {"h" + n}, {"a" + n});
    Node("MatMul", {"a" + n, "down" + n}, {"p" + n});
    Collective("AllReduce", "p" + n, "s" + n);
    Node("Add", {"s" + n, x}, {"x" + n});
    return "x" + n;
  }

  // A collective. Its first attribute is `axis`, which an all-reduce ignores.
  onnx::NodeProto* Collective(const std::string& op, const std::string& from, const std::string& to) {
    onnx::NodeProto* node = Node(op, {from}, {to});
    node->set_domain("com.microsoft");
    for (const auto& [name, value] :
         {std::pair<const char*, int64_t>{"axis", 0}, {"group_size", options_.devices}}) {
      onnx::AttributeProto* attribute = node->add_attribute();
      attribute->set_name(name);
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(value);
    }
    return node;
  }

  void Shared(const std::string& name, uint32_t seed, int64_t rows, int64_t columns, int axis) {
    int64_t first = 0, count = axis == 0 ? rows : columns;
    if (options_.sharing == Sharing::kFiles) {
      count /= options_.devices;
      first = count * options_.rank;
      (axis == 0 ? rows : columns) = count;
    }
    const int64_t whole_rows =
        axis == 0 && options_.sharing == Sharing::kFiles ? rows * options_.devices : rows;
    const int64_t whole_columns =
        axis == 1 && options_.sharing == Sharing::kFiles ? columns * options_.devices : columns;
    Floats(name, {rows, columns}, Weight(seed, whole_rows, whole_columns, axis, first, count));
    if (options_.sharing != Sharing::kAttributes) return;
    auto* mark = graph()->mutable_initializer(graph()->initializer_size() - 1)->add_metadata_props();
    mark->set_key("rondo.shard");
    mark->set_value(std::to_string(axis));
  }

  TensorParallel options_;
};

}  // namespace rondo
