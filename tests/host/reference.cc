#include "tests/host/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "core/scalar.h"

namespace rondo::test {
namespace {

using scalar::Value;
using Point = std::vector<int64_t>;

double ToDouble(TapeType type, Value v) {
  return type == TapeType::kF32 ? v.f32 : type == TapeType::kF64 ? v.f64 : static_cast<double>(v.i64);
}
Value FromDouble(TapeType type, double d) {
  return type == TapeType::kF32   ? scalar::Of(static_cast<float>(d))
         : type == TapeType::kF64 ? scalar::Of(d)
                                  : scalar::Of(static_cast<int64_t>(d));
}

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, const Part& part, const std::vector<Span<char>>& params)
      : kernel_(kernel), part_(part), params_(params) {}

  bool Run() {
    switch (part_.skeleton) {
      case Skeleton::kMap: ForEach(0, part_.loops.size(), [&] { RunTape(part_.body); }); break;
      case Skeleton::kReduction: Reduction(); break;
      case Skeleton::kMatMul: Contraction(); break;
      case Skeleton::kConvolution: Convolution(); break;
      case Skeleton::kAttention: Attention(); break;
      case Skeleton::kTopK: TopK(); break;
    }
    return fault_;
  }

 private:
  // Calls f for all points of loops [first, end), with the other loops unchanged.
  template <typename F>
  void ForEach(size_t first, size_t end, F f) {
    if (first == end) return f();
    for (point_[first] = 0; point_[first] < part_.loops[first]; ++point_[first]) ForEach(first + 1, end, f);
    point_[first] = 0;
  }

  // Whether the operand exists at the current point; `at` gets its address in elements.
  bool Locate(const Operand& operand, int64_t* at) {
    *at = operand.offset;
    for (size_t d = 0; d < part_.loops.size(); ++d) *at += operand.strides[d] * point_[d];
    for (const Guard& guard : operand.guards) {
      int64_t c = guard.offset;
      for (size_t d = 0; d < part_.loops.size(); ++d) c += guard.strides[d] * point_[d];
      if (c < 0 || c >= guard.extent) return false;
      *at += guard.stride * c;
    }
    for (const Indirect& indirect : operand.indirects) {
      bool present;
      int64_t v = Read(part_.operands[indirect.operand], &present).i64;
      if (indirect.wrap && v < 0) v += indirect.extent;
      if (v < 0 || v >= indirect.extent) {
        fault_ |= indirect.fault;
        return false;
      }
      *at += indirect.stride * v;
    }
    ExpectWithin(operand, *at);
    return true;
  }

  void ExpectWithin(const Operand& operand, int64_t at) const {
    const auto elements = static_cast<int64_t>(params_[operand.param].size()) / ByteSize(operand.dtype);
    if (at >= 0 && at < elements) return;
    std::fprintf(stderr, "the reference of kernel \"%.*s\": operand %td, element %lld of %lld\n",
                 static_cast<int>(kernel_.name.size()), kernel_.name.data(), &operand - part_.operands.data(),
                 static_cast<long long>(at), static_cast<long long>(elements));
    std::abort();
  }
  char* Data(const Operand& operand) const { return params_[operand.param].data(); }

  Value Read(const Operand& operand, bool* present) {
    int64_t at;
    *present = Locate(operand, &at);
    if (!*present) return FromDouble(NaturalType(operand.dtype), operand.absent);
    return scalar::LoadValue(operand.dtype, Data(operand), at);
  }
  double ReadDouble(uint16_t operand) {
    bool present;
    const Operand& o = part_.operands[operand];
    return ToDouble(NaturalType(o.dtype), Read(o, &present));
  }

  double ReadAt(const Operand& operand, int64_t at) const {
    ExpectWithin(operand, at);
    return ToDouble(NaturalType(operand.dtype), scalar::LoadValue(operand.dtype, Data(operand), at));
  }

  // Runs the tape and returns its result.
  Value RunTape(Tape tape) {
    std::vector<Value> r(tape.size());
    Value yield;
    for (size_t k = 0; k < tape.size(); ++k) {
      const TapeInst& inst = tape[k];
      switch (inst.op) {
        case TapeOp::kLoad: {
          bool present;
          r[k] = Read(part_.operands[inst.arg], &present);
          break;
        }
        case TapeOp::kStore: {
          int64_t at;
          const Operand& operand = part_.operands[inst.arg];
          if (Locate(operand, &at)) scalar::StoreValue(operand.dtype, Data(operand), at, r[inst.a]);
          break;
        }
        case TapeOp::kCombineMax:
        case TapeOp::kCombineMin: {
          int64_t at;
          const Operand& operand = part_.operands[inst.arg];
          Locate(operand, &at);
          const float cell = scalar::LoadValue(operand.dtype, Data(operand), at).f32;
          scalar::StoreValue(operand.dtype, Data(operand), at,
                             scalar::Of(scalar::Combined(inst.op, cell, r[inst.a].f32)));
          break;
        }
        case TapeOp::kIndex: r[k] = scalar::Of(point_[inst.arg]); break;
        case TapeOp::kAcc: r[k] = acc_[inst.arg]; break;
        case TapeOp::kScalar: r[k] = scalars_[inst.arg]; break;
        case TapeOp::kKept: r[k] = kept_[inst.arg][static_cast<size_t>(element_)]; break;
        case TapeOp::kKeep: kept_[inst.arg][static_cast<size_t>(element_)] = r[inst.a]; break;
        case TapeOp::kYield: yield = r[inst.a]; break;
        case TapeOp::kSetScalar: scalars_[inst.arg] = r[inst.a]; break;
        case TapeOp::kReduceSum:
        case TapeOp::kReduceProd:
        case TapeOp::kReduceMax:
        case TapeOp::kReduceMin:
        case TapeOp::kReduceArgMax:
        case TapeOp::kReduceArgMin: Reduce(inst, tape[inst.a].type, r[inst.a]); break;
        default: r[k] = scalar::Eval(inst, tape[inst.a].type, r[inst.a], r[inst.b], r[inst.c]);
      }
    }
    return yield;
  }

  void Reduce(const TapeInst& inst, TapeType type, Value v) {
    const uint16_t s = inst.arg;
    if (inst.op >= TapeOp::kReduceArgMax) {
      const double x = ToDouble(type, v);
      const bool greater = inst.op == TapeOp::kReduceArgMax ? x > best_[s] : x < best_[s];
      if (element_ == 0 || greater || (x == best_[s] && inst.imm.i == 1)) {
        best_[s] = x;
        scalars_[s] = scalar::Of(element_);
      }
    } else if (type == TapeType::kI64) {
      if (element_ == 0) scalars_[s] = scalar::Of(scalar::ReduceStart<int64_t>(inst.op));
      scalars_[s] = scalar::Of(scalar::ReduceStep<int64_t>(inst.op, scalars_[s].i64, v.i64));
    } else {
      if (element_ == 0) best_[s] = scalar::ReduceStart<double>(inst.op);
      best_[s] = scalar::ReduceStep<double>(inst.op, best_[s], ToDouble(type, v));
      scalars_[s] = FromDouble(type, best_[s]);
    }
  }

  void Reduction() {
    int64_t length = 1;
    for (size_t d = part_.outer; d < part_.loops.size(); ++d) length *= part_.loops[d];
    for (auto& row : kept_) row.assign(static_cast<size_t>(length), Value());
    ForEach(0, part_.outer, [&] {
      for (const Stage& stage : part_.stages) {
        element_ = 0;
        if (stage.per_row) {
          RunTape(stage.tape);
          continue;
        }
        ForEach(part_.outer, part_.loops.size(), [&] {
          RunTape(stage.tape);
          ++element_;
        });
      }
    });
  }

  // The packed weight of the j-th B at the current point.
  double ReadPacked(size_t j) {
    const Operand& codes = part_.operands[part_.rhs[j]];
    PackedShape shape = {1, 1, part_.packed.block, BitsOf(part_.packed.type)};
    int64_t n = 0, k = 0;
    for (size_t d = 0; d < part_.loops.size(); ++d) {
      const bool reduced = d >= static_cast<size_t>(EpilogueLoops(part_));
      if (codes.strides[d] != 0) (reduced ? shape.k : shape.n) *= part_.loops[d];
      (reduced ? k : n) += codes.strides[d] * point_[d];
    }
    n /= shape.Stride();
    const auto at = [&](uint16_t operand) { return ReadAt(part_.operands[operand], shape.ScaleAt(n, k)); };
    const int64_t bit = shape.BitAt(n, k);
    const auto byte = static_cast<uint32_t>(ReadAt(codes, bit / 8));
    const double value = PackedValue(part_.packed.type, byte >> (bit % 8) & ((1u << shape.bits) - 1));
    const double zero = part_.zeros.empty() ? part_.packed.zero : at(part_.zeros[j]);
    return (value - zero) * at(part_.scales[j]);
  }

  void Contraction() {
    const size_t outer = static_cast<size_t>(EpilogueLoops(part_));
    ForEach(0, outer, [&] {
      std::vector<double> sums(part_.rhs.size(), 0);
      std::vector<int64_t> whole(part_.rhs.size(), 0);
      ForEach(outer, part_.loops.size(), [&] {
        double x;
        if (part_.prologue.empty()) {
          x = ReadDouble(part_.lhs);
        } else {
          TapeType type = part_.acc_type;
          for (const TapeInst& inst : part_.prologue) {
            if (inst.op == TapeOp::kYield) type = part_.prologue[inst.a].type;
          }
          x = ToDouble(type, RunTape(part_.prologue));
        }
        for (size_t j = 0; j < sums.size(); ++j) {
          const double y = part_.packed.type == PackedType::kNone ? ReadDouble(part_.rhs[j]) : ReadPacked(j);
          sums[j] += x * y;
          whole[j] += static_cast<int64_t>(x) * static_cast<int64_t>(y);
        }
      });
      for (size_t j = 0; j < sums.size(); ++j) {
        acc_[j] =
            part_.acc_type == TapeType::kI64 ? scalar::Of(whole[j]) : FromDouble(part_.acc_type, sums[j]);
      }
      RunTape(part_.epilogue);
    });
  }

  void Convolution() {
    const size_t outer = static_cast<size_t>(EpilogueLoops(part_));
    ForEach(0, outer, [&] {
      double sum = part_.combine == Combine::kMax ? -std::numeric_limits<double>::infinity() : 0;
      double count = 0;
      std::vector<double> products(part_.rhs.size(), 0);
      ForEach(outer, part_.loops.size(), [&] {
        bool present;
        const Operand& input = part_.operands[part_.lhs];
        const double x = ToDouble(NaturalType(input.dtype), Read(input, &present));
        if (part_.combine == Combine::kProduct) {
          for (size_t j = 0; j < products.size(); ++j) products[j] += x * ReadDouble(part_.rhs[j]);
        } else if (present) {
          sum = part_.combine == Combine::kMax ? std::fmax(sum, x) : sum + x;
          count += 1;
        }
      });
      if (part_.combine == Combine::kMean) sum = count > 0 ? sum / count : 0;
      acc_[0] = FromDouble(part_.acc_type, sum);
      for (size_t j = 0; j < products.size(); ++j) acc_[j] = FromDouble(part_.acc_type, products[j]);
      RunTape(part_.epilogue);
    });
  }

  void TopK() {
    const size_t ranks = part_.loops.size() - 2;
    const Operand& operand = part_.operands[part_.lhs];
    const TapeType type = NaturalType(operand.dtype);
    const bool largest = part_.combine == Combine::kMax;
    const auto less = [&](Value a, Value b) {
      if (operand.dtype == DType::kU64) return static_cast<uint64_t>(a.i64) < static_cast<uint64_t>(b.i64);
      if (type == TapeType::kI64) return a.i64 < b.i64;
      const double x = ToDouble(type, a), y = ToDouble(type, b),
                   kInf = std::numeric_limits<double>::infinity();
      return (std::isnan(x) ? kInf : x) < (std::isnan(y) ? kInf : y);
    };
    ForEach(0, ranks, [&] {
      std::vector<Value> row;
      std::vector<size_t> places;
      ForEach(ranks + 1, ranks + 2, [&] {
        bool present;
        places.push_back(row.size());
        row.push_back(Read(operand, &present));
      });
      std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
        return largest ? less(row[b], row[a]) : less(row[a], row[b]);
      });
      ForEach(ranks, ranks + 1, [&] {
        acc_[0] = scalar::Of(static_cast<int64_t>(places[static_cast<size_t>(point_[ranks])]));
        RunTape(part_.epilogue);
      });
    });
  }

  void Attention() {
    const size_t n_first = static_cast<size_t>(part_.outer + part_.m), k_first = n_first + part_.n;
    const size_t f_first = k_first + part_.reduced;
    constexpr double kInf = std::numeric_limits<double>::infinity();
    ForEach(0, n_first, [&] {
      std::vector<double> scores;
      const int64_t limit = part_.limit == kNoOperand ? std::numeric_limits<int64_t>::max()
                                                      : static_cast<int64_t>(ReadDouble(part_.limit));
      ForEach(k_first, f_first, [&] {
        if (static_cast<int64_t>(scores.size()) >= limit) return scores.push_back(-kInf);
        double s = 0;
        ForEach(f_first, part_.loops.size(), [&] { s += ReadDouble(part_.lhs) * ReadDouble(part_.keys); });
        s *= part_.scale;
        if (part_.softcap != 0) s = part_.softcap * std::tanh(s / part_.softcap);
        if (part_.mask != kNoOperand) {
          const double mask = ReadDouble(part_.mask);
          s = part_.operands[part_.mask].dtype != DType::kBool ? s + mask : mask != 0 ? s : -kInf;
        }
        scores.push_back(s);
      });
      double most = -kInf, sum = 0;
      for (double s : scores) most = std::fmax(most, s);
      for (double& s : scores) sum += s = std::exp(s - most);
      for (double& s : scores) s = !(sum > 0) && part_.nan_to_zero ? 0 : s / sum;
      ForEach(n_first, k_first, [&] {
        double total = 0;
        size_t k = 0;
        ForEach(k_first, f_first, [&] {
          if (static_cast<int64_t>(k) < limit || std::isnan(scores[k]))
            total += scores[k] * ReadDouble(part_.values);
          ++k;
        });
        acc_[0] = FromDouble(part_.acc_type, total);
        RunTape(part_.epilogue);
      });
    });
  }

  const Kernel& kernel_;
  const Part& part_;
  const std::vector<Span<char>>& params_;
  Point point_ = Point(kMaxLoops + 1, 0);
  Value acc_[kMaxSlots], scalars_[kMaxSlots];
  double best_[kMaxSlots] = {};
  std::vector<Value> kept_[kMaxSlots];
  int64_t element_ = 0;
  bool fault_ = false;
};

}  // namespace

bool IsSkipped(const Part& part, const std::vector<Span<char>>& params) {
  return std::any_of(part.when.begin(), part.when.end(), [&](uint16_t when) {
    const Operand& operand = part.operands[when & ~kUnless];
    const bool value = params[operand.param][static_cast<size_t>(operand.offset)] != 0;
    return value == ((when & kUnless) != 0);
  });
}

bool RunReference(const Kernel& kernel, const std::vector<Span<char>>& params) {
  bool fault = false;
  for (const Part& part : kernel.parts) {
    if (!IsSkipped(part, params)) fault |= Interpreter(kernel, part, params).Run();
  }
  return fault;
}

}  // namespace rondo::test
