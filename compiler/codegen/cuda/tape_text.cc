// PartWriter's tapes: one point at a time, or neighbouring points as vector lanes.
#include <algorithm>

#include "compiler/codegen/cuda/combined_cells.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduce_ops.h"
#include "compiler/codegen/cuda/tape_facts.h"

namespace rondo::cuda {

namespace {

// The device function of an operation, without the prefix op_; null if it has none.
const char* FunctionName(TapeOp op) {
  switch (ClassOf(op)) {
    case OpClass::kUnknown:
    case OpClass::kLeaf:
    case OpClass::kEffect:
    case OpClass::kCast:
    case OpClass::kSelect: return nullptr;
    default: return Name(op);
  }
}

// The type of single lanes: integers of up to 32 bits are ints.
std::string LaneType(const Operand& operand) {
  return NaturalType(operand.dtype) == TapeType::kI64 ? "int" : "float";
}

}  // namespace

bool PartWriter::IsQuick(Tape tape, const TapeInst& inst) const {
  const bool by_scalar = inst.op == TapeOp::kDiv && tape[inst.b].op == TapeOp::kScalar && !HasSteps(tape);
  return scope.quick && inst.type == TapeType::kF32 && (by_scalar || HasQuickFunction(inst.op));
}

// erf(x) + 1 and tanh(x) + 1 have functions of their own: most instructions of the two make the sum of them
// again, and it is as exact where it is near 0.
const TapeInst* PartWriter::QuickPlusOne(Tape tape, const TapeInst& inst) const {
  if (inst.op != TapeOp::kAdd) return nullptr;
  for (const auto& [made, added] : {std::pair(inst.a, inst.b), std::pair(inst.b, inst.a)}) {
    const bool sigmoidal = tape[made].op == TapeOp::kErf || tape[made].op == TapeOp::kTanh;
    if (sigmoidal && IsQuick(tape, tape[made]) && tape[added].op == TapeOp::kConst && tape[added].imm.f == 1)
      return &tape[made];
  }
  return nullptr;
}

void PartWriter::IncludeFor(Tape tape, const TapeInst& inst) {
  if (inst.op == TapeOp::kCast) {
    Include("casts");
  } else if (FunctionName(inst.op) != nullptr) {
    Include(IsQuick(tape, inst) ? "quick_scalar" : "scalar");
  }
}

std::string PartWriter::CastText(Tape tape, const TapeInst& inst, const std::string& from) const {
  const std::string to = "<" + Text(inst.imm.i) + ">(";
  const TapeType before = tape[inst.a].type;
  // Conversions of 32 bits are several times quicker than those of 64.
  const bool narrow = FitsInt(context_.part, tape, inst.a, scope.small_sums);
  if (inst.type == TapeType::kI64) {
    const bool to_int = IsIntType(static_cast<DType>(inst.imm.i));
    if (to_int && IsRoundedInt(context_.part, tape, inst.a, scope.small_sums))
      return "cast_i64" + to + "(i64)rounded_int(" + from + "))";
    if (narrow && before == TapeType::kF32) return "cast_i64" + to + "(i64)__float2int_rz(" + from + "))";
    return "cast_i64" + to + from + ")";
  }
  const char* name = inst.type == TapeType::kF32 ? "cast_f32" : "cast_f64";
  return name + to + (narrow && before == TapeType::kI64 ? "(int)" : "") + from + ")";
}

// This is not only faster. ptxas of CUDA 13.0 once lost one of eight lanes in a chain of 64-bit operations (a
// matmul of bytes, N = 144; `rondo check --kernels` found it).
std::string PartWriter::WrappedText(Tape tape, const TapeInst& inst, const std::string& prefix) const {
  if (inst.op != TapeOp::kCast || inst.type != TapeType::kI64) return "";
  if (!IsIntType(static_cast<DType>(inst.imm.i)) || static_cast<DType>(inst.imm.i) == DType::kBool) return "";
  const TapeInst& made = tape[inst.a];
  const char* sign = made.op == TapeOp::kAdd ? " + " : made.op == TapeOp::kSub ? " - " : " * ";
  if (made.type != TapeType::kI64 ||
      (made.op != TapeOp::kAdd && made.op != TapeOp::kSub && made.op != TapeOp::kMul))
    return "";
  for (uint16_t reg : {made.a, made.b}) {
    if (!FitsInt(context_.part, tape, reg, scope.small_sums)) return "";
  }
  return "cast_i64<" + Text(inst.imm.i) + ">((i64)(int)((u32)" + prefix + Text(made.a) + sign + "(u32)" +
         prefix + Text(made.b) + "))";
}

std::string PartWriter::Expression(Tape tape, const TapeInst& inst, const std::string& prefix) const {
  auto reg = [&](uint16_t r) { return prefix + Text(r); };
  switch (inst.op) {
    case TapeOp::kConst:
      return inst.type == TapeType::kI64 ? IntText(inst.imm.i) : NumberText(inst.imm.f, inst.type);
    case TapeOp::kIndex: return "i" + Text(inst.arg);
    case TapeOp::kAcc: return "acc" + Text(inst.arg);
    case TapeOp::kScalar: return "s" + Text(inst.arg) + scope.row;
    case TapeOp::kKept: return "kept" + Text(inst.arg) + "[" + scope.kept + "]";
    case TapeOp::kSelect: return reg(inst.a) + " != 0 ? " + reg(inst.b) + " : " + reg(inst.c);
    case TapeOp::kIsInf: return "op_isinf(" + reg(inst.a) + ", " + IntText(inst.imm.i) + ")";
    case TapeOp::kCast: {
      const std::string wrapped = WrappedText(tape, inst, prefix);
      return wrapped.empty() ? CastText(tape, inst, reg(inst.a)) : wrapped;
    }
    default: break;
  }
  std::string call =
      std::string(IsQuick(tape, inst) ? "quick_" : "op_") + FunctionName(inst.op) + "(" + reg(inst.a);
  if (Inputs(inst.op) > 1) call += ", " + reg(inst.b);
  if (Inputs(inst.op) > 2) call += ", " + reg(inst.c);
  return call + ")";
}

std::string PartWriter::ValueText(Tape tape, const TapeInst& inst, const std::string& prefix) {
  if (tape.begin() == tabulated_.begin() && tape.size() > 0 && &inst == tape.begin() + table_.result) {
    const std::string code = prefix + Text(table_.code);
    return "table[" + code + " == " + code + " ? __float2int_rz(" + code + ") - (" + Text(table_.low) +
           ") : 256]";
  }
  const auto k = static_cast<size_t>(&inst - tape.begin());
  if (const std::optional<E4M3Quotient> quotient = E4M3QuotientAt(tape, k)) {
    Include("quantised");
    std::string text = "e4m3_quotient(" + prefix + Text(quotient->x);
    for (float each : {quotient->scale, quotient->reciprocal, quotient->most})
      text += ", " + NumberText(each, TapeType::kF32);
    return text + ")";
  }
  if (const std::optional<Quantisation> q = QuantisationAt(tape, k)) {
    Include("quantised");
    std::string text = "quantised(" + prefix + Text(q->x);
    for (float number : {q->scale, q->reciprocal, q->low, q->high})
      text += ", " + NumberText(number, TapeType::kF32);
    return text + ")" + (q->zero == 0 ? "" : " + " + NumberText(q->zero, TapeType::kF32));
  }
  if (const std::optional<QuantisationInRun> q = QuantisationInRunAt(context_.part, tape, k)) {
    Include("quantised");
    const std::string zero = q->zero ? prefix + Text(*q->zero) : NumberText(0, TapeType::kF32);
    return "quantised_in_run(" + prefix + Text(q->x) + ", " + prefix + Text(q->scale) + ", " +
           NumberText(q->low, TapeType::kF32) + ", " + NumberText(q->high, TapeType::kF32) + ", " + zero +
           ")";
  }
  if (const TapeInst* of = QuickPlusOne(tape, inst))
    return "quick_" + std::string(FunctionName(of->op)) + "_plus_1(" + prefix + Text(of->a) + ")";
  IncludeFor(tape, inst);
  return Expression(tape, inst, prefix);
}

uint16_t PartWriter::Unrounded(Tape tape, const TapeInst& store) const {
  const TapeInst& value = tape[store.a];
  const DType dtype = context_.part.operands[store.arg].dtype;
  const bool rounds = value.op == TapeOp::kCast && value.type == TapeType::kF32 &&
                      (dtype == DType::kF16 || dtype == DType::kBF16 || IsFp8(dtype)) &&
                      value.imm.i == static_cast<int64_t>(dtype) && tape[value.a].type == TapeType::kF32;
  return rounds ? value.a : store.a;
}

void PartWriter::WriteTable(Tape tape, const Tabulation& tabulation) {
  const std::string type = tape[tabulation.result].type == TapeType::kI64 ? "int" : "float";
  Line("__shared__ " + type + " table[257];");
  Line("{ auto entry = [](float t" + Text(tabulation.code) + ") -> " + type + " {");
  for (size_t k = 0; k <= tabulation.result; ++k) {
    const TapeInst& inst = tape[k];
    // Values that also depend on other registers are not needed, and cannot be written here.
    if (inst.op != TapeOp::kConst && (k < tabulation.code || !MadeOf(tape, k, tabulation.code))) continue;
    if (k == tabulation.code) continue;
    Line("const " + std::string(TypeText(inst.type)) + " t" + Text(k) + " = " + ValueText(tape, inst, "t") +
         ";");
  }
  Line("return (" + type + ")t" + Text(tabulation.result) + "; };");
  Line("table[threadIdx.x] = entry((float)((int)threadIdx.x + (" + Text(tabulation.low) + ")));");
  Line("if (threadIdx.x == 0) table[256] = entry(bits_float(0x7fffffffu)); }");
  tabulated_ = tape;
  table_ = tabulation;
}

void PartWriter::Reduce(const TapeInst& inst, const std::string& value) {
  Include("reductions");
  const std::string slot = Text(inst.arg);
  if (IsArgReduction(inst.op)) {
    const std::string call = scope.in_order ? "better_later<" + ArgArguments(inst) + ">(" + value
                                            : "better<" + ArgArguments(inst) + ">(" + value + ", position";
    Line("if (" + call + ", v" + slot + ", at" + slot + ")) { v" + slot + " = " + value + "; at" + slot +
         " = position; }");
    return;
  }
  const std::string name = "v" + slot + scope.row;
  Line(name + " = " + Combiner(inst.op) + "::of(" + name + ", " + value + ");");
}

std::string PartWriter::WriteTape(Tape tape, const std::string& prefix) {
  std::string yielded;
  for (size_t k = 0; k < tape.size(); ++k) {
    const TapeInst& inst = tape[k];
    std::string name = prefix + Text(k), a = prefix + Text(inst.a);
    switch (inst.op) {
      case TapeOp::kLoad: Load(inst.arg, name); break;
      case TapeOp::kStore: Store(inst.arg, prefix + Text(Unrounded(tape, inst))); break;
      case TapeOp::kCombineMax:
      case TapeOp::kCombineMin: Line(CombinedShare(inst) + " = " + CombinedText(inst, a) + ";"); break;
      case TapeOp::kYield: yielded = a; break;
      case TapeOp::kSetScalar: Line("s" + Text(inst.arg) + scope.row + " = " + a + ";"); break;
      case TapeOp::kAssertFinite:
        Include("fault");
        Line("assert_finite(" + a + ", faults, step, " + IntText(inst.imm.i) + ");");
        break;
      case TapeOp::kKeep: Line("kept" + Text(inst.arg) + "[" + scope.kept + "] = " + a + ";"); break;
      case TapeOp::kReduceSum:
      case TapeOp::kReduceProd:
      case TapeOp::kReduceMax:
      case TapeOp::kReduceMin:
      case TapeOp::kReduceArgMax:
      case TapeOp::kReduceArgMin: Reduce(inst, a); break;
      default:
        Line("const " + std::string(TypeText(inst.type)) + " " + name + " = " +
             ValueText(tape, inst, prefix) + ";");
    }
  }
  return yielded;
}

bool PartWriter::IsVector(size_t index, size_t along, int lanes) const {
  return scope.vectors.empty() ? FitsLanes(context_, index, along, lanes) : scope.vectors[index];
}

// Threads that read neighbouring indices one by one would read far apart.
void PartWriter::LoadIndices(Tape tape, size_t along, int lanes) {
  const Part& part = context_.part;
  for (const TapeInst& inst : tape) {
    if (inst.op != TapeOp::kLoad && inst.op != TapeOp::kStore) continue;
    for (const Indirect& indirect : part.operands[inst.arg].indirects) {
      const std::string number = Text(indirect.operand), words = Text(lanes);
      if (!scope.lanes[indirect.operand].empty() || !IsVectorIndex(context_, indirect, along, lanes))
        continue;
      Line("u32 places" + number + "[" + words + "];");
      LoadWords(indirect.operand, lanes, "places" + number);
      scope.lanes[indirect.operand] = "places" + number;
    }
  }
}

void PartWriter::LoadLanes(Tape tape, size_t along, int lanes) {
  const std::string count = Text(lanes);
  LoadIndices(tape, along, lanes);
  for (size_t index : Touched(tape, TapeOp::kLoad)) {
    const Operand& operand = context_.part.operands[index];
    std::string words = HeldIn(index).empty() ? scope.lanes[index] : HeldIn(index);
    if (words.empty()) {
      if (!MovesAlong(context_.part, operand, along) || !IsVector(index, along, lanes) || operand.absent != 0)
        continue;
      words = "raw" + Text(index);
      Line("u32 " + words + "[" + Text(lanes * ByteSize(operand.dtype) / 4) + "];");
      LoadWords(index, lanes, words);
    }
    const std::string in = "in" + Text(index);
    Line(LaneType(operand) + " " + in + "[" + count + "]; widen_" + Name(operand.dtype) + "<" + count + ">(" +
         words + ", " + in + ");");
    scope.lanes[index] = in;
  }
}

void PartWriter::StoreLanes(Span<const size_t> stored, int lanes) {
  for (size_t index : stored) {
    const Operand& operand = context_.part.operands[index];
    if (!HeldIn(index).empty()) {
      Line("pack_" + std::string(Name(operand.dtype)) + "<" + Text(lanes) + ">(" + scope.lanes[index] + ", " +
           HeldIn(index) + ");");
      continue;
    }
    Line("{");
    Address(operand);
    Line("if (ok) store_" + std::string(Name(operand.dtype)) + "<" + Text(lanes) + ">(p" +
         Text(operand.param) + ", a, " + scope.lanes[index] + "); }");
  }
}

void PartWriter::WriteEachLane(Tape tape, const std::string& prefix, size_t along, int lanes,
                               const std::string& first, const std::string& last) {
  Include("vectors");
  const std::vector<std::string> outer_lanes = scope.lanes;
  scope.lanes.resize(context_.part.operands.size());
  LoadLanes(tape, along, lanes);
  std::vector<size_t> stored;
  const std::vector<size_t> loaded = Touched(tape, TapeOp::kLoad);
  for (size_t index : Touched(tape, TapeOp::kStore)) {
    if (!IsVector(index, along, lanes)) continue;
    // If the operand was loaded too, the loaded lanes are changed; else its elements are changed one by one.
    const bool changed = std::find(loaded.begin(), loaded.end(), index) != loaded.end();
    if (changed && scope.lanes[index].empty()) continue;
    stored.push_back(index);
    if (changed) continue;
    scope.lanes[index] = "out" + Text(index);
    Line(LaneType(context_.part.operands[index]) + " " + scope.lanes[index] + "[" + Text(lanes) + "];");
  }
  Line("#pragma unroll");
  Line("for (int e = 0; e < " + Text(lanes) + "; ++e) {");
  Line(first);
  const std::string yielded = WriteTape(tape, prefix);
  if (!yielded.empty()) Line("x[e] = (float)" + yielded + ";");
  Line(last + "}");
  StoreLanes(stored, lanes);
  scope.lanes = outer_lanes;
}

void PartWriter::WriteLanes(Tape tape, const std::string& prefix, size_t along, int lanes,
                            const std::string& each) {
  const std::string i = Counter(along);
  Line("const i64 along = " + i + ";");
  WriteEachLane(tape, prefix, along, lanes, "const i64 " + i + " = along + e; (void)" + i + "; " + each, "");
}

void PartWriter::WriteRun(Tape tape, const std::string& prefix, int lanes) {
  const size_t loops = context_.part.loops.size();
  const std::string type = context_.Points(0, loops) <= 0x7fffffff ? "int " : "i64 ";
  std::string counters, lane, carry = "bool carry = true; ";
  for (size_t l = 0; l < loops; ++l) {
    const std::string i = Counter(l), next = "next" + Text(l);
    counters += type + next + " = (" + type + ")" + i + "; ";
    lane += "const i64 " + i + " = " + next + "; (void)" + i + "; ";
  }
  for (size_t l = loops; l-- > 0;) {
    const std::string next = "next" + Text(l);
    carry += next + " += carry; carry = carry && " + next + " == " + IntText(context_.part.loops[l]) + "; " +
             next + " = carry ? 0 : " + next + "; ";
  }
  Line(counters);
  WriteEachLane(tape, prefix, loops - 1, lanes, lane, carry);
}

}  // namespace rondo::cuda
