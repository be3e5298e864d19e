#include "compiler/import/import_call.h"

#include "compiler/ir/throwing_arena.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

template <typename T, typename List>
Span<const T> Copied(const List& list, Arena* arena) {
  return arena->Copy(std::vector<T>(list.begin(), list.end()));
}

Span<const std::string_view> Texts(const std::vector<std::string>& texts, Arena* arena) {
  std::vector<std::string_view> out;
  for (const std::string& text : texts) out.push_back(arena->CopyText(text));
  return arena->Copy(out);
}

Status TakeAttribute(const onnx::AttributeProto& from, OpContext& c, Arena* arena, CustomAttribute* out) {
  switch (from.type()) {
    case onnx::AttributeProto::INT:
      out->kind = AttributeKind::kInt;
      out->ints = arena->Copy(std::vector<int64_t>{from.i()});
      return Status::Ok();
    case onnx::AttributeProto::FLOAT:
      out->kind = AttributeKind::kFloat;
      out->floats = arena->Copy(std::vector<float>{from.f()});
      return Status::Ok();
    case onnx::AttributeProto::STRING:
      out->kind = AttributeKind::kString;
      out->texts = Texts({from.s()}, arena);
      return Status::Ok();
    case onnx::AttributeProto::INTS:
      out->kind = AttributeKind::kInts;
      out->ints = Copied<int64_t>(from.ints(), arena);
      return Status::Ok();
    case onnx::AttributeProto::FLOATS:
      out->kind = AttributeKind::kFloats;
      out->floats = Copied<float>(from.floats(), arena);
      return Status::Ok();
    case onnx::AttributeProto::STRINGS:
      out->kind = AttributeKind::kStrings;
      out->texts = Texts({from.strings().begin(), from.strings().end()}, arena);
      return Status::Ok();
    case onnx::AttributeProto::TENSOR: {
      RONDO_ASSIGN_OR_RETURN(onnx::TensorValue value, c.host.LoadTensor(from.t()));
      if (value.missing) return Status::Error(Code::kNotFound, "the file of its data is missing");
      if (value.shape.rank > RONDO_OP_MAX_RANK)
        return Status::Error(Code::kUnsupported, "%d dimensions; custom ops take at most %d",
                             value.shape.rank, RONDO_OP_MAX_RANK);
      out->kind = AttributeKind::kTensor;
      out->dtype = value.dtype;
      out->shape = value.shape;
      out->data = arena->Copy(std::vector<uint8_t>(value.bytes.begin(), value.bytes.end()));
      return Status::Ok();
    }
    default:
      return Status::Error(Code::kUnsupported,
                           "a custom op takes numbers, strings, lists of them, or a tensor");
  }
}

Result<Span<const CustomAttribute>> TakeAttributes(OpContext& c, Arena* arena) {
  std::vector<CustomAttribute> attributes;
  for (const auto& [name, from] : c.attributes()) {
    CustomAttribute attribute;
    attribute.name = arena->CopyText(name);
    RONDO_RETURN_IF_ERROR(
        TakeAttribute(*from, c, arena, &attribute).At("attribute \"%.100s\"", name.c_str()));
    attributes.push_back(attribute);
  }
  return Span<const CustomAttribute>(arena->Copy(attributes));
}

}  // namespace

Status ImportCall(const OpInfo& info, const std::string& node, std::string_view outside_graphs,
                  OpContext& c) {
  const bool chosen = c.b.faults_where() != kNoNode, effects = (info.op.flags & RONDO_OP_SIDE_EFFECTS) != 0;
  if (chosen && effects) {
    return Status::Error(
        Code::kUnsupported,
        "a custom op with side effects lies in a branch of an If whose condition depends on the "
        "model's inputs: both branches are computed in every run. Take it out of the If, or say "
        "which branch is meant where one input decides it (--bind INPUT=VALUE)");
  }
  if (chosen) {
    c.host.Remark(
        "custom op " + node +
        " lies in a branch of an If that a run decides: it is called in every run, also when the branch "
        "is not taken, and an error of it ends the run");
  }
  auto arena = ir::NewArena();
  RONDO_ASSIGN_OR_RETURN(const Span<const CustomAttribute> attributes, TakeAttributes(c, arena.get()));
  std::vector<CustomArgument> arguments;
  std::vector<NodeId> inputs;
  int given = c.num_inputs();
  while (given > 0 && c.proto.input(given - 1).empty()) --given;
  for (int i = 0; i < given; ++i) {
    CustomArgument argument;
    argument.absent = !c.Has(i);
    if (argument.absent && !c.proto.input(i).empty()) {
      return Status::Error(Code::kUnsupported, "input %d is a sequence; a custom op takes tensors", i);
    }
    if (!argument.absent) {
      argument.dtype = c.dtype(i);
      argument.shape = c.shape(i);
      inputs.push_back(c.In(i));
    }
    arguments.push_back(argument);
  }
  auto call = std::make_shared<ir::CallInfo>();
  RONDO_ASSIGN_OR_RETURN(call->op,
                         DescribeCall(info, Span<const CustomArgument>(arguments.data(), arguments.size()),
                                      static_cast<uint32_t>(c.num_outputs()), attributes, node, *arena));
  if (call->op.graph_safe && info.op.enqueue == nullptr && !outside_graphs.empty()) {
    call->op.graph_safe = false;
    call->op.reason = arena->CopyText(outside_graphs);
  }
  call->side_effects = effects;
  call->key = ir::KeyOf(call->op);
  call->keep = arena;
  const std::vector<NodeId> outputs = c.b.Call(call, std::move(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) c.Set(static_cast<int>(i), outputs[i]);
  return Status::Ok();
}

}  // namespace rondo::importer
