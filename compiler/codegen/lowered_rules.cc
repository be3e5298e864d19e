#include "compiler/codegen/lowered_rules.h"

#include <sstream>

#include "core/printable.h"

namespace rondo {
namespace {

std::string ShapeText(const Shape& shape) {
  char text[256];
  return Format(shape, text, sizeof text);
}

std::string OpText(const LoweredProgram& program, size_t i) {
  const LoweredOp& op = program.ops[i];
  return "program \"" + program.name + "\": op " + std::to_string(i) +
         (op.sources.empty() ? "" : " (" + op.sources.front() + ")");
}

std::string ValueBroken(const LoweredProgram& program, size_t i) {
  const LoweredValue& value = program.values[i];
  const std::string name =
      "program \"" + program.name + "\": value " + std::to_string(i) + " \"" + value.name + "\"";
  const int64_t needed = value.shape.elements() * ByteSize(value.dtype);
  if (value.bytes < needed) {
    return name + " has " + std::to_string(value.bytes) + " bytes; its shape " + ShapeText(value.shape) +
           " needs " + std::to_string(needed);
  }
  if (value.kind != BufferKind::kConstant) return "";
  if (value.constant == nullptr) return name + " is a constant without data";
  if (value.constant->byte_size() != value.bytes) {
    return name + " has " + std::to_string(value.bytes) + " bytes; its constant has " +
           std::to_string(value.constant->byte_size());
  }
  if (!value.constant->synthetic && static_cast<int64_t>(value.constant->bytes.size()) != value.bytes) {
    return name + " is a constant of " + std::to_string(value.bytes) + " bytes with " +
           std::to_string(value.constant->bytes.size()) + " bytes of data";
  }
  return "";
}

// The number of values that a call binds: one for each argument that is present and does not share another's
// memory.
size_t ParamsOf(const ir::CallInfo& call) {
  size_t count = 0;
  for (const CustomArgument& argument : call.op.arguments)
    count += !argument.absent && argument.alias == kNone;
  return count;
}

std::string OpBroken(const LoweredProgram& program, size_t i) {
  const LoweredOp& op = program.ops[i];
  const bool kernel = op.kind == LoweredKind::kKernel, call = op.kind == LoweredKind::kCall;
  const bool loop = op.kind == LoweredKind::kLoop;
  if (kernel && op.kernel.parts.empty()) return OpText(program, i) + " has a kernel without parts";
  if (call && (op.call == nullptr || op.params.size() != ParamsOf(*op.call))) {
    return OpText(program, i) + " binds " + std::to_string(op.params.size()) +
           " values, which its custom op does not have";
  }
  if (loop != (op.rounds != nullptr) || op.loop >= static_cast<int>(program.loops.size()))
    return OpText(program, i) + " is a loop without a body, or in one that is not there";
  if (!kernel && !call && !loop &&
      (op.collective < 0 || static_cast<size_t>(op.collective) >= program.collectives.size() ||
       op.params.size() != 2)) {
    return OpText(program, i) + " is part of collective " + std::to_string(op.collective) + " of " +
           std::to_string(program.collectives.size()) + " and binds " + std::to_string(op.params.size()) +
           " values, not 2";
  }
  if (kernel && op.params.size() != op.kernel.num_params) {
    return OpText(program, i) + " binds " + std::to_string(op.params.size()) + " values to a kernel of " +
           std::to_string(op.kernel.num_params) + " parameters";
  }
  for (const LoweredBinding& param : op.params) {
    if (param.value < 0 || static_cast<size_t>(param.value) >= program.values.size()) {
      return OpText(program, i) + " binds value " + std::to_string(param.value) + " of " +
             std::to_string(program.values.size());
    }
    const LoweredValue& value = program.values[static_cast<size_t>(param.value)];
    if (param.byte_offset > static_cast<uint64_t>(value.bytes)) {
      return OpText(program, i) + " binds value \"" + value.name + "\" of " + std::to_string(value.bytes) +
             " bytes from byte " + std::to_string(param.byte_offset);
    }
    if (param.mode != Mode::kRead && value.kind == BufferKind::kConstant) {
      return OpText(program, i) + " writes constant \"" + value.name + "\"";
    }
  }
  for (int d : op.deps) {
    if (d < 0 || static_cast<size_t>(d) >= i) {
      return OpText(program, i) + " depends on op " + std::to_string(d) + ", which does not come before it";
    }
  }
  for (const InPlacePair& pair : op.in_place) {
    const int count = static_cast<int>(op.params.size());
    if (pair.read < 0 || pair.write < 0 || pair.read >= count || pair.write >= count) {
      return OpText(program, i) + " may write parameter " + std::to_string(pair.write) + " over parameter " +
             std::to_string(pair.read) + " of " + std::to_string(count);
    }
  }
  return "";
}

std::string PortBroken(const LoweredProgram& program, const LoweredPort& port, BufferKind kind) {
  const std::string name = "program \"" + program.name + "\": port \"" + port.name + "\"";
  if (port.value < 0 || static_cast<size_t>(port.value) >= program.values.size()) {
    return name + " is value " + std::to_string(port.value) + " of " + std::to_string(program.values.size());
  }
  const BufferKind is = program.values[static_cast<size_t>(port.value)].kind;
  const BufferKind must = port.is_state ? BufferKind::kState : kind;
  if (is == must || (is == BufferKind::kUpdatedInput && !port.is_state)) return "";
  return name + " is a " + Name(is) + " where a " + Name(must) + " must be";
}

const char* ModeText(Mode mode) {
  return mode == Mode::kRead ? "reads" : mode == Mode::kWrite ? "writes" : "updates";
}

}  // namespace

std::string LoweredRulesBroken(const LoweredProgram& program) {
  std::string broken;
  for (size_t i = 0; i < program.values.size() && broken.empty(); ++i) broken = ValueBroken(program, i);
  for (size_t i = 0; i < program.ops.size() && broken.empty(); ++i) broken = OpBroken(program, i);
  for (const LoweredPort& port : program.inputs) {
    if (broken.empty()) broken = PortBroken(program, port, BufferKind::kInput);
  }
  for (const LoweredPort& port : program.outputs) {
    if (broken.empty()) broken = PortBroken(program, port, BufferKind::kOutput);
  }
  return broken;
}

std::string Dump(const LoweredProgram& program) {
  std::ostringstream out;
  out << "program " << Printable(program.name) << ": " << program.values.size() << " values, "
      << program.ops.size() << " ops\n";
  for (size_t i = 0; i < program.values.size(); ++i) {
    const LoweredValue& value = program.values[i];
    out << "  v" << i << " " << Name(value.kind) << " " << Name(value.dtype) << ShapeText(value.shape) << " "
        << value.bytes << " bytes \"" << Printable(value.name) << "\"\n";
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    out << "  op" << i << " ";
    if (op.loop >= 0)
      out << "loop " << op.loop << " of " << program.loops[static_cast<size_t>(op.loop)] << ": ";
    if (op.kind == LoweredKind::kLoop) {
      out << "loop over {\n" << Dump(op.rounds->body) << "  }";
    } else if (op.kind == LoweredKind::kCall) {
      out << "call " << Printable(op.call->op.domain) << "." << Printable(op.call->op.name);
    } else if (op.kind != LoweredKind::kKernel) {
      out << (op.kind == LoweredKind::kCollectiveStart ? "start " : "wait for ")
          << Name(program.collectives[static_cast<size_t>(op.collective)].op) << " " << op.collective;
    }
    for (size_t p = 0; p < op.kernel.parts.size(); ++p) {
      const Part& part = op.kernel.parts[p];
      out << (p == 0 ? "" : " + ") << Name(part.skeleton) << "(";
      for (size_t l = 0; l < part.loops.size(); ++l) out << (l == 0 ? "" : " ") << part.loops[l];
      out << ")";
    }
    if (!op.kernel.label.empty()) out << " " << Printable(op.kernel.label);
    for (const LoweredBinding& param : op.params) {
      out << ", " << ModeText(param.mode) << " v" << param.value;
      if (param.byte_offset != 0) out << "+" << param.byte_offset;
      if (param.stride != 0) out << (param.stride < 0 ? "" : "+") << param.stride << " a round";
    }
    if (!op.deps.empty()) out << ", after";
    for (int d : op.deps) out << " op" << d;
    for (const InPlacePair& pair : op.in_place) out << ", p" << pair.write << " may take over p" << pair.read;
    for (const auto& [key, value] : op.annotations) out << ", " << Printable(key) << ": " << Printable(value);
    for (size_t s = 0; s < op.sources.size(); ++s)
      out << (s == 0 ? "  // " : "; ") << Printable(op.sources[s]);
    out << "\n";
  }
  for (const auto& port : program.inputs) {
    out << "  input " << Printable(port.name) << " v" << port.value << (port.is_state ? " state" : "")
        << "\n";
  }
  for (const auto& port : program.outputs) {
    out << "  output " << Printable(port.name) << " v" << port.value << (port.is_state ? " state" : "")
        << "\n";
  }
  return out.str();
}

}  // namespace rondo
