// HandMade: LoweredPrograms for tests, made of maps over vectors of f32, with deps worked out.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// Owns the program it builds until Take. Values are vectors; their sizes are given in elements of f32.
class HandMade {
 public:
  explicit HandMade(std::string name = "main") {
    program_.name = std::move(name);
    program_.arena = std::make_shared<Arena>();
  }

  int Input(const std::string& name, int64_t elements) {
    const int v = Value(name, BufferKind::kInput, elements);
    program_.inputs.push_back({name, v, false});
    return v;
  }
  int Output(const std::string& name, int64_t elements) {
    const int v = Value(name, BufferKind::kOutput, elements);
    program_.outputs.push_back({name, v, false});
    return v;
  }
  // A state with an input port `name` and an output port `name`_out.
  int State(const std::string& name, int64_t elements) {
    const int v = Value(name, BufferKind::kState, elements);
    program_.inputs.push_back({name, v, true});
    program_.outputs.push_back({name + "_out", v, true});
    return v;
  }
  int Temporary(int64_t elements, const std::string& name = "t") {
    return Value(name, BufferKind::kTemporary, elements);
  }
  int Constant(const std::string& name, const std::vector<float>& numbers) {
    const int v = Value(name, BufferKind::kConstant, static_cast<int64_t>(numbers.size()));
    const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
    program_.values.back().constant =
        ir::ConstantData::Own(DType::kF32, program_.values.back().shape,
                              std::vector<uint8_t>(bytes, bytes + numbers.size() * sizeof(float)));
    return v;
  }
  int Synthetic(const std::string& name, int64_t elements, uint64_t key) {
    const int v = Value(name, BufferKind::kConstant, elements);
    auto data = std::make_shared<ir::ConstantData>();
    data->shape = program_.values.back().shape;
    data->synthetic = true;
    data->synthetic_key = key;
    data->synthetic_scale = 1;
    program_.values.back().constant = data;
    return v;
  }

  // to[i] = sum of from[j][i] over the elements of `to`. Returns the op's number. The op may write its result
  // over a read of the size of `to`.
  int Sum(const std::vector<int>& from, int to, const std::string& node = "") {
    Arena& arena = *program_.arena;
    LoweredOp op;
    const std::vector<int64_t> one = {1}, loops = {Elements(to)};
    std::vector<Operand> operands;
    std::vector<TapeInst> tape;
    for (size_t j = 0; j < from.size(); ++j) {
      operands.push_back(OperandOf(static_cast<uint16_t>(j), Mode::kRead, arena.Copy(one)));
      op.params.push_back({from[j], 0, Mode::kRead});
      tape.push_back({TapeOp::kLoad, TapeType::kF32, static_cast<uint16_t>(j), 0, 0, 0, {}});
      if (j == 0) continue;
      const auto last = static_cast<uint16_t>(tape.size() - 1);
      const auto sum = static_cast<uint16_t>(j == 1 ? 0 : last - 1);
      tape.push_back({TapeOp::kAdd, TapeType::kF32, 0, sum, last, 0, {}});
    }
    if (tape.empty()) tape.push_back({TapeOp::kConst, TapeType::kF32, 0, 0, 0, 0, {}});
    const auto target = static_cast<uint16_t>(from.size());
    operands.push_back(OperandOf(target, Mode::kWrite, arena.Copy(one)));
    op.params.push_back({to, 0, Mode::kWrite});
    tape.push_back(
        {TapeOp::kStore, TapeType::kF32, target, static_cast<uint16_t>(tape.size() - 1), 0, 0, {}});
    for (size_t j = 0; j < from.size(); ++j) {
      if (Elements(from[j]) == Elements(to)) op.in_place.push_back({target, static_cast<int>(j)});
    }
    Part part;
    part.outer = 1;
    part.loops = arena.Copy(loops);
    part.operands = arena.Copy(operands);
    part.body = arena.Copy(tape);
    op.kernel.num_params = static_cast<uint16_t>(from.size() + 1);
    op.kernel.parts = arena.Copy(std::vector<Part>{part});
    op.deps = DepsOf(op);
    op.sources = {"Sum \"" + (node.empty() ? "n" + std::to_string(program_.ops.size()) : node) + "\""};
    program_.ops.push_back(std::move(op));
    return static_cast<int>(program_.ops.size()) - 1;
  }

  // Starts a collective of all of `from`. `to` gets the size that the collective gives on `devices` devices.
  // An all-reduce may work in place. Returns its number, for Wait; starts keep their order.
  int Start(CollectiveOp kind, int from, int to, uint32_t devices = 2) {
    const int64_t n = Elements(kind == CollectiveOp::kReduceScatter ? to : from);
    const int64_t other = kind == CollectiveOp::kReduceScatter ? Elements(from) : Elements(to);
    const bool grows = kind == CollectiveOp::kReduceScatter || kind == CollectiveOp::kAllGather;
    if (other != (grows ? n * devices : n)) std::abort();
    LoweredOp op;
    op.kind = LoweredKind::kCollectiveStart;
    op.collective = static_cast<int>(program_.collectives.size());
    program_.collectives.push_back({kind, DType::kF32, n * 4});
    op.params = {{from, 0, Mode::kRead}, {to, 0, Mode::kWrite}};
    if (kind == CollectiveOp::kAllReduce) op.in_place = {{1, 0}};
    op.deps = DepsOf(op);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const bool last = program_.ops[i].kind == LoweredKind::kCollectiveStart &&
                        program_.ops[i].collective + 1 == op.collective;
      if (last && std::count(op.deps.begin(), op.deps.end(), static_cast<int>(i)) == 0)
        op.deps.push_back(static_cast<int>(i));
    }
    std::sort(op.deps.begin(), op.deps.end());
    op.sources = {"Collective \"c" + std::to_string(op.collective) + "\""};
    program_.ops.push_back(std::move(op));
    return program_.ops.back().collective;
  }
  int Wait(int collective) {
    LoweredOp op;
    for (const LoweredOp& start : program_.ops) {
      if (start.kind == LoweredKind::kCollectiveStart && start.collective == collective) op = start;
    }
    op.kind = LoweredKind::kCollectiveWait;
    op.in_place.clear();
    op.deps = DepsOf(op);
    program_.ops.push_back(std::move(op));
    return static_cast<int>(program_.ops.size()) - 1;
  }

  LoweredProgram& program() { return program_; }
  LoweredProgram Take() { return std::move(program_); }

 private:
  int Value(const std::string& name, BufferKind kind, int64_t elements) {
    LoweredValue value;
    value.name = name;
    value.kind = kind;
    value.shape = Shape({elements});
    value.bytes = elements * static_cast<int64_t>(sizeof(float));
    program_.values.push_back(std::move(value));
    return static_cast<int>(program_.values.size()) - 1;
  }
  int64_t Elements(int v) const { return program_.values[static_cast<size_t>(v)].shape.elements(); }
  static Operand OperandOf(uint16_t param, Mode mode, Span<const int64_t> strides) {
    Operand operand;
    operand.param = param;
    operand.mode = mode;
    operand.strides = strides;
    return operand;
  }
  std::vector<int> DepsOf(const LoweredOp& op) const {
    std::vector<int> deps;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      bool conflict = false;
      for (const LoweredBinding& a : program_.ops[i].params) {
        for (const LoweredBinding& b : op.params) {
          conflict |= a.value == b.value && (a.mode != Mode::kRead || b.mode != Mode::kRead);
        }
      }
      if (conflict) deps.push_back(static_cast<int>(i));
    }
    return deps;
  }
  LoweredProgram program_;
};

// The ops in the program's order, for Reorder and functions that take an order.
inline std::vector<int> GivenOrder(const LoweredProgram& program) {
  std::vector<int> order(program.ops.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace rondo
