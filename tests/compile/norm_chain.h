// NormChain: a model with a few all-reduces, each followed by a residual and a norm. Ranks scale their norms
// differently, so that each gives a different summand to the next sum.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "core/dtype.h"
#include "tests/compile/tensor_parallel.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {

struct NormChain {
  int64_t rows = 1, columns = 64, ranks = 2;
  int type = onnx::TensorProto::FLOAT;
  bool layer_norm = false;  // with its own bias and one before it; otherwise an RMS norm
  int length = 8;
};

// The model of rank `rank`, from x to y, the last norm.
class NormChainModel : public ModelMaker {
 public:
  NormChainModel(const NormChain& chain, uint32_t rank) : chain_(chain) {
    auto* domain = proto.add_opset_import();
    domain->set_domain("com.microsoft");
    domain->set_version(1);
    Input("x", {chain.rows, chain.columns}, chain.type);
    std::string sum = "x";
    Row("scale", 10 + rank);
    Node("Mul", {"x", "scale"}, {"n"});
    std::string norm = "n";
    for (int i = 0; i < chain.length; ++i) {
      const std::string n = std::to_string(i);
      Row("scale" + n, 100 * rank + static_cast<uint32_t>(i));
      Collective(norm, "r" + n);
      std::string reduced = "r" + n;
      if (chain.layer_norm) {
        Row("before" + n, 2000 + static_cast<uint32_t>(i));
        Row("bias" + n, 1000 + 100 * rank + static_cast<uint32_t>(i));
        Node("Add", {reduced, "before" + n}, {"b" + n});
        reduced = "b" + n;
      }
      Node("Add", {sum, reduced}, {"h" + n});
      sum = "h" + n;
      norm = "n" + n;
      if (chain.layer_norm) {
        Node("LayerNormalization", {sum, "scale" + n, "bias" + n}, {norm});
      } else {
        Node("SimplifiedLayerNormalization", {sum, "scale" + n}, {norm});
      }
    }
    Node("Identity", {norm}, {"y"});
    Output("y");
  }

  void Write(const std::string& path) const {
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  }

 private:
  void Row(const std::string& name, uint32_t seed) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(chain_.type);
    t->add_dims(chain_.columns);
    for (float value : Weight(seed, 1, chain_.columns, 0, 0, 1)) {
      value += 0.5f;
      const uint16_t half =
          chain_.type == onnx::TensorProto::FLOAT16 ? FloatToF16(value) : FloatToBF16(value);
      const bool whole = chain_.type == onnx::TensorProto::FLOAT;
      t->mutable_raw_data()->append(
          whole ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&half),
          whole ? 4 : 2);
    }
  }
  void Collective(const std::string& from, const std::string& to) {
    onnx::NodeProto* node = Node("AllReduce", {from}, {to});
    node->set_domain("com.microsoft");
    auto* size = node->add_attribute();
    size->set_name("group_size");
    size->set_type(onnx::AttributeProto::INT);
    size->set_i(chain_.ranks);
  }

  NormChain chain_;
};

// The plan of a chain for a target ("host", "cuda:sm_90a"), all ranks together, or the reason why there is
// none.
inline Result<CompiledPlan> CompileNormChain(const NormChain& chain, const std::string& target) {
  const TemporaryFolder folder;
  for (uint32_t rank = 0; rank < chain.ranks; ++rank)
    NormChainModel(chain, rank).Write(folder.File("m" + std::to_string(rank) + ".onnx"));
  CompileOptions options;
  options.models = {{"main", folder.File("m{rank}.onnx")}};
  options.devices = static_cast<uint32_t>(chain.ranks);
  options.targets = *ParseTargets(target);
  return CompileToMemory(options);
}

}  // namespace rondo
