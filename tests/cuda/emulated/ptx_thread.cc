#include "tests/cuda/emulated/ptx_thread.h"

namespace rondo::emulated {

PtxFunction FindPtx(const std::string& op) {
  PtxFunction found = nullptr;
  size_t longest = 0;
  for (const PtxRow* table : {kScalarInstructions, kMemoryInstructions, kMatrixInstructions}) {
    for (const PtxRow* row = table; row->begins != nullptr; ++row) {
      const size_t size = std::strlen(row->begins);
      if (size < longest || op.compare(0, size, row->begins) != 0) continue;
      if (op.size() > size && op[size] != '.' && op[size] != ':') continue;  // only a part of a word matches
      found = row->run;
      longest = size;
    }
  }
  return found;
}

void Write(const simt::Operand& operand, uint64_t value) {
  const size_t bytes = operand.kind == 'l' ? 8 : operand.kind == 'h' ? 2 : 4;
  if (operand.to != nullptr) std::memcpy(operand.to, &value, bytes);
}

uint64_t PtxThread::Get(const PtxArgument& argument) const {
  switch (argument.kind) {
    case PtxArgument::kOperand:
      if (argument.number < count) return operands[argument.number].value;
      machine.Fail("operand " + std::to_string(argument.number) + " of " + std::to_string(count) + ": " +
                   text);
      return 0;
    case PtxArgument::kRegister: {
      const auto found = registers_.find(argument.name);
      return found != registers_.end() ? found->second : 0;
    }
    case PtxArgument::kAddress: return argument.inside.empty() ? 0 : Get(argument.inside[0]);
    default: return argument.number;
  }
}

void PtxThread::Set(const PtxArgument& argument, uint64_t value) {
  if (argument.kind == PtxArgument::kRegister) registers_[argument.name] = value;
  if (argument.kind == PtxArgument::kOperand && argument.number < count)
    Write(operands[argument.number], value);
}

const simt::Operand& PtxThread::Of(uint32_t lane, const PtxArgument& argument) const {
  return machine.current().warp->operands[lane][argument.number];
}

void SimtMachine::Ptx(const char* text, std::initializer_list<simt::Operand> operands) {
  const auto [entry, made] = statements_.try_emplace(text);
  if (made) {
    entry->second = ParsePtx(text);
    for (PtxStatement& statement : entry->second) {
      statement.run = FindPtx(statement.op);
      if (statement.run == nullptr) return Fail("the emulator does not know the instruction " + statement.op);
    }
  }
  const std::vector<PtxStatement>& statements = entry->second;
  PtxThread thread(this, text, operands.begin(), operands.size());
  for (const PtxStatement& statement : statements) {
    if (failure_.empty()) statement.run(thread, statement);
  }
}

}  // namespace rondo::emulated
