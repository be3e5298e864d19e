#include "tests/fuzz/onnx_mutator.h"

#include <algorithm>
#include <string>

#include "compiler/import/import.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::fuzz {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

const std::vector<std::string>& Operators() {
  static const std::vector<std::string> kAll = ImportableOperators();
  return kAll;
}

class ModelMutator {
 public:
  ModelMutator(onnx::ModelProto* model, Random& random) : model_(*model), random_(random) {
    Add(model->mutable_graph());
  }

  void Change() {
    GraphProto& graph = *graphs_[random_.Below(graphs_.size())];
    switch (random_.Below(16)) {
      case 0: ChangeTypes(graph); return;
      case 1: ChangeShapes(graph); return;
      case 2:
      case 3: ChangeInitializer(graph); return;
      case 4: ChangeOutputs(graph); return;
      case 5:
        if (model_.opset_import_size() > 0) {
          model_.mutable_opset_import(0)->set_version(static_cast<int64_t>(random_.Below(27)));
        }
        return;
      case 6: ChangeNodes(graph); return;
      default:
        if (graph.node_size() > 0) ChangeNode(graph.mutable_node(Below(graph.node_size())));
        return;
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_.Below(static_cast<uint64_t>(n))); }

  // Adds the graph, its subgraphs, and the names of all values.
  void Add(GraphProto* graph) {
    graphs_.push_back(graph);
    for (const auto& input : graph->input()) names_.push_back(input.name());
    for (const auto& tensor : graph->initializer()) names_.push_back(tensor.name());
    for (NodeProto& node : *graph->mutable_node()) {
      for (const std::string& output : node.output()) names_.push_back(output);
      for (AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) Add(attribute.mutable_g());
      }
    }
  }
  std::string AnyName() { return names_.empty() ? "" : names_[random_.Below(names_.size())]; }

  // Extents usually stay small, so that valid models can also be run.
  int64_t Extent(int64_t old) {
    return random_.OneIn(6) ? random_.Integer(old) : static_cast<int64_t>(random_.Below(8));
  }
  int64_t Number(int64_t old) {
    return random_.OneIn(4) ? random_.Integer(old) : static_cast<int64_t>(random_.Below(9)) - 3;
  }
  int AnyType() { return Below(24); }

  void ChangeTypes(GraphProto& graph) {
    if (graph.input_size() == 0) return;
    auto* type = graph.mutable_input(Below(graph.input_size()))->mutable_type();
    type->mutable_tensor_type()->set_elem_type(AnyType());
  }

  void ChangeShapes(GraphProto& graph) {
    if (graph.input_size() == 0) return;
    auto* tensor = graph.mutable_input(Below(graph.input_size()))->mutable_type()->mutable_tensor_type();
    auto* shape = tensor->mutable_shape();
    const int rank = shape->dim_size();
    if (rank == 0 || random_.OneIn(6)) {
      shape->add_dim()->set_dim_value(Extent(1));
    } else if (random_.OneIn(6)) {
      shape->mutable_dim()->RemoveLast();
    } else {
      auto* dim = shape->mutable_dim(Below(rank));
      dim->set_dim_value(Extent(dim->dim_value()));
    }
  }

  void ChangeTensor(TensorProto* t) {
    switch (random_.Below(7)) {
      case 0: t->set_data_type(AnyType()); return;
      case 1: t->add_dims(Extent(1)); return;
      case 2:
        if (t->dims_size() > 0) t->set_dims(Below(t->dims_size()), Extent(t->dims(0)));
        return;
      case 3:
        if (t->float_data_size() > 0) {
          t->set_float_data(Below(t->float_data_size()), static_cast<float>(random_.Real(t->float_data(0))));
        }
        return;
      case 4: t->add_int64_data(Number(0)); return;
      case 5:
        if (random_.OneIn(4)) t->set_raw_data(std::string(random_.Below(64), '\1'));
        return;
      default:
        if (t->int64_data_size() > 0) {
          const int at = Below(t->int64_data_size());
          t->set_int64_data(at, Number(t->int64_data(at)));
        }
        return;
    }
  }

  void ChangeInitializer(GraphProto& graph) {
    if (graph.initializer_size() > 0)
      ChangeTensor(graph.mutable_initializer(Below(graph.initializer_size())));
  }

  void ChangeOutputs(GraphProto& graph) {
    if (random_.OneIn(2) || graph.output_size() == 0) {
      graph.add_output()->set_name(AnyName());
    } else {
      graph.mutable_output(Below(graph.output_size()))->set_name(AnyName());
    }
  }

  void ChangeNodes(GraphProto& graph) {
    if (graph.node_size() == 0) return;
    auto* nodes = graph.mutable_node();
    switch (random_.Below(4)) {
      case 0: nodes->DeleteSubrange(Below(nodes->size()), 1); return;
      case 1: nodes->SwapElements(Below(nodes->size()), Below(nodes->size())); return;
      default: {  // one more node, with an output name that may be new
        const NodeProto copy = nodes->Get(Below(nodes->size()));
        NodeProto* added = graph.add_node();
        *added = copy;
        const std::string name = "fuzz" + std::to_string(graph.node_size());
        for (int i = 0; i < added->output_size(); ++i) added->set_output(i, name + "_" + std::to_string(i));
        if (added->output_size() > 0) graph.add_output()->set_name(added->output(0));
        ChangeNode(added);
        return;
      }
    }
  }

  void ChangeOperator(NodeProto* node) {
    const std::string& full = Operators()[random_.Below(Operators().size())];
    const size_t colons = full.find("::");
    node->set_domain(full.substr(0, colons));
    node->set_op_type(full.substr(colons + 2));
  }

  void ChangeAttribute(AttributeProto* a) {
    if (random_.OneIn(12)) a->set_type(static_cast<AttributeProto::AttributeType>(Below(15)));
    switch (a->type()) {
      case AttributeProto::INT: a->set_i(Number(a->i())); return;
      case AttributeProto::FLOAT: a->set_f(static_cast<float>(random_.Real(a->f()))); return;
      case AttributeProto::STRING:
        a->set_s(random_.OneIn(2) ? a->s() + a->s() : a->s().substr(0, random_.Below(a->s().size() + 1)));
        return;
      case AttributeProto::TENSOR: ChangeTensor(a->mutable_t()); return;
      default:
        if (a->ints_size() == 0 || random_.OneIn(4)) {
          a->add_ints(Number(1));
        } else if (random_.OneIn(5)) {
          a->mutable_ints()->RemoveLast();
        } else {
          const int at = Below(a->ints_size());
          a->set_ints(at, Number(a->ints(at)));
        }
        return;
    }
  }

  // Adds an attribute that many operators have.
  void AddAttribute(NodeProto* node) {
    constexpr const char* kNames[] = {"axis",     "axes",       "keepdims",  "to",        "perm",
                                      "pads",     "strides",    "group",     "mode",      "dilations",
                                      "alpha",    "batch_dims", "exclusive", "largest",   "k",
                                      "auto_pad", "ceil_mode",  "num_heads", "blocksize", "direction"};
    AttributeProto* a = node->add_attribute();
    a->set_name(kNames[random_.Below(std::size(kNames))]);
    const bool list = a->name().back() == 's' && a->name() != "keepdims" && a->name() != "batch_dims";
    a->set_type(list ? AttributeProto::INTS : AttributeProto::INT);
    ChangeAttribute(a);
  }

  void ChangeNode(NodeProto* node) {
    switch (random_.Below(8)) {
      case 0:
      case 1: ChangeOperator(node); return;
      case 2: node->add_input(random_.OneIn(3) ? "" : AnyName()); return;
      case 3:
        if (random_.OneIn(3) && node->input_size() > 0) node->mutable_input()->RemoveLast();
        return;
      case 4:
        if (node->input_size() > 0) node->set_input(Below(node->input_size()), AnyName());
        return;
      case 5: AddAttribute(node); return;
      default:
        if (node->attribute_size() > 0)
          ChangeAttribute(node->mutable_attribute(Below(node->attribute_size())));
        return;
    }
  }

  onnx::ModelProto& model_;
  Random& random_;
  std::vector<GraphProto*> graphs_;
  std::vector<std::string> names_;
};

}  // namespace

Bytes MutateModel(Span<const uint8_t> model, Random& random) {
  onnx::ModelProto proto;
  if (random.OneIn(10) || !proto.ParseFromArray(model.data(), static_cast<int>(model.size()))) {
    return MutateBytes(model, random);
  }
  for (uint64_t changes = 1 + random.Below(3); changes > 0; --changes) ModelMutator(&proto, random).Change();
  const std::string bytes = proto.SerializeAsString();
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace rondo::fuzz
