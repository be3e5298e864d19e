// Makes kernels, and memory for their parameters, for tests of drivers.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/arena.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "core/scalar.h"

namespace rondo::test {

using Random = std::mt19937;

inline int64_t Between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Appends instructions; every function returns the register it defines.
class TapeMaker {
 public:
  uint16_t Add(TapeOp op, TapeType type, uint16_t arg = 0, uint16_t a = 0, uint16_t b = 0, uint16_t c = 0) {
    TapeInst inst;
    inst.op = op;
    inst.type = type;
    inst.arg = arg;
    inst.a = a;
    inst.b = b;
    inst.c = c;
    list.push_back(inst);
    return static_cast<uint16_t>(list.size() - 1);
  }
  uint16_t Load(uint16_t operand, DType dtype) { return Add(TapeOp::kLoad, NaturalType(dtype), operand); }
  uint16_t Const(float value) {
    uint16_t r = Add(TapeOp::kConst, TapeType::kF32);
    list[r].imm.f = value;
    return r;
  }
  uint16_t ConstInt(int64_t value) {
    uint16_t r = Add(TapeOp::kConst, TapeType::kI64);
    list[r].imm.i = value;
    return r;
  }
  uint16_t Unary(TapeOp op, uint16_t a) { return Add(op, list[a].type, 0, a); }
  uint16_t Binary(TapeOp op, uint16_t a, uint16_t b) { return Add(op, list[a].type, 0, a, b); }
  uint16_t Cast(uint16_t a, TapeType type, DType dtype) {
    if (list[a].type == type) return a;
    uint16_t r = Add(TapeOp::kCast, type, 0, a);
    list[r].imm.i = static_cast<int64_t>(dtype);
    return r;
  }
  // Stores `a` to the operand, converting first.
  void Store(uint16_t operand, DType dtype, uint16_t a) {
    a = Cast(a, NaturalType(dtype), dtype);
    Add(TapeOp::kStore, list[a].type, operand, a);
  }
  TapeType TypeOf(uint16_t r) const { return list[r].type; }

  std::vector<TapeInst> list;
};

// One part, its operands' strides and its parameters' memory sizes (elements).
struct PartMaker {
  explicit PartMaker(Arena* arena) : arena(arena) {}

  // Adds a parameter that holds a dense tensor over the loops in `order` (outermost first), `pad` elements
  // longer. Returns the operand that reads or writes it. Loops not in `order` have stride 0.
  uint16_t Operand(DType dtype, Mode mode, const std::vector<int>& order, int64_t pad = 0) {
    rondo::Operand operand;
    Span<int64_t> strides = arena->New<int64_t>(loops.size());
    int64_t size = 1;
    for (size_t i = order.size(); i-- > 0;) {
      strides[static_cast<size_t>(order[i])] = size;
      size *= loops[static_cast<size_t>(order[i])];
    }
    operand.param = static_cast<uint16_t>(sizes.size());
    operand.dtype = dtype;
    operand.mode = mode;
    operand.strides = strides;
    operand.offset = pad / 2;
    operands.push_back(operand);
    sizes.push_back(size + pad);
    dtypes.push_back(dtype);
    return static_cast<uint16_t>(operands.size() - 1);
  }

  // Freezes everything into a kernel of the arena.
  Kernel Make() {
    part.loops = arena->Copy(loops);
    part.operands = arena->Copy(operands);
    Kernel kernel;
    kernel.name = "test_kernel";
    kernel.num_params = static_cast<uint16_t>(sizes.size());
    Span<Part> parts = arena->New<Part>(1);
    parts[0] = part;
    kernel.parts = parts;
    return kernel;
  }
  Tape Keep(const TapeMaker& tape) { return arena->Copy(tape.list); }
  // An epilogue that stores the accumulators, of type `acc`, to operand `out` as they are.
  void StoreAccumulators(uint16_t out, TapeType acc = TapeType::kF32) {
    TapeMaker tape;
    tape.Store(out, operands[out].dtype, tape.Add(TapeOp::kAcc, acc, 0));
    part.epilogue = Keep(tape);
  }

  Arena* arena;
  Part part;
  std::vector<int64_t> loops;
  std::vector<rondo::Operand> operands;
  std::vector<int64_t> sizes;  // of each parameter, in elements
  std::vector<DType> dtypes;
};

// Memory for all parameters of a kernel, of exactly their size.
struct Memory {
  std::vector<std::vector<char>> params;

  std::vector<Span<char>> Spans() { return {params.begin(), params.end()}; }
  void Resize(const PartMaker& maker) {
    params.resize(maker.sizes.size());
    for (size_t i = 0; i < params.size(); ++i) {
      params[i].assign(static_cast<size_t>(maker.sizes[i] * ByteSize(maker.dtypes[i])), 0);
    }
  }
  // Values that every dtype holds: small multiples of 1/8 for floats, small integers.
  void Randomise(const PartMaker& maker, Random& random) {
    Resize(maker);
    for (size_t p = 0; p < params.size(); ++p) {
      for (int64_t i = 0; i < maker.sizes[p]; ++i) {
        const int64_t k = Between(random, -16, 16);
        scalar::Store<double>(maker.dtypes[p], params[p].data(), i,
                              IsFloat(maker.dtypes[p]) ? static_cast<double>(k) / 8 : static_cast<double>(k));
      }
    }
  }
};

}  // namespace rondo::test
