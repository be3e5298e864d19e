#include "compiler/ir/call_info.h"

namespace rondo::ir {
namespace {

class Key {
 public:
  template <typename T>
  void Add(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Add(std::string_view text) {
    Add(text.size());
    text_ += text;
  }
  void AddType(DType dtype, const Shape& shape) {
    Add(dtype);
    Add(shape.rank);
    for (int64_t d : shape) Add(d);
  }
  template <typename T>
  void AddAll(Span<const T> list) {
    Add(list.size());
    for (const T& value : list) Add(value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string KeyOf(const CustomOp& op) {
  Key key;
  key.Add(op.domain);
  key.Add(op.name);
  key.Add(op.version);
  key.Add(op.library);
  key.Add(op.graph_safe);
  key.Add(op.reason);
  key.Add(op.num_inputs);
  key.Add(op.arguments.size());
  for (const CustomArgument& a : op.arguments) {
    key.AddType(a.dtype, a.shape);
    key.Add(a.mode);
    key.Add(a.alias);
    key.Add(a.absent);
  }
  for (const CustomAttribute& a : op.attributes) {
    key.Add(a.name);
    key.Add(a.kind);
    key.AddAll(a.ints);
    key.AddAll(a.floats);
    key.AddAll(a.texts);
    key.AddType(a.dtype, a.shape);
    key.AddAll(a.data);
  }
  return key.Take();
}

}  // namespace rondo::ir
