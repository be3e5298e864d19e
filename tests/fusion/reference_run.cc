#include "tests/fusion/reference_run.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/scalar.h"
#include "core/synthetic.h"

namespace rondo {
namespace {

struct Reg {
  TapeType type = TapeType::kF32;
  float f = 0;
  double d = 0;
  int64_t i = 0;
};

[[noreturn]] void Die(const char* what, const LoweredOp& op) {
  std::fprintf(stderr, "reference run: %s (%s)\n", what, op.sources.empty() ? "?" : op.sources[0].c_str());
  std::abort();
}

template <typename F>
Reg WithType(TapeType type, F&& make) {
  Reg r;
  r.type = type;
  if (type == TapeType::kF32) r.f = make(float{});
  if (type == TapeType::kF64) r.d = make(double{});
  if (type == TapeType::kI64) r.i = make(int64_t{});
  return r;
}

template <typename T>
T Get(const Reg& r) {
  if constexpr (std::is_same_v<T, float>) return r.f;
  if constexpr (std::is_same_v<T, double>) return r.d;
  if constexpr (std::is_same_v<T, int64_t>) return r.i;
}

class PartRun {
 public:
  PartRun(const LoweredOp& op, const Part& part, Memory* memory)
      : op_(op), part_(part), memory_(*memory), index_(part.loops.size(), 0), scalars_(kMaxSlots) {}

  void Run() {
    switch (part_.skeleton) {
      case Skeleton::kMap: Each(0, part_.loops.size(), [&] { RunTape(part_.body); }); return;
      case Skeleton::kReduction: Reduction(); return;
      case Skeleton::kContraction: Contraction(); return;
      case Skeleton::kConvolution: Convolution(); return;
      case Skeleton::kAttention: Attention(); return;
    }
  }

 private:
  template <typename F>
  void Each(size_t first, size_t last, F&& body) {
    if (first == last) return body();
    for (index_[first] = 0; index_[first] < part_.loops[first]; ++index_[first]) Each(first + 1, last, body);
    index_[first] = 0;
  }

  // The element, or -1 if it is absent.
  int64_t Address(const Operand& operand) {
    int64_t at = operand.offset;
    if (operand.strides.size() != index_.size()) Die("operand has other loops", op_);
    for (size_t l = 0; l < index_.size(); ++l) at += operand.strides[l] * index_[l];
    for (const Guard& guard : operand.guards) {
      int64_t c = guard.offset;
      for (size_t l = 0; l < index_.size(); ++l) c += guard.strides[l] * index_[l];
      if (c < 0 || c >= guard.extent) return -1;
      at += guard.stride * c;
    }
    for (const Indirect& indirect : operand.indirects) {
      int64_t v = Load(part_.operands[indirect.operand]).i;
      if (v < 0 && indirect.wrap) v += indirect.extent;
      if (v < 0 || v >= indirect.extent) return -1;
      at += indirect.stride * v;
    }
    const LoweredBinding& binding = op_.params[operand.param];
    int64_t size = static_cast<int64_t>(memory_[binding.value].size());
    int64_t byte = static_cast<int64_t>(binding.byte_offset) + at * ByteSize(operand.dtype);
    if (at < 0 || byte + ByteSize(operand.dtype) > size) Die("access out of bounds", op_);
    return at;
  }

  uint8_t* Base(const Operand& operand) {
    const LoweredBinding& binding = op_.params[operand.param];
    return memory_[binding.value].data() + binding.byte_offset;
  }

  Reg Load(const Operand& operand) {
    int64_t at = Address(operand);
    return WithType(NaturalType(operand.dtype), [&](auto t) {
      using T = decltype(t);
      return at < 0 ? static_cast<T>(operand.absent) : scalar::Load<T>(operand.dtype, Base(operand), at);
    });
  }

  void Store(const Operand& operand, const Reg& value) {
    int64_t at = Address(operand);
    if (at < 0) return;
    WithType(NaturalType(operand.dtype), [&](auto t) {
      using T = decltype(t);
      scalar::Store<T>(operand.dtype, Base(operand), at, Get<T>(value));
      return T{};
    });
  }

  Reg CastTo(const Reg& a, TapeType type, DType to) {
    return WithType(type, [&](auto t) {
      using T = decltype(t);
      if (a.type == TapeType::kF32) return scalar::Cast<T>(a.f, to);
      if (a.type == TapeType::kF64) return scalar::Cast<T>(a.d, to);
      return scalar::Cast<T>(a.i, to);
    });
  }

  Reg Compute(const TapeInst& inst, const std::vector<Reg>& regs) {
    const Reg &a = regs[inst.a], &b = regs[inst.b], &c = regs[inst.c];
    switch (inst.op) {
      case TapeOp::kCast: return CastTo(a, inst.type, static_cast<DType>(inst.imm.i));
      case TapeOp::kSelect: return a.i != 0 ? b : c;
      case TapeOp::kNot:
      case TapeOp::kIsNan:
      case TapeOp::kIsInf: {
        Reg r;
        r.type = TapeType::kI64;
        r.i = a.type == TapeType::kF32   ? scalar::Test(inst.op, a.f, inst.imm.i)
              : a.type == TapeType::kF64 ? scalar::Test(inst.op, a.d, inst.imm.i)
                                         : scalar::Test(inst.op, a.i, inst.imm.i);
        return r;
      }
      case TapeOp::kLess:
      case TapeOp::kLessEqual:
      case TapeOp::kEqual: {
        Reg r;
        r.type = TapeType::kI64;
        r.i = a.type == TapeType::kF32   ? scalar::Compare(inst.op, a.f, b.f)
              : a.type == TapeType::kF64 ? scalar::Compare(inst.op, a.d, b.d)
                                         : scalar::Compare(inst.op, a.i, b.i);
        return r;
      }
      default: break;
    }
    bool binary = inst.op >= TapeOp::kAdd && inst.op < TapeOp::kLess;
    return WithType(inst.type, [&](auto t) {
      using T = decltype(t);
      return binary ? scalar::Binary<T>(inst.op, Get<T>(a), Get<T>(b)) : scalar::Unary<T>(inst.op, Get<T>(a));
    });
  }

  void Reduce(const TapeInst& inst, const Reg& value) {
    Reg& slot = scalars_[inst.arg];
    if (inst.op == TapeOp::kReduceArgMax || inst.op == TapeOp::kReduceArgMin) {
      bool max = inst.op == TapeOp::kReduceArgMax;
      double v = value.type == TapeType::kF32   ? value.f
                 : value.type == TapeType::kF64 ? value.d
                                                : static_cast<double>(value.i);
      Reg& best = best_[inst.arg];
      bool better = first_ || (max ? v > best.d : v < best.d) || (inst.imm.i == 1 && v == best.d);
      if (better) {
        best.d = v;
        slot.type = TapeType::kI64;
        slot.i = position_;
      }
      return;
    }
    if (first_) {
      slot = value;
      return;
    }
    TapeOp op = inst.op == TapeOp::kReduceSum    ? TapeOp::kAdd
                : inst.op == TapeOp::kReduceProd ? TapeOp::kMul
                : inst.op == TapeOp::kReduceMax  ? TapeOp::kMax
                                                 : TapeOp::kMin;
    slot = WithType(value.type, [&](auto t) {
      using T = decltype(t);
      return scalar::Binary<T>(op, Get<T>(slot), Get<T>(value));
    });
  }

  Reg RunTape(Tape tape) {
    std::vector<Reg> regs(tape.size());
    Reg yielded;
    for (size_t k = 0; k < tape.size(); ++k) {
      const TapeInst& inst = tape[k];
      switch (inst.op) {
        case TapeOp::kLoad: regs[k] = Load(part_.operands[inst.arg]); break;
        case TapeOp::kConst:
          regs[k] = WithType(inst.type, [&](auto t) {
            using T = decltype(t);
            return inst.type == TapeType::kI64 ? static_cast<T>(inst.imm.i) : static_cast<T>(inst.imm.f);
          });
          break;
        case TapeOp::kIndex:
          regs[k].type = TapeType::kI64;
          regs[k].i = index_[inst.arg];
          break;
        case TapeOp::kAcc: regs[k] = acc_[inst.arg]; break;
        case TapeOp::kScalar: regs[k] = scalars_[inst.arg]; break;
        case TapeOp::kKept: regs[k] = kept_[inst.arg][static_cast<size_t>(position_)]; break;
        case TapeOp::kStore: Store(part_.operands[inst.arg], regs[inst.a]); break;
        case TapeOp::kYield: yielded = regs[inst.a]; break;
        case TapeOp::kSetScalar: scalars_[inst.arg] = regs[inst.a]; break;
        case TapeOp::kKeep: kept_[inst.arg][static_cast<size_t>(position_)] = regs[inst.a]; break;
        case TapeOp::kReduceSum:
        case TapeOp::kReduceProd:
        case TapeOp::kReduceMax:
        case TapeOp::kReduceMin:
        case TapeOp::kReduceArgMax:
        case TapeOp::kReduceArgMin: Reduce(inst, regs[inst.a]); break;
        default: regs[k] = Compute(inst, regs);
      }
    }
    return yielded;
  }

  void Reduction() {
    size_t outer = part_.outer, all = part_.loops.size();
    int64_t elements = 1;
    for (size_t l = outer; l < all; ++l) elements *= part_.loops[l];
    kept_.assign(kMaxSlots, std::vector<Reg>(static_cast<size_t>(elements)));
    best_.assign(kMaxSlots, Reg());
    Each(0, outer, [&] {
      for (const Stage& stage : part_.stages) {
        if (stage.per_row) {
          RunTape(stage.tape);
          continue;
        }
        position_ = 0;
        Each(outer, all, [&] {
          first_ = position_ == 0;
          RunTape(stage.tape);
          ++position_;
        });
      }
    });
  }

  void Contraction() {
    size_t points = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
    Each(0, points, [&] {
      acc_.assign(part_.rhs.size(), Reg());
      for (size_t j = 0; j < part_.rhs.size(); ++j) {
        double sum = 0;
        int64_t isum = 0;
        Each(points, all, [&] {
          Reg a = part_.prologue.empty() ? Load(part_.operands[part_.lhs]) : RunTape(part_.prologue);
          Reg b = Load(part_.operands[part_.rhs[j]]);
          sum += (a.type == TapeType::kF64 ? a.d : a.f) * (b.type == TapeType::kF64 ? b.d : b.f);
          isum += a.i * b.i;
        });
        acc_[j].type = part_.acc_type;
        acc_[j].f = static_cast<float>(sum);
        acc_[j].d = sum;
        acc_[j].i = isum;
      }
      RunTape(part_.epilogue);
    });
  }

  void Convolution() {
    size_t points = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
    Each(0, points, [&] {
      double sum = 0, most = -std::numeric_limits<double>::infinity();
      int64_t count = 0;
      Each(points, all, [&] {
        const Operand& input = part_.operands[part_.lhs];
        if (Address(input) < 0) return;
        Reg x = Load(input);
        double v = x.type == TapeType::kF64 ? x.d : x.type == TapeType::kF32 ? x.f : static_cast<double>(x.i);
        most = std::isnan(v) ? v : std::max(most, v);
        if (!part_.rhs.empty()) {
          Reg w = Load(part_.operands[part_.rhs[0]]);
          v *= w.type == TapeType::kF64 ? w.d : w.f;
        }
        sum += v;
        ++count;
      });
      double result = part_.combine == Combine::kMax    ? most
                      : part_.combine == Combine::kMean ? sum / static_cast<double>(count)
                                                        : sum;
      acc_.assign(1, Reg());
      acc_[0].type = part_.acc_type;
      acc_[0].f = static_cast<float>(result);
      acc_[0].d = result;
      acc_[0].i = std::isfinite(result) ? static_cast<int64_t>(result) : 0;
      RunTape(part_.epilogue);
    });
  }

  double AsDouble(const Reg& r) {
    return r.type == TapeType::kF64 ? r.d : r.type == TapeType::kF32 ? r.f : static_cast<double>(r.i);
  }

  void Attention() {
    size_t outer_m = part_.outer + part_.m, points = outer_m + part_.n, keys = points + part_.reduced,
           all = part_.loops.size();
    Each(0, outer_m, [&] {
      int64_t limit = std::numeric_limits<int64_t>::max();
      if (part_.limit != kNoOperand) limit = Load(part_.operands[part_.limit]).i;
      std::vector<double> scores;
      int64_t key = 0;
      Each(points, keys, [&] {
        if (key++ >= limit) return;
        double dot = 0;
        Each(keys, all, [&] {
          dot += AsDouble(Load(part_.operands[part_.lhs])) * AsDouble(Load(part_.operands[part_.keys]));
        });
        dot *= part_.scale;
        if (part_.softcap != 0) dot = part_.softcap * std::tanh(dot / part_.softcap);
        if (part_.mask != kNoOperand) {
          Reg m = Load(part_.operands[part_.mask]);
          if (m.type == TapeType::kI64) {
            if (m.i == 0) dot = -std::numeric_limits<double>::infinity();
          } else {
            dot += AsDouble(m);
          }
        }
        scores.push_back(dot);
      });
      double most = -std::numeric_limits<double>::infinity(), total = 0;
      for (double s : scores) most = std::max(most, s);
      for (double& s : scores) total += s = std::exp(s - most);
      Each(outer_m, points, [&] {
        double sum = 0;
        int64_t k = 0;
        Each(points, keys, [&] {
          if (k < static_cast<int64_t>(scores.size())) {
            sum += scores[static_cast<size_t>(k)] / total * AsDouble(Load(part_.operands[part_.values]));
          }
          ++k;
        });
        if (part_.nan_to_zero && std::isnan(sum)) sum = 0;
        acc_.assign(1, Reg());
        acc_[0].type = part_.acc_type;
        acc_[0].f = static_cast<float>(sum);
        acc_[0].d = sum;
        RunTape(part_.epilogue);
      });
    });
  }

  const LoweredOp& op_;
  const Part& part_;
  Memory& memory_;
  std::vector<int64_t> index_;
  std::vector<Reg> scalars_, acc_, best_;
  std::vector<std::vector<Reg>> kept_;
  int64_t position_ = 0;
  bool first_ = false;
};

}  // namespace

Memory MakeMemory(const LoweredProgram& program) {
  Memory memory;
  for (const LoweredValue& value : program.values) {
    memory.emplace_back(static_cast<size_t>(value.bytes), uint8_t{0xcd});
    if (!value.constant) continue;
    if (value.constant->synthetic) {
      const auto made = ir::WithBytes(value.constant);
      std::memcpy(memory.back().data(), made->bytes.data(), made->bytes.size());
    } else if (value.bytes > 0) {
      std::memcpy(memory.back().data(), value.constant->bytes.data(), static_cast<size_t>(value.bytes));
    }
  }
  return memory;
}

void RunReference(const LoweredProgram& program, Memory* memory) {
  for (const LoweredOp& op : program.ops) {
    for (const Part& part : op.kernel.parts) PartRun(op, part, memory).Run();
  }
}

}  // namespace rondo
