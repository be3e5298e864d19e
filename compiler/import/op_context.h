// OpContext: one ONNX node on its way into the IR, as its handler sees it.
//
// A handler reads inputs, attributes and constants through it, builds IR nodes with `b`, and sets outputs.
// The Builder requires valid arguments, so a handler checks what a model can get wrong first; the functions
// here that can fail say what is wrong and leave naming the node to the importer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/builder.h"
#include "core/status.h"
#include "formats/onnx/reader.h"

namespace rondo::onnx {
class AttributeProto;  // onnx.pb.h, which only handlers that walk messages include
class GraphProto;
class NodeProto;
}  // namespace rondo::onnx

namespace rondo::importer {

using ir::Builder, ir::kNoNode, ir::NodeId;

// A type that the plan knows only as packed weights (narrow_weight.h), and the codes of a weight as the file
// has them: the first in the lowest bits.
struct NarrowCodes {
  std::shared_ptr<const ir::ConstantData> data;  // u8; has bytes, or is synthetic; null: numbers of a run
  Shape shape;                                   // of the numbers
  int bits = 0;
  bool is_signed = false;
  PackedType type = PackedType::kNone;
  // Of the FP8 types FNUZ, whose numbers are half of the others' by the same code, without infinities and
  // with one code for NaN.
  bool is_fnuz = false;
  bool is_power = false;  // FLOAT8E8M0, which scales: code c is 2^(c - 127), 255 is NaN; of type kNone

  float unit() const { return is_fnuz ? 0.5f : 1; }  // times what the code stands for
};

struct DataSizeFact;  // data_sizes.h
class SizesOfData;    // sizes_of_data.h

// What an ONNX value name stands for: a tensor, or a sequence of tensors whose length is known.
struct Value {
  NodeId node = kNoNode;
  bool is_sequence = false;
  std::vector<NodeId> sequence;
  int bits = 0;  // not 0: numbers whose own type has so few, as 8-bit ones or f32; most handlers refuse them
  std::shared_ptr<const NarrowCodes> narrow = {};  // their type and codes
  std::shared_ptr<const DataSizeFact> data_size =
      {};  // what of its shape only a run knows; most handlers refuse it
};

// Attributes by name, references to a function's attributes resolved.
using AttributeMap = std::map<std::string, const onnx::AttributeProto*>;

class OpContext;

// What a handler may ask of the importer itself.
class Host {
 public:
  virtual ~Host() = default;
  // Imports a subgraph of the current node with `inputs`; gives its outputs. Outer names are visible to it.
  virtual Result<std::vector<Value>> RunSubgraph(const onnx::GraphProto& graph,
                                                 const std::vector<Value>& inputs) = 0;
  virtual Result<onnx::TensorValue> LoadTensor(const onnx::TensorProto& tensor) = 0;
  // A tensor of a type that the plan knows only as packed weights.
  virtual Result<Value> LoadNarrow(const onnx::TensorProto& tensor) = 0;
  // ImportOptions::longest_unrolled.
  virtual int64_t longest_unrolled() const = 0;
  // ImportOptions::shapes_only.
  virtual bool shapes_only() const = 0;
  // ImportOptions::devices.
  virtual uint32_t devices() const = 0;
  // The one that is imported for.
  virtual uint32_t device() const = 0;
  // The most rounds, or places, that ImportOptions::bounds says `node` has in a run; 0: it says nothing.
  virtual int64_t BoundOf(const onnx::NodeProto& node) = 0;
  // Notes that data decide a size of the current node. What names such sizes, if this import does; else null.
  virtual SizesOfData* NameSizes() = 0;
  // Whether all that reads the value `name` of the model's main graph are rotary operators, as cosines or
  // sines: of those they read rows by position alone.
  virtual bool IsRotaryCache(const std::string& name) const = 0;
  // How many positions a run adds to what `cache` shows, if that is an input of ImportOptions::growing, or
  // made of one place by place (casts, scales); else 0.
  virtual int64_t RowsAdded(NodeId cache) = 0;
  // That the node needs the values of these inputs of the model at compile time.
  virtual void MustKnow(const std::vector<std::string>& inputs) = 0;
  // A sentence that people should read of the plan; one text is said once.
  virtual void Remark(std::string text) = 0;
  // ImportReport::attributes if they are asked for, else null.
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

  // --- inputs. In(i) is kNoNode when absent.
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
  // Sets output 0, the last thing that a handler of one output does.
  Status Give(NodeId node) {
    Set(0, node);
    return Status::Ok();
  }
  void SetValue(int i, Value value);
  const std::vector<Value>& outputs() const { return outputs_; }

  // --- attributes. `otherwise` is the default; `line`, where the handler asks, is for AttributeRead alone.
  const AttributeMap& attributes() const { return attributes_; }
  const onnx::AttributeProto* Attribute(const char* name, int line = __builtin_LINE()) const;
  bool HasAttribute(const char* name, int line = __builtin_LINE()) const;
  int64_t Int(const char* name, int64_t otherwise, int line = __builtin_LINE()) const;
  float Float(const char* name, float otherwise, int line = __builtin_LINE()) const;
  std::string String(const char* name, const char* otherwise, int line = __builtin_LINE()) const;
  // Empty when left out, which means `each` in every element.
  std::vector<int64_t> Ints(const char* name, int64_t each = 0, int line = __builtin_LINE()) const;
  std::vector<float> Floats(const char* name, int line = __builtin_LINE()) const;
  std::vector<std::string> Strings(const char* name, int line = __builtin_LINE()) const;
  Result<NodeId> Tensor(const onnx::TensorProto& tensor) const;

  // --- constants. The value of a node, or of input `i`, evaluated from constants if need be; kUnsupported
  // when it depends on the model's inputs, which the error names.
  Result<std::shared_ptr<const ir::ConstantData>> Known(NodeId node) const;
  Result<std::vector<int64_t>> ConstantInts(int i) const;
  // Whether input `i` is neither constant nor made of sizes.
  bool DataDecide(int i) const;
  Result<std::vector<double>> ConstantFloats(int i) const;
  // The same of numbers that may be sizes which a run decides.
  Result<ir::Dims> Sizes(int i);
  // Ints from input `i` if present, else from the attribute, else empty; `given` says whether either was.
  Result<std::vector<int64_t>> IntsFrom(int i, const char* attribute, bool* given,
                                        int line = __builtin_LINE()) const;

  // --- checks.
  // `axis` counted from the front.
  Result<int> Axis(int64_t axis, int rank) const;
  // The same for a list; each axis at most once; sorted.
  Result<std::vector<int>> Axes(const std::vector<int64_t>& axes, int rank) const;
  // A shape from numbers: at most kMaxRank dims, none negative, of a sane size. Of sizes: of their extents.
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

// Names of the graph's inputs that a node depends on, sorted.
std::vector<std::string> InputsBehind(const ir::Graph& graph, NodeId id);

// The value of a node that depends on constants alone, evaluated without the builder's limit of size; an
// error when it depends on an input (or a synthetic weight).
Result<std::shared_ptr<const ir::ConstantData>> EvaluateConstant(const ir::Graph& graph, NodeId id);

}  // namespace rondo::importer
