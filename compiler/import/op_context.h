// OpContext: an ONNX node during import, as its handler sees it.
//
// A handler reads inputs, attributes and constants from it, builds IR nodes with `b`, and sets the outputs.
// The Builder requires valid arguments, so a handler first checks everything that a model can get wrong.
// Functions here that can fail say what is wrong; the importer adds the name of the node.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/builder.h"
#include "core/status.h"
#include "formats/onnx/reader.h"

namespace rondo::onnx {
class AttributeProto;  // only handlers that walk messages include onnx.pb.h
class GraphProto;
class NodeProto;
}  // namespace rondo::onnx

namespace rondo::importer {

using ir::Builder, ir::kNoNode, ir::NodeId;

// A type that the plan supports only as packed weights (narrow_weight.h), and the codes of a weight as in the
// file, the first one in the lowest bits.
struct NarrowCodes {
  std::shared_ptr<const ir::ConstantData> data;  // u8, or synthetic; null: computed at run time
  Shape shape;                                   // of the numbers
  int bits = 0;
  bool is_signed = false;
  PackedType type = PackedType::kNone;
  // An FNUZ type of FP8: its numbers are half of the other type's for the same code. It has no infinities and
  // one code for NaN.
  bool is_fnuz = false;
  bool is_power = false;  // FLOAT8E8M0, a type of scales: code c is 2^(c - 127), 255 is NaN; `type` is kNone

  float unit() const { return is_fnuz ? 0.5f : 1; }  // the factor of a code's number
};

struct DataSizeFact;  // data_sizes.h
class SizesOfData;    // sizes_of_data.h

// The meaning of an ONNX value name: a tensor, or a sequence of tensors of known length.
struct Value {
  NodeId node = kNoNode;
  bool is_sequence = false;
  std::vector<NodeId> sequence;
  int bits = 0;  // not 0: bits of a narrow type, stored in `node` as 8 bits or f32; most handlers refuse it
  std::shared_ptr<const NarrowCodes> narrow = {};  // their type and codes
  std::shared_ptr<const DataSizeFact> data_size =
      {};  // the part of its shape that is known only at run time; most handlers refuse it
};

// Attributes by name, with references to a function's attributes resolved.
using AttributeMap = std::map<std::string, const onnx::AttributeProto*>;

class OpContext;

// Services of the importer for handlers.
class Host {
 public:
  virtual ~Host() = default;
  // Imports a subgraph of the current node with `inputs`, and returns its outputs. The subgraph sees outer
  // names.
  virtual Result<std::vector<Value>> RunSubgraph(const onnx::GraphProto& graph,
                                                 const std::vector<Value>& inputs) = 0;
  virtual Result<onnx::TensorValue> LoadTensor(const onnx::TensorProto& tensor) = 0;
  // Loads a tensor of a type that the plan supports only as packed weights.
  virtual Result<Value> LoadNarrow(const onnx::TensorProto& tensor) = 0;
  // ImportOptions::longest_unrolled.
  virtual int64_t longest_unrolled() const = 0;
  // ImportOptions::shapes_only.
  virtual bool shapes_only() const = 0;
  // ImportOptions::devices.
  virtual uint32_t devices() const = 0;
  // The device for which the program is imported.
  virtual uint32_t device() const = 0;
  // The limit on the rounds or places of `node` in a run, from ImportOptions::bounds; 0 if there is none.
  virtual int64_t BoundOf(const onnx::NodeProto& node) = 0;
  // Notes that data decide a size of the current node. Returns the object that names such sizes; null if this
  // import does not name them.
  virtual SizesOfData* NameSizes() = 0;
  // Whether the value `name` of the model's main graph is only read by rotary operators, as cosines or sines.
  // They read rows of it by position alone.
  virtual bool IsRotaryCache(const std::string& name) const = 0;
  // The number of positions that a run adds to `cache`, if that is an input of ImportOptions::growing or is
  // computed from one elementwise (casts, scales); otherwise 0.
  virtual int64_t RowsAdded(NodeId cache) = 0;
  // Notes that the node needs the values of these model inputs at compile time.
  virtual void MustKnow(const std::vector<std::string>& inputs) = 0;
  // Adds a remark for the user about the plan. Equal remarks are shown once.
  virtual void Remark(std::string text) = 0;
  // ImportReport::attributes if they were asked for; otherwise null.
  virtual std::vector<AttributeRead>* attribute_reads() = 0;
};

class OpContext {
 public:
  OpContext(ir::Builder* builder, Host* host, const onnx::NodeProto& node, int64_t opset,
            AttributeMap attributes, std::vector<Value> inputs);

  ir::Builder& b;
  Host& host;
  const onnx::NodeProto& proto;
  const int64_t opset;  // the version imported for the node's domain

  // --- inputs. In(i) is kNoNode if absent.
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool Has(int i) const;
  NodeId In(int i) const { return Has(i) ? inputs_[static_cast<size_t>(i)].node : kNoNode; }
  const Value& InValue(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const Shape& shape(int i) const { return b.shape(In(i)); }
  int rank(int i) const { return shape(i).rank; }
  ir::Size SizeOf(int i, int axis) const { return b.SizeOf(In(i), axis); }
  ir::Dims SizesOf(int i) const { return b.SizesOf(In(i)); }
  DType dtype(int i) const { return b.dtype(In(i)); }

  // --- outputs.
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  bool Wants(int i) const;
  void Set(int i, NodeId node) { SetValue(i, Value{node, false, {}}); }
  // Sets output 0: the last step of a handler with one output.
  Status Give(NodeId node) {
    Set(0, node);
    return Status::Ok();
  }
  void SetValue(int i, Value value);
  const std::vector<Value>& outputs() const { return outputs_; }

  // --- attributes. `otherwise` is the default. `line` is the place of the call, only for AttributeRead.
  const AttributeMap& attributes() const { return attributes_; }
  const onnx::AttributeProto* Attribute(const char* name, int line = __builtin_LINE()) const;
  bool HasAttribute(const char* name, int line = __builtin_LINE()) const;
  int64_t Int(const char* name, int64_t otherwise, int line = __builtin_LINE()) const;
  float Float(const char* name, float otherwise, int line = __builtin_LINE()) const;
  std::string String(const char* name, const char* otherwise, int line = __builtin_LINE()) const;
  // Empty if the attribute is absent, which means `each` for every element.
  std::vector<int64_t> Ints(const char* name, int64_t each = 0, int line = __builtin_LINE()) const;
  std::vector<float> Floats(const char* name, int line = __builtin_LINE()) const;
  std::vector<std::string> Strings(const char* name, int line = __builtin_LINE()) const;
  Result<NodeId> Tensor(const onnx::TensorProto& tensor) const;

  // --- constants. The value of a node or of input `i`, evaluated from constants if needed. kUnsupported if
  // it depends on the model's inputs; the message names them.
  Result<std::shared_ptr<const ir::ConstantData>> Known(NodeId node) const;
  Result<std::vector<int64_t>> ConstantInts(int i) const;
  // Whether input `i` is neither constant nor computed from sizes.
  bool DataDecide(int i) const;
  Result<std::vector<double>> ConstantFloats(int i) const;
  // The same for integers that may be run-time sizes.
  Result<ir::Dims> Sizes(int i);
  // Integers from input `i` if present, otherwise from the attribute, otherwise none. `given`: whether either
  // was present.
  Result<std::vector<int64_t>> IntsFrom(int i, const char* attribute, bool* given,
                                        int line = __builtin_LINE()) const;

  // --- checks.
  // `axis` counted from the front.
  Result<int> Axis(int64_t axis, int rank) const;
  // The same for a list, sorted. Each axis may occur once.
  Result<std::vector<int>> Axes(const std::vector<int64_t>& axes, int rank) const;
  // MakeShape: a shape from numbers, at most kMaxRank of them, none negative, with a limit on its size.
  // ExtentsOf: the same from the extents of sizes.
  Result<Shape> MakeShape(const std::vector<int64_t>& dims) const;
  Result<Shape> ExtentsOf(const ir::Dims& dims) const;
  Result<Shape> Broadcast(const Shape& a, const Shape& b) const;
  Status RequireFloat(int i) const;
  Status RequireInteger(int i) const;
  Status RequireSameType(int i, int j) const;
  Status RequireFloats(int i, int j) const;  // both of one float type
  Status RequireRank(int i, int least, int most) const;

 private:
  std::optional<ir::Dims> NumbersOf(int i) const;
  const onnx::AttributeProto* Find(const char* name) const;
  void Note(const char* name, AttributeRead::Kind kind, bool is_other, int line) const;

  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
  AttributeMap attributes_;
};

// "[2, 3]", for messages.
std::string Text(const Shape& shape);

// The names of the graph's inputs on which a node depends, sorted.
std::vector<std::string> InputsBehind(const ir::Graph& graph, NodeId id);

// The value of a node that depends only on constants, without the builder's size limit. An error if it
// depends on an input or a synthetic weight.
Result<std::shared_ptr<const ir::ConstantData>> EvaluateConstant(const ir::Graph& graph, NodeId id);

}  // namespace rondo::importer
