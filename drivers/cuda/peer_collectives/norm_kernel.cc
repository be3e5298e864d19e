#include "drivers/cuda/peer_collectives/norm_kernel.h"

#include <algorithm>

#include "drivers/cuda/peer_collectives/norm.h"

namespace rondo::cuda {
namespace {

// The meaning of a register or row scalar of the kernel's tapes.
enum class Term : uint8_t {
  kLoad,          // of operand operands[0]
  kSum,           // of operands
  kConst,         // number
  kTotal,         // of a row's s
  kTotalSquares,  // or its squares
  kMean,
  kMeanSquares,
  kShifted,  // kMeanSquares + epsilon
  kRoot,     // its root
  kFactor,   // 1 / kRoot
  kDifference,
  kSquare,
  kNormed,
  kRounded,
  kScaled,  // by operands[0]
  kDone,
  kNothing
};
struct Value {
  Term term = Term::kNothing;
  double number = 0;
  uint16_t operands[NormKernel::kMostAddends] = {};
  uint32_t count = 0;
};

// Reads the tapes of a part, one instruction after another.
class NormReader {
 public:
  NormReader(const Part& part, NormKernel* norm) : part_(part), norm_(*norm) {}

  bool Read() {
    for (const Stage& stage : part_.stages) {
      if (stage.tape.size() > kMostRegisters) return false;
      for (size_t k = 0; k < stage.tape.size(); ++k) {
        if (!ReadOne(stage.tape[k], &registers_[k])) return false;
      }
    }
    return has_sum_ && done_ && count_ > 0;
  }
  // The operands, by their roles in the kernel.
  uint16_t addend(uint32_t i) const { return sum_.operands[i]; }
  uint32_t num_addends() const { return sum_.count; }
  uint16_t scale() const { return scale_; }
  uint16_t bias() const { return bias_; }
  uint16_t stored() const { return stored_; }
  uint16_t normed() const { return normed_; }

 private:
  static constexpr size_t kMostRegisters = 32;

  bool ReadOne(const TapeInst& inst, Value* to) {
    const Value a = inst.a < kMostRegisters ? registers_[inst.a] : Value();
    const Value b = inst.b < kMostRegisters ? registers_[inst.b] : Value();
    *to = {};
    if (inst.type != TapeType::kF32) return false;
    switch (inst.op) {
      case TapeOp::kLoad: *to = {Term::kLoad, 0, {inst.arg}, 1}; return true;
      case TapeOp::kConst: *to = {Term::kConst, inst.imm.f, {}, 0}; return true;
      case TapeOp::kScalar: *to = scalars_[inst.arg % kMaxSlots]; return true;
      case TapeOp::kSetScalar: scalars_[inst.arg % kMaxSlots] = a; return true;
      case TapeOp::kAdd: return Add(a, b, to) || Add(b, a, to);
      case TapeOp::kSub: to->term = Term::kDifference; return IsSum(a) && b.term == Term::kMean;
      case TapeOp::kMul: return inst.a == inst.b ? Square(a, to) : Multiply(a, b, to) || Multiply(b, a, to);
      case TapeOp::kDiv: return Divide(a, b, to);
      case TapeOp::kSqrt: to->term = Term::kRoot; return a.term == Term::kShifted;
      case TapeOp::kRsqrt: to->term = Term::kFactor; return a.term == Term::kShifted;
      case TapeOp::kReciprocal: to->term = Term::kFactor; return a.term == Term::kRoot;
      case TapeOp::kCast: return inst.imm.i == static_cast<int64_t>(norm_.dtype) && Round(a, to);
      case TapeOp::kReduceSum: return Reduce(a, &scalars_[inst.arg % kMaxSlots]);
      case TapeOp::kStore: return Store(a, inst.arg);
      default: return false;
    }
  }

  // Whether the value is s; the first candidate defines s.
  bool IsSum(const Value& value) {
    if (value.term != Term::kSum && value.term != Term::kLoad) return false;
    if (!has_sum_) sum_ = value;
    has_sum_ = true;
    if (value.count != sum_.count) return false;
    for (uint32_t i = 0; i < value.count; ++i) {
      if (!SameRead(part_.operands[value.operands[i]], part_.operands[sum_.operands[i]])) return false;
    }
    return true;
  }
  static bool SameRead(const Operand& a, const Operand& b) {
    return a.param == b.param && a.offset == b.offset &&
           std::equal(a.strides.begin(), a.strides.end(), b.strides.begin(), b.strides.end());
  }

  bool Add(const Value& a, const Value& b, Value* to) {
    if (a.term == Term::kMeanSquares && b.term == Term::kConst) {
      norm_.epsilon = static_cast<float>(b.number);
      to->term = Term::kShifted;
      return true;
    }
    if (b.term != Term::kLoad) return false;
    if (a.term == Term::kScaled) {
      bias_ = b.operands[0];
      to->term = Term::kDone;
      return true;
    }
    if ((a.term != Term::kLoad && a.term != Term::kSum) || a.count == NormKernel::kMostAddends) return false;
    *to = a;
    to->term = Term::kSum;
    to->operands[to->count++] = b.operands[0];
    return true;
  }
  bool Square(const Value& a, Value* to) {
    to->term = Term::kSquare;
    norm_.centred = a.term == Term::kDifference;
    return norm_.centred || IsSum(a);
  }
  bool Multiply(const Value& a, const Value& b, Value* to) {
    if (b.term == Term::kFactor) {
      to->term = Term::kNormed;
      return norm_.centred ? a.term == Term::kDifference : IsSum(a);
    }
    if (b.term != Term::kLoad || (a.term != Term::kNormed && a.term != Term::kRounded)) return false;
    to->term = Term::kScaled;
    scale_ = b.operands[0];
    return true;
  }
  bool Round(const Value& a, Value* to) {
    if (a.term == Term::kNormed) {
      norm_.rounded = true;
      to->term = Term::kRounded;
      return true;
    }
    to->term = Term::kDone;  // as its store rounds it
    return a.term == Term::kScaled || a.term == Term::kDone;
  }
  bool Divide(const Value& a, const Value& b, Value* to) {
    if (b.term != Term::kConst || (count_ > 0 && count_ != b.number)) return false;
    count_ = b.number;
    norm_.count = static_cast<float>(count_);
    to->term = a.term == Term::kTotal ? Term::kMean : Term::kMeanSquares;
    return a.term == Term::kTotal || a.term == Term::kTotalSquares;
  }
  bool Reduce(const Value& a, Value* scalar) {
    *scalar = {};
    scalar->term = a.term == Term::kSquare ? Term::kTotalSquares : Term::kTotal;
    return a.term == Term::kSquare || IsSum(a);
  }
  bool Store(const Value& a, uint16_t operand) {
    if (a.term == Term::kScaled || a.term == Term::kDone) {
      if (done_) return false;
      normed_ = operand;
      return done_ = true;
    }
    if (stored_ != kNoOperand || !IsSum(a)) return false;
    stored_ = operand;
    return true;
  }

  const Part& part_;
  NormKernel& norm_;
  Value registers_[kMostRegisters], scalars_[kMaxSlots];
  Value sum_;
  bool has_sum_ = false, done_ = false;
  double count_ = 0;
  uint16_t scale_ = kNoOperand, bias_ = kNoOperand, stored_ = kNoOperand, normed_ = kNoOperand;
};

small::Element ElementOf(DType dtype) {
  return dtype == DType::kF16 ? small::kF16 : dtype == DType::kBF16 ? small::kBF16 : small::kF32;
}

// The layout of a part's operand: all elements contiguous, or one row that is the same for all rows.
enum class Lie : uint8_t { kElsewhere, kWhole, kRow };
Lie LieOf(const Part& part, const Operand& operand) {
  if (operand.offset != 0 || !operand.indirects.empty() || !operand.guards.empty()) return Lie::kElsewhere;
  bool whole = true, row = true;
  int64_t next = 1;
  for (size_t l = part.loops.size(); l-- > 0;) {
    if (part.loops[l] == 1) continue;
    const bool outer = l < part.outer;
    whole = whole && operand.strides[l] == next;
    row = row && operand.strides[l] == (outer ? 0 : next);
    next *= part.loops[l];
  }
  return whole ? Lie::kWhole : row ? Lie::kRow : Lie::kElsewhere;
}

// Whether the kernel's text keeps the vectors of rows in threads (row_reduction.cc), at most as many as
// peer_collectives/norm.h holds.
bool KeepsVectors(const NormKernel& norm, const Part& part) {
  const int64_t size = ByteSize(norm.dtype);
  constexpr uint32_t kLongRow = 1 << 14;  // blocks of a cluster share those
  if (part.loops.back() * size % small::kVectorBytes != 0 || norm.columns >= kLongRow) return false;
  small::Norm row = {};
  row.columns = norm.columns;
  const auto rounds = static_cast<int64_t>(small::PartsOf(row, ElementOf(norm.dtype)));
  const int64_t rows = (norm.bias == kNoParam ? 1 : 2) * (norm.wide_rows ? 2 : 1);
  const int64_t kept = norm.num_addends + rows;
  constexpr int64_t kMostKept = 96, kOfVector = 4;  // registers
  return rounds <= small::kMostParts && rounds * kOfVector * kept <= kMostKept;
}

struct Range {
  uint64_t begin = 0, bytes = 0;
  bool written = false;
};
// Whether threads touch the same places of both, or the two share no place.
bool AreApart(const Range& a, const Range& b) {
  if (!a.written && !b.written) return true;
  if (a.begin == b.begin && a.bytes == b.bytes) return true;
  return a.begin + a.bytes <= b.begin || b.begin + b.bytes <= a.begin;
}

}  // namespace

std::optional<NormKernel> NormOf(const Kernel& kernel, const KernelBinary& binary) {
  if (kernel.parts.size() != 1 || !kernel.parts[0].when.empty() || binary.kind != BinaryKind::kFunction)
    return std::nullopt;
  const Part& part = kernel.parts[0];
  if (part.skeleton != Skeleton::kReduction || part.sequential || part.kept != 0 || part.reduced == 0 ||
      binary.assumes.size() != kernel.num_params || kernel.workspace_param != kNoOperand)
    return std::nullopt;
  NormKernel norm;
  norm.dtype = part.operands[0].dtype;
  if (norm.dtype != DType::kF32 && norm.dtype != DType::kF16 && norm.dtype != DType::kBF16)
    return std::nullopt;
  constexpr int64_t kMost = 1 << 20;
  int64_t rows = 1, columns = 1;
  for (size_t l = 0; l < part.loops.size(); ++l) {
    int64_t& extent = l < part.outer ? rows : columns;
    if (part.loops[l] > kMost / extent) return std::nullopt;
    extent *= part.loops[l];
  }
  norm.rows = static_cast<uint32_t>(rows);
  norm.columns = static_cast<uint32_t>(columns);
  NormReader reader(part, &norm);
  if (!reader.Read()) return std::nullopt;
  for (const Operand& operand : part.operands) {
    const uint32_t alignment = binary.assumes[operand.param] & ~kAssumesConstant;
    if (alignment < small::kVectorBytes) return std::nullopt;
    const auto index = static_cast<uint16_t>(&operand - part.operands.begin());
    if (index == reader.scale() || index == reader.bias()) continue;
    if (operand.dtype != norm.dtype) return std::nullopt;
  }
  const DType rows_dtype = part.operands[reader.scale()].dtype;
  if (reader.bias() != kNoOperand && part.operands[reader.bias()].dtype != rows_dtype) return std::nullopt;
  if (rows_dtype != norm.dtype && rows_dtype != DType::kF32) return std::nullopt;
  norm.wide_rows = rows_dtype != norm.dtype;
  const auto lies = [&](uint16_t operand, Lie as) { return LieOf(part, part.operands[operand]) == as; };
  const auto is_row = [&](uint16_t operand) {
    return lies(operand, Lie::kRow) || (rows == 1 && lies(operand, Lie::kWhole));
  };
  const auto param = [&](uint16_t operand) { return part.operands[operand].param; };
  const auto is_constant = [&](uint16_t p) {
    return p == kNoParam || (binary.assumes[p] & kAssumesConstant) != 0;
  };
  for (uint32_t i = 0; i < reader.num_addends(); ++i) {
    const uint16_t operand = reader.addend(i);
    const bool row = lies(operand, Lie::kRow);
    if (!row && !lies(operand, Lie::kWhole)) return std::nullopt;
    norm.addends[norm.num_addends++] = {param(operand), row};
  }
  if (!is_row(reader.scale()) || !lies(reader.normed(), Lie::kWhole)) return std::nullopt;
  norm.scale = param(reader.scale());
  norm.normed = param(reader.normed());
  if (reader.bias() != kNoOperand) {
    if (!is_row(reader.bias())) return std::nullopt;
    norm.bias = param(reader.bias());
  }
  if (reader.stored() != kNoOperand) {
    if (!lies(reader.stored(), Lie::kWhole)) return std::nullopt;
    norm.sum = param(reader.stored());
  }
  norm.constant_rows = is_constant(norm.scale) && is_constant(norm.bias);
  if (!KeepsVectors(norm, part)) return std::nullopt;
  return norm;
}

std::optional<small::Norm> NormAfter(const NormKernel& kernel, const SyncPoint& point, DeviceAddress from,
                                     DeviceAddress to, Span<const DeviceAddress> addresses) {
  const uint64_t row = uint64_t{kernel.columns} * static_cast<uint64_t>(ByteSize(kernel.dtype));
  const uint64_t whole = row * kernel.rows, wide = row * (kernel.wide_rows ? 2 : 1);
  if (point.op != CollectiveOp::kAllReduce || point.dtype != kernel.dtype || point.bytes != whole ||
      from % small::kVectorBytes != 0)
    return std::nullopt;
  uint32_t of_ranks = kernel.num_addends;
  for (uint32_t i = 0; i < kernel.num_addends; ++i) {
    if (!kernel.addends[i].row && addresses[kernel.addends[i].param] == to) of_ranks = i;
  }
  if (of_ranks == kernel.num_addends) return std::nullopt;
  const auto at = [&](uint16_t param) { return param == kNoParam ? 0 : addresses[param]; };
  const auto read = [&](uint16_t param) { return reinterpret_cast<const char*>(at(param)); };
  const auto written = [&](uint16_t param) { return reinterpret_cast<char*>(at(param)); };
  small::Norm norm = {};
  Range ranges[8] = {{from, whole, false}, {to, whole, true}};
  uint32_t num_ranges = 2, others = 0;
  for (uint32_t i = 0; i < kernel.num_addends; ++i) {
    if (i == of_ranks) continue;
    const NormKernel::Addend& addend = kernel.addends[i];
    if (addend.row) norm.flags |= others == 0 ? small::kFirstIsRow : small::kSecondIsRow;
    norm.addends[others++] = read(addend.param);
    ranges[num_ranges++] = {at(addend.param), addend.row ? row : whole, false};
  }
  if (of_ranks == 2) norm.flags |= small::kLastOfSum;
  norm.scale = read(kernel.scale);
  norm.bias = read(kernel.bias);
  norm.sum = written(kernel.sum);
  norm.normed = written(kernel.normed);
  ranges[num_ranges++] = {at(kernel.scale), wide, false};
  if (norm.bias != nullptr) ranges[num_ranges++] = {at(kernel.bias), wide, false};
  if (norm.sum != nullptr) ranges[num_ranges++] = {at(kernel.sum), whole, true};
  ranges[num_ranges++] = {at(kernel.normed), whole, true};
  for (uint32_t i = 0; i < num_ranges; ++i) {
    if (ranges[i].begin % small::kVectorBytes != 0) return std::nullopt;
    for (uint32_t j = 0; j < i; ++j) {
      if (!AreApart(ranges[i], ranges[j])) return std::nullopt;
    }
  }
  norm.flags |= (kernel.centred ? small::kCentred : 0u) | (kernel.rounded ? small::kRounded : 0u) |
                (kernel.constant_rows ? small::kConstantRows : 0u) |
                (kernel.wide_rows ? small::kWideRows : 0u);
  norm.rows = kernel.rows;
  norm.columns = kernel.columns;
  norm.parts = static_cast<uint32_t>(small::PartsOf(norm, ElementOf(kernel.dtype)));
  norm.count = kernel.count;
  norm.epsilon = kernel.epsilon;
  return norm;
}

}  // namespace rondo::cuda
