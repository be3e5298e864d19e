// Calls of custom ops as plain data, made by the compiler and compared by drivers.
#include "core/custom_op.h"

#include <cinttypes>
#include <cstring>

namespace rondo {
namespace {

constexpr size_t kErrorBytes = 512;
constexpr uint64_t kMostBytes = 1ull << 46;  // of one argument, as the plan's verifier has it

Status NoMemory() { return Status::Error(Code::kOutOfMemory, "no host memory to describe a custom op"); }

bool IsMutated(const rondo_op& op, uint32_t input) {
  return op.input_flags != nullptr && input < op.max_inputs &&
         (op.input_flags[input] & RONDO_OP_MUTATED) != 0;
}
// Of the node: without workspace.
uint32_t OutputsOf(const CustomOp& call) {
  const size_t outputs = call.arguments.size() - call.num_inputs;
  const bool workspace = outputs != 0 && call.IsWorkspace(call.arguments.size() - 1);
  return static_cast<uint32_t>(outputs - workspace);
}
int32_t AliasOf(const rondo_op& op, uint32_t output) {
  return op.output_aliases == nullptr ? -1 : op.output_aliases[output];
}

Status Wrong(const OpInfo& info, std::string_view node, const Status& why) {
  const int size = static_cast<int>(node.size());
  return why
      .At("%.*s%scustom op \"%s.%s\" of %.*s", size, node.data(), size == 0 ? "" : ": ", info.op.domain,
          info.op.name, static_cast<int>(info.library.size()), info.library.data())
      .FromNode(node);
}

rondo_op_type TypeOf(const CustomArgument& argument) {
  rondo_op_type type = {};
  type.dtype = argument.absent ? RONDO_OP_ABSENT : static_cast<int32_t>(argument.dtype);
  if (argument.absent) return type;
  type.rank = argument.shape.rank;
  for (int i = 0; i < argument.shape.rank; ++i) type.dims[i] = argument.shape[i];
  return type;
}

// A type that a library gave for output `index`.
Status TakeType(const rondo_op_type& type, uint32_t index, CustomArgument* out) {
  if (type.dtype < 0 || type.dtype >= kNumDTypes) {
    return Status::Error(Code::kInvalidArgument, "it gives output %u dtype %d, which does not exist", index,
                         type.dtype);
  }
  if (type.rank < 0 || type.rank > RONDO_OP_MAX_RANK) {
    return Status::Error(Code::kInvalidArgument, "it gives output %u rank %d, which is not within 0 to %d",
                         index, type.rank, RONDO_OP_MAX_RANK);
  }
  out->dtype = static_cast<DType>(type.dtype);
  out->shape.rank = type.rank;
  uint64_t bytes = static_cast<uint64_t>(ByteSize(out->dtype));
  for (int i = 0; i < type.rank; ++i) {
    out->shape[i] = type.dims[i];
    const uint64_t dim = static_cast<uint64_t>(type.dims[i]);
    if (type.dims[i] >= 0 &&
        (dim == 0 || (!__builtin_mul_overflow(bytes, dim, &bytes) && bytes <= kMostBytes))) {
      continue;
    }
    return Status::Error(Code::kInvalidArgument, "it gives output %u extent %" PRId64 " for axis %d", index,
                         type.dims[i], i);
  }
  return Status::Ok();
}

Status CheckArguments(const OpInfo& info, Span<const CustomArgument> inputs, uint32_t num_outputs) {
  const rondo_op& op = info.op;
  if (inputs.size() < op.min_inputs || inputs.size() > op.max_inputs) {
    return Status::Error(Code::kInvalidArgument, "the node has %zu inputs; the op takes %u to %u",
                         inputs.size(), op.min_inputs, op.max_inputs);
  }
  if (num_outputs < op.min_outputs || num_outputs > op.max_outputs) {
    return Status::Error(Code::kInvalidArgument, "the node has %u outputs; the op has %u to %u", num_outputs,
                         op.min_outputs, op.max_outputs);
  }
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    bool aliased = false;
    for (uint32_t k = 0; k < num_outputs; ++k) aliased |= AliasOf(op, k) == static_cast<int32_t>(i);
    if (inputs[i].shape.rank > RONDO_OP_MAX_RANK) {
      return Status::Error(Code::kUnsupported, "input %u has %d dimensions; custom ops take at most %d", i,
                           inputs[i].shape.rank, RONDO_OP_MAX_RANK);
    }
    if (inputs[i].absent && (i < op.min_inputs || aliased)) {
      return Status::Error(Code::kInvalidArgument, "the node leaves out input %u, which the op needs", i);
    }
    if (IsMutated(op, i) && !aliased) {
      return Status::Error(
          Code::kInvalidArgument,
          "the op changes input %u, but the node does not name the output that is its new version", i);
    }
  }
  return Status::Ok();
}

Status Infer(const OpInfo& info, const CustomOp& call, std::string_view node, Arena& arena,
             Span<CustomArgument> outputs) {
  const rondo_op_node* of = MakeOpNode(call, node, arena);
  Span<rondo_op_type> types = arena.New<rondo_op_type>(outputs.size());
  if (of == nullptr || types.data() == nullptr) return NoMemory();
  rondo_op_node asked = *of;
  asked.outputs = nullptr;
  asked.num_outputs = outputs.size();
  for (rondo_op_type& type : types) type.dtype = RONDO_OP_ABSENT;
  char error[kErrorBytes] = "";
  const int32_t result = info.op.infer(info.op.user, &asked, types.data(), error, sizeof(error));
  error[sizeof(error) - 1] = '\0';
  if (result != 0) {
    return Status::Error(result == RONDO_OP_NO_MEMORY ? Code::kOutOfMemory : Code::kInvalidArgument, "%s",
                         error[0] != '\0' ? error : "its infer function failed");
  }
  for (uint32_t i = 0; i < outputs.size(); ++i) RONDO_RETURN_IF_ERROR(TakeType(types[i], i, &outputs[i]));
  return Status::Ok();
}

// The outputs' modes and aliases, and that what is one memory has one type.
Status TakeAliases(const rondo_op& op, Span<const CustomArgument> inputs, Span<CustomArgument> outputs) {
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    outputs[i].mode = Mode::kWrite;
    const int32_t alias = AliasOf(op, i);
    if (alias < 0) continue;
    const CustomArgument& input = inputs[static_cast<size_t>(alias)];
    if (input.dtype != outputs[i].dtype || !(input.shape == outputs[i].shape)) {
      char a[128], b[128];
      return Status::Error(Code::kInvalidArgument,
                           "output %u is input %d's memory, but it gives it %s%s where the input has %s%s", i,
                           alias, Name(outputs[i].dtype), Format(outputs[i].shape, a, sizeof(a)),
                           Name(input.dtype), Format(input.shape, b, sizeof(b)));
    }
    outputs[i].alias = static_cast<uint32_t>(alias);
    if (!IsMutated(op, static_cast<uint32_t>(alias))) outputs[i].mode = Mode::kRead;
  }
  return Status::Ok();
}

// Asks for the bytes that the op works in. `argument` follows those that `call` has.
Status TakeWorkspace(const rondo_op& op, std::string_view node, Arena& arena, CustomArgument* argument,
                     CustomOp* call) {
  if (op.workspace == nullptr) return Status::Ok();
  const rondo_op_node* of = MakeOpNode(*call, node, arena);
  if (of == nullptr) return NoMemory();
  const uint64_t bytes = op.workspace(op.user, of);
  if (bytes > kMostBytes) {
    return Status::Error(Code::kInvalidArgument,
                         "it asks for %" PRIu64 " bytes of workspace; the most is %" PRIu64, bytes,
                         kMostBytes);
  }
  if (bytes == 0) return Status::Ok();
  argument->dtype = DType::kU8;
  argument->shape = Shape{static_cast<int64_t>(bytes)};
  argument->mode = Mode::kReadWrite;
  call->arguments = {call->arguments.data(), call->arguments.size() + 1};
  return Status::Ok();
}

bool MakeAttribute(const CustomAttribute& in, Arena& arena, rondo_op_attribute* out) {
  const std::string_view name = arena.CopyText(in.name);
  Span<const char*> texts = arena.New<const char*>(in.texts.size());
  char* data = static_cast<char*>(arena.Allocate(in.data.size(), 64));
  if (name.data() == nullptr || texts.data() == nullptr || data == nullptr) return false;
  for (size_t i = 0; i < texts.size(); ++i) {
    texts[i] = arena.CopyText(in.texts[i]).data();
    if (texts[i] == nullptr) return false;
  }
  if (!in.data.empty()) std::memcpy(data, in.data.data(), in.data.size());
  out->name = name.data();
  out->kind = static_cast<int32_t>(in.kind);
  out->ints = in.ints.data();
  out->floats = in.floats.data();
  out->texts = texts.data();
  out->data = data;
  CustomArgument type;
  type.dtype = in.dtype;
  type.shape = in.shape;
  out->type = TypeOf(type);
  switch (in.kind) {
    case AttributeKind::kInts: out->count = in.ints.size(); break;
    case AttributeKind::kFloats: out->count = in.floats.size(); break;
    case AttributeKind::kStrings: out->count = in.texts.size(); break;
    case AttributeKind::kTensor: out->count = in.data.size(); break;
    default: out->count = 1;
  }
  return true;
}

bool SameArgument(const CustomArgument& a, const CustomArgument& b) {
  return a.absent == b.absent && a.mode == b.mode && a.alias == b.alias &&
         (a.absent || (a.dtype == b.dtype && a.shape == b.shape));
}

// Compares a plan's call with what the library says of the same inputs and attributes.
Status Compare(const OpInfo& info, const CustomOp& call, std::string_view node) {
  Arena scratch;
  Span<const CustomArgument> inputs = call.arguments.subspan(0, call.num_inputs);
  const uint32_t outputs = OutputsOf(call);
  RONDO_ASSIGN_OR_RETURN(CustomOp now, DescribeCall(info, inputs, outputs, call.attributes, node, scratch));
  if (now.arguments.size() != call.arguments.size()) {
    return Wrong(
        info, node,
        Status::Error(Code::kUnsupported,
                      "it has %s workspace in the plan, and %s in the library: compile the model again",
                      outputs + call.num_inputs < call.arguments.size() ? "a" : "no",
                      outputs + call.num_inputs < now.arguments.size() ? "one" : "none"));
  }
  if (call.graph_safe && !now.graph_safe) {  // the other way round, the plan takes more care than it must
    return Wrong(
        info, node,
        Status::Error(Code::kUnsupported,
                      "the plan was compiled when a graph could contain it, and now a graph may not: "
                      "compile it again"));
  }
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (SameArgument(now.arguments[i], call.arguments[i])) continue;
    const bool input = i < call.num_inputs;
    char a[128], b[128];
    const CustomArgument &x = call.arguments[i], &y = now.arguments[i];
    return Wrong(
        info, node,
        Status::Error(Code::kUnsupported,
                      "%s %zu is %s%s in the plan and %s%s, or used in another way, in the library: compile "
                      "the model again",
                      input ? "input" : "output", input ? i : i - call.num_inputs, Name(x.dtype),
                      Format(x.shape, a, sizeof(a)), Name(y.dtype), Format(y.shape, b, sizeof(b))));
  }
  return Status::Ok();
}

}  // namespace

const rondo_op_node* MakeOpNode(const CustomOp& call, std::string_view node, Arena& arena) {
  Span<rondo_op_node> out = arena.New<rondo_op_node>(1);
  Span<rondo_op_attribute> attributes = arena.New<rondo_op_attribute>(call.attributes.size());
  Span<rondo_op_type> types = arena.New<rondo_op_type>(call.arguments.size());
  const std::string_view name = arena.CopyText(node);
  if (out.data() == nullptr || attributes.data() == nullptr || types.data() == nullptr ||
      name.data() == nullptr) {
    return nullptr;
  }
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (!MakeAttribute(call.attributes[i], arena, &attributes[i])) return nullptr;
  }
  for (size_t i = 0; i < types.size(); ++i) types[i] = TypeOf(call.arguments[i]);
  out[0].size = sizeof(rondo_op_node);
  out[0].name = name.data();
  out[0].attributes = attributes.data();
  out[0].num_attributes = attributes.size();
  out[0].inputs = types.data();
  out[0].num_inputs = call.num_inputs;
  out[0].outputs = types.data() + call.num_inputs;
  out[0].num_outputs = OutputsOf(call);
  return &out[0];
}

Result<CustomOp> DescribeCall(const OpInfo& info, Span<const CustomArgument> inputs, uint32_t num_outputs,
                              Span<const CustomAttribute> attributes, std::string_view node, Arena& arena) {
  if (Status status = CheckArguments(info, inputs, num_outputs); !status.ok())
    return Wrong(info, node, status);
  Span<CustomArgument> arguments = arena.New<CustomArgument>(inputs.size() + num_outputs + 1);
  CustomOp call;
  call.domain = arena.CopyText(info.op.domain);
  call.name = arena.CopyText(info.op.name);
  call.library = arena.CopyText(info.library);
  call.reason = arena.CopyText(info.op.no_graph_reason);
  if (arguments.data() == nullptr || call.domain.data() == nullptr || call.name.data() == nullptr ||
      call.library.data() == nullptr || call.reason.data() == nullptr) {
    return NoMemory();
  }
  call.version = info.op.since_version;
  call.graph_safe = (info.op.flags & RONDO_OP_NO_GRAPH) == 0;
  call.num_inputs = static_cast<uint32_t>(inputs.size());
  call.attributes = attributes;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    arguments[i] = inputs[i];
    arguments[i].alias = kNone;
    arguments[i].mode = IsMutated(info.op, i) ? Mode::kReadWrite : Mode::kRead;
  }
  call.arguments = {arguments.data(), inputs.size()};
  Span<CustomArgument> outputs = arguments.subspan(inputs.size(), num_outputs);
  Status status = Infer(info, call, node, arena, outputs);
  if (status.ok()) status = TakeAliases(info.op, inputs, outputs);
  call.arguments = {arguments.data(), inputs.size() + num_outputs};
  if (status.ok()) status = TakeWorkspace(info.op, node, arena, &arguments[call.arguments.size()], &call);
  if (!status.ok()) return Wrong(info, node, status);
  return call;
}

std::string_view SourceOfCall(const PlanData& plan, uint32_t index) {
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kCustom || step.custom != index) continue;
      return step.source < plan.sources.size() ? plan.sources[step.source] : "";
    }
  }
  return "";
}

Status CheckCall(const OpRegistry* ops, const PlanData& plan, uint32_t index) {
  const CustomOp& call = plan.custom_ops[index];
  const std::string_view node = SourceOfCall(plan, index);
  const OpInfo* info = ops == nullptr ? nullptr : ops->FindExact(call.domain, call.name, call.version);
  if (info != nullptr) return Compare(*info, call, node);
  const int size = static_cast<int>(node.size());
  return Status::Error(
             Code::kUnsupported,
             "%.*s%scustom op \"%.*s.%.*s\", version %u, is in none of the libraries of ops that were given; "
             "the plan was compiled with %.*s",
             size, node.data(), size == 0 ? "" : ": ", static_cast<int>(call.domain.size()),
             call.domain.data(), static_cast<int>(call.name.size()), call.name.data(), call.version,
             static_cast<int>(call.library.size()), call.library.data())
      .FromNode(node);
}

}  // namespace rondo
