// Importer: walks the graphs of one ONNX model and calls the handler of every node.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/import/allowance.h"
#include "compiler/import/annotations.h"
#include "compiler/import/control_edges.h"
#include "compiler/import/import.h"
#include "compiler/import/op_context.h"
#include "compiler/import/open_dims.h"
#include "compiler/import/registry.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// The values of names. A subgraph also sees the names of the scopes around it.
struct Scope {
  Scope* parent = nullptr;
  std::unordered_map<std::string, Value> values;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers;  // not loaded yet
};

// The context in which nodes are imported: the model itself, or one call of a model function.
struct Frame {
  std::map<std::string, int64_t> opsets;
  AttributeMap attributes;           // of the calling node, for references
  std::string prefix;                // of node names: the calling nodes, "outer/inner/"
  std::vector<std::string> sources;  // provenance of the calls
  int depth = 0;
  Statements bindings = {};  // of the nodes that contain it: calls, Loops, Scans, Ifs
};

class Importer : public Host {
 public:
  Importer(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options, ImportReport* report,
           ir::Graph* graph);

  // Follows the sizes in `options` that are not known. `sizes` belongs to the graph. Once the model's inputs
  // exist, `name_sizes` sets the nodes that give these sizes (ir::Sizes::SetNode).
  void Follow(ir::Sizes* sizes, std::function<void(ir::Builder*)> name_sizes);
  // Makes the import name the sizes that data decide.
  void NameSizesWith(SizesOfData* names) { names_ = names; }
  Status Run();
  // Whether data decide any size.
  bool data_decide() const { return data_decide_; }

  Result<std::vector<Value>> RunSubgraph(const onnx::GraphProto& graph,
                                         const std::vector<Value>& inputs) override;
  Result<onnx::TensorValue> LoadTensor(const onnx::TensorProto& tensor) override;
  Result<Value> LoadNarrow(const onnx::TensorProto& tensor) override;
  int64_t longest_unrolled() const override { return options_.longest_unrolled; }
  bool shapes_only() const override { return options_.shapes_only; }
  uint32_t devices() const override { return options_.devices; }
  uint32_t device() const override { return options_.rank; }
  int64_t BoundOf(const onnx::NodeProto& node) override;
  SizesOfData* NameSizes() override;
  bool IsRotaryCache(const std::string& name) const override;
  int64_t RowsAdded(NodeId cache) override;
  void Remark(std::string text) override;
  void MustKnow(const std::vector<std::string>& inputs) override { must_know_ = inputs; }
  // Inputs of the model whose value the last node needs at compile time.
  const std::vector<std::string>& must_know() const { return must_know_; }
  std::vector<AttributeRead>* attribute_reads() override {
    return options_.list_attributes && report_ != nullptr ? &report_->attributes : nullptr;
  }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  using Names = std::unordered_set<std::string>;

  Status AddInitializers(const onnx::GraphProto& graph, Scope* scope);
  Status AddInputs(Scope* scope);
  Status AddSequence(const std::string& name, const onnx::TypeProto& of, Scope* scope);
  Result<ir::Dims> InputShape(const onnx::ValueInfoProto& info, OpenDims* open);
  Status AddOutputs(Scope* scope);
  Status CheckOpset(int64_t opset);
  Status ReadHints(const Scope& scope);
  // In importer_unknown.cc.
  Status ListUnknown(const Nodes& nodes, const std::vector<bool>& needed, const Frame& frame);
  void CollectUnknown(const Nodes& nodes, const std::vector<bool>* needed, const Frame& frame, int depth,
                      std::map<std::string, std::vector<std::string>>* unknown);
  Status ImportNodes(const Nodes& nodes, const std::vector<bool>& needed, Scope* scope, const Frame& frame);
  Status ImportNode(const onnx::NodeProto& node, Scope* scope, const Frame& frame,
                    const Statements& bindings);
  Result<Statements> Bind(const onnx::NodeProto& node, const Frame& frame, bool needed);
  Status CallFunction(const onnx::FunctionProto& function, const onnx::NodeProto& node, Scope* scope,
                      const Frame& frame, const Statements& bindings);
  // In importer_assertions.cc. IsAsserted: whether an annotation asserts the node's outputs. Assert: asserts
  // output `output` and replaces `value` by the asserted value. `computes`: a kernel computes some of the
  // node.
  bool IsAsserted(const onnx::NodeProto& node, const Frame& frame) const;
  Status Assert(const onnx::NodeProto& node, int output, const Frame& frame, const Statements& bindings,
                bool computes, Value* value);
  void NoteOrder(const onnx::NodeProto& node, NodeId first, const Scope& scope, const Frame& frame);
  Status CallHandler(const OpRow& row, OpContext& c);
  std::shared_ptr<ir::ConstantData> DataOf(const onnx::TensorValue& value, const std::string& name);
  Result<Value> LoadInitializer(const onnx::TensorProto& tensor);
  Result<Value> Lookup(const std::string& name, Scope* scope);
  Result<std::vector<Value>> GatherInputs(const onnx::NodeProto& node, Scope* scope);
  const onnx::FunctionProto* FindFunction(const onnx::NodeProto& node) const;
  // The custom op that `node` calls, or null.
  const OpInfo* FindCustom(const onnx::NodeProto& node, const Frame& frame) const;
  // In importer_needed.cc.
  bool HasEffects(const onnx::NodeProto& node, const Frame& frame, int depth) const;
  std::vector<bool> NeededFor(const Nodes& nodes, Names wanted, const Frame& frame) const;
  std::vector<bool> NeededWithOrder(const Nodes& nodes, Names wanted, const Frame& frame) const;
  NodeId Normalise(NodeId id);
  NodeId NumbersAsSizes(NodeId id);
  Status HasRoom(NodeId first);

  std::shared_ptr<onnx::Model> model_;
  const ImportOptions& options_;
  ImportReport* report_;
  ir::Builder builder_;
  ControlEdges control_;
  Allowance allowance_;
  std::map<std::string, const onnx::FunctionProto*> functions_;
  // Whether a function's body contains a custom op with side effects, for the functions asked about so far.
  mutable std::unordered_map<const onnx::FunctionProto*, bool> effects_;
  // The context of the node being imported, for its subgraphs.
  Scope* scope_ = nullptr;
  const Frame* frame_ = nullptr;
  const onnx::NodeProto* node_ = nullptr;
  const Statements* bindings_ = nullptr;
  std::map<std::string, int64_t> asserted_;  // by the value's name: the number of its assertion in the report
  int bound_nodes_ = 0;                      // the number of the last node that something binds
  std::vector<std::string> must_know_;
  std::string loop_;  // the outermost Loop, Scan or SequenceMap around the current node, or ""
  std::function<void(ir::Builder*)> name_sizes_;
  SizesOfData* names_ = nullptr;  // names of the sizes that data decide; null: they get none
  bool data_decide_ = false;
};

constexpr int kMaxCallDepth = 64;  // nested functions and subgraphs

// The opsets by domain, "" for ai.onnx; and that of a domain, 1 if the frame has none.
std::map<std::string, int64_t> Opsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);
int64_t OpsetFor(const Frame& frame, const std::string& domain);

// The name of a node in messages and provenance: its own, or its first output's.
std::string NodeName(const onnx::NodeProto& node);

}  // namespace rondo::importer
