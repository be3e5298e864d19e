#include "drivers/ops/calls.h"

namespace rondo {
namespace {

constexpr size_t kErrorBytes = 512;

Status Failed(const OpInfo& info, Code code, const char* what, const char* error) {
  return Status::Error(code, "custom op \"%s.%s\" of %.*s: %s%s", info.op.domain, info.op.name,
                       static_cast<int>(info.library.size()), info.library.data(), what, error);
}

}  // namespace

Status CallProgram::Run(const uint64_t* addresses) const {
  return Call(info->op.run, addresses, nullptr, "its run failed");
}

Status CallProgram::Enqueue(const uint64_t* addresses, void* stream) const {
  return Call(info->op.enqueue, addresses, stream, "its enqueue failed");
}

Status CallProgram::Call(Function function, const uint64_t* addresses, void* stream,
                         const char* otherwise) const {
  const void* inputs[RONDO_OP_MAX_ARGUMENTS];
  void* outputs[RONDO_OP_MAX_ARGUMENTS];
  for (uint32_t i = 0; i < num_inputs; ++i) inputs[i] = reinterpret_cast<const void*>(addresses[i]);
  for (uint32_t i = 0; i < num_outputs; ++i) outputs[i] = reinterpret_cast<void*>(addresses[num_inputs + i]);
  rondo_op_call call = {};
  call.size = sizeof(call);
  call.inputs = inputs;
  call.num_inputs = num_inputs;
  call.outputs = outputs;
  call.num_outputs = num_outputs;
  call.workspace_bytes = workspace_bytes;
  if (workspace_bytes != 0) call.workspace = reinterpret_cast<void*>(addresses[num_inputs + num_outputs]);
  call.stream = stream;
  char error[kErrorBytes];
  error[0] = '\0';
  const int32_t result = function(instance, &call, error, sizeof(error));
  if (result == RONDO_OP_OK) return Status::Ok();
  error[sizeof(error) - 1] = '\0';
  const Code code = result == RONDO_OP_BAD_DATA    ? Code::kOutOfRange
                    : result == RONDO_OP_NO_MEMORY ? Code::kOutOfMemory
                                                   : Code::kInternal;
  return Failed(*info, code, "", error[0] != '\0' ? error : otherwise);
}

void CallTable::Clear() {
  for (const CallProgram& call : calls_) {
    if (call.info != nullptr && call.info->op.destroy != nullptr) call.info->op.destroy(call.instance);
  }
  calls_ = {};
}

Status CallTable::Build(const PlanData& plan, const OpRegistry* ops, bool cuda, Arena& arena) {
  calls_ = arena.New<CallProgram>(plan.custom_ops.size());
  if (calls_.data() == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for custom ops");
  for (uint32_t i = 0; i < calls_.size(); ++i) {
    RONDO_RETURN_IF_ERROR(CheckCall(ops, plan, i));
    const CustomOp& call = plan.custom_ops[i];
    const OpInfo* info = ops->FindExact(call.domain, call.name, call.version);
    calls_[i].num_inputs = call.num_inputs;
    calls_[i].num_outputs = static_cast<uint32_t>(call.arguments.size()) - call.num_inputs;
    if (call.IsWorkspace(call.arguments.size() - 1)) {
      --calls_[i].num_outputs;
      calls_[i].workspace_bytes = BytesOf(call.arguments[call.arguments.size() - 1]);
    }
    const bool enqueued = cuda && info->op.enqueue != nullptr;
    if (!enqueued && info->op.run == nullptr) {
      const std::string_view node = SourceOfCall(plan, i);
      return Failed(*info, Code::kUnsupported, "it has no run function: it runs on GPUs alone", "")
          .At("%.*s", static_cast<int>(node.size()), node.data())
          .FromNode(node);
    }
    if (info->op.create != nullptr) {
      const std::string_view node = SourceOfCall(plan, i);
      Arena scratch;
      const rondo_op_node* of = MakeOpNode(call, node, scratch);
      if (of == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for a custom op");
      rondo_op_node made_for = *of;
      made_for.for_enqueue = enqueued;
      char error[kErrorBytes] = "";
      const int32_t result =
          info->op.create(info->op.user, &made_for, &calls_[i].instance, error, sizeof(error));
      error[sizeof(error) - 1] = '\0';
      if (result != 0) {
        const Code code = result == RONDO_OP_NO_MEMORY ? Code::kOutOfMemory : Code::kInvalidArgument;
        return Failed(*info, code, "no instance can be made: ", error)
            .At("%.*s", static_cast<int>(node.size()), node.data())
            .FromNode(node);
      }
    }
    calls_[i].info = info;
  }
  return Status::Ok();
}

}  // namespace rondo
