// What all skeletons share: loops, accesses, tapes.
#include "compiler/codegen/cuda/part_text.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo::cuda {

const char* TypeText(TapeType type) {
  return type == TapeType::kF32 ? "float" : type == TapeType::kF64 ? "double" : "i64";
}

std::string Number(double value, TapeType type) {
  char text[64];
  if (type == TapeType::kF32) {
    float f = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &f, sizeof(bits));
    std::snprintf(text, sizeof(text), "bits_float(0x%08xu)", bits);
  } else {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    std::snprintf(text, sizeof(text), "__longlong_as_double((i64)0x%016" PRIx64 "ull)", bits);
  }
  return text;
}

std::string IntText(int64_t value) {
  char text[40];
  // The least number has no literal of its own.
  if (value == INT64_MIN) return "((i64)0x8000000000000000ull)";
  std::snprintf(text, sizeof(text), value < 0 ? "(%" PRId64 "ll)" : "%" PRId64 "ll", value);
  return text;
}

namespace {

std::string Int(int64_t value) { return IntText(value); }

// "offset + stride * iK + ..."
std::string Affine(int64_t offset, Span<const int64_t> strides) {
  std::string out = Int(offset);
  for (size_t l = 0; l < strides.size(); ++l) {
    if (strides[l] == 0) continue;
    out += " + " + Int(strides[l]) + " * i" + std::to_string(l);
  }
  return out;
}

const char* FunctionName(TapeOp op) {
  switch (op) {
    case TapeOp::kNeg: return "neg";
    case TapeOp::kAbs: return "abs";
    case TapeOp::kSign: return "sign";
    case TapeOp::kFloor: return "floor";
    case TapeOp::kCeil: return "ceil";
    case TapeOp::kRound: return "round";
    case TapeOp::kTrunc: return "trunc";
    case TapeOp::kSqrt: return "sqrt";
    case TapeOp::kReciprocal: return "reciprocal";
    case TapeOp::kExp: return "exp";
    case TapeOp::kLog: return "log";
    case TapeOp::kSin: return "sin";
    case TapeOp::kCos: return "cos";
    case TapeOp::kTan: return "tan";
    case TapeOp::kAsin: return "asin";
    case TapeOp::kAcos: return "acos";
    case TapeOp::kAtan: return "atan";
    case TapeOp::kSinh: return "sinh";
    case TapeOp::kCosh: return "cosh";
    case TapeOp::kTanh: return "tanh";
    case TapeOp::kAsinh: return "asinh";
    case TapeOp::kAcosh: return "acosh";
    case TapeOp::kAtanh: return "atanh";
    case TapeOp::kErf: return "erf";
    case TapeOp::kSigmoid: return "sigmoid";
    case TapeOp::kNot: return "not";
    case TapeOp::kBitNot: return "bitnot";
    case TapeOp::kIsNan: return "isnan";
    case TapeOp::kRsqrt: return "rsqrt";
    case TapeOp::kLog1p: return "log1p";
    case TapeOp::kExpm1: return "expm1";
    case TapeOp::kAdd: return "add";
    case TapeOp::kSub: return "sub";
    case TapeOp::kMul: return "mul";
    case TapeOp::kDiv: return "div";
    case TapeOp::kPow: return "pow";
    case TapeOp::kMin: return "min";
    case TapeOp::kMax: return "max";
    case TapeOp::kMod: return "mod";
    case TapeOp::kFmod: return "fmod";
    case TapeOp::kBitAnd: return "bitand";
    case TapeOp::kBitOr: return "bitor";
    case TapeOp::kBitXor: return "bitxor";
    case TapeOp::kShl: return "shl";
    case TapeOp::kShr: return "shr";
    case TapeOp::kAtan2: return "atan2";
    case TapeOp::kLess: return "less";
    case TapeOp::kLessEqual: return "lessequal";
    case TapeOp::kEqual: return "equal";
    case TapeOp::kFma: return "fma";
    default: return nullptr;
  }
}

}  // namespace

std::string PartText::AffineText(const Operand& operand) { return Affine(operand.offset, operand.strides); }

Status PartText::Write() {
  headers_.insert("dependent_launch");
  // Nothing that an earlier kernel may touch is read or written before it is complete. Other templates read
  // what stays constant first, and wait themselves.
  const bool waits_itself = part_.skeleton == Skeleton::kReduction ||
                            part_.skeleton == Skeleton::kContraction ||
                            part_.skeleton == Skeleton::kConvolution;
  if (!waits_itself) Line("wait_for_earlier();");
  // A kernel that begins early takes room on the multiprocessors, so that its blocks lie unevenly: where this
  // one fills the device, it lets the next one begin late.
  const bool begins_next_itself =
      part_.skeleton == Skeleton::kReduction || part_.skeleton == Skeleton::kAttention;
  if (!begins_next_itself) Line("launch_dependents();");
  switch (part_.skeleton) {
    case Skeleton::kMap: return Map();
    case Skeleton::kReduction: return Reduction();
    case Skeleton::kContraction: return Contraction();
    case Skeleton::kConvolution: return Convolution();
    case Skeleton::kAttention: return Attention();
  }
  return Status::Error(Code::kUnsupported, "skeleton %d is not known", static_cast<int>(part_.skeleton));
}

int64_t PartText::Points(size_t first, size_t last) const {
  int64_t n = 1;
  for (size_t l = first; l < last; ++l) n *= part_.loops[l];
  return n;
}

Status PartText::SetBlocks(int64_t blocks) {
  constexpr int64_t kMost = 0x7fffffff;
  if (blocks > kMost) {
    return Status::Error(Code::kUnsupported, "a part needs %" PRId64 " blocks; the limit is %" PRId64, blocks,
                         kMost);
  }
  launch_.blocks = static_cast<uint32_t>(blocks);
  return Status::Ok();
}

void PartText::Decode(const std::string& from, size_t first, size_t last) {
  if (first == last) return;
  // 32-bit division is several times cheaper than 64-bit.
  bool narrow = Points(first, last) <= 0x7fffffff;
  std::string type = narrow ? "u32" : "u64";
  std::string rest = "t" + std::to_string(first);
  Line(type + " " + rest + " = (" + type + ")(" + from + ");");
  for (size_t l = last; l-- > first;) {
    std::string extent = std::to_string(part_.loops[l]);
    std::string i = "i" + std::to_string(l);
    if (l == first) {
      Line("const i64 " + i + " = (i64)" + rest + ";");
    } else {
      Line("const i64 " + i + " = (i64)(" + rest + " % " + extent + "u); " + rest + " /= " + extent + "u;");
    }
  }
}

void PartText::Open(size_t first, size_t last) {
  for (size_t l = first; l < last; ++l) {
    std::string i = "i" + std::to_string(l);
    Line("for (i64 " + i + " = 0; " + i + " < " + Int(part_.loops[l]) + "; ++" + i + ") {");
  }
}

void PartText::Close(size_t loops) {
  for (size_t l = 0; l < loops; ++l) Line("}");
}

void PartText::Address(const Operand& operand) {
  Line("i64 a = " + Affine(operand.offset, operand.strides) + "; bool ok = true;");
  for (const Guard& guard : operand.guards) {
    Line("{ const i64 c = " + Affine(guard.offset, guard.strides) +
         "; if (c < 0 || c >= " + Int(guard.extent) + ") ok = false; a += " + Int(guard.stride) + " * c; }");
  }
  for (const Indirect& indirect : operand.indirects) {
    headers_.insert("elements");
    if (indirect.fault) headers_.insert("fault");
    const Operand& index = part_.operands[indirect.operand];
    Line("{ i64 v = ld_" + std::string(Name(index.dtype)) + "(p" + std::to_string(index.param) + ", " +
         Affine(index.offset, index.strides) + ");");
    if (indirect.wrap) Line("if (v < 0) v += " + Int(indirect.extent) + ";");
    std::string record = indirect.fault ? " fault(faults, step, v, " + Int(indirect.extent) + ");" : "";
    Line("if (v < 0 || v >= " + Int(indirect.extent) + ") { ok = false;" + record + " }");
    Line("a += " + Int(indirect.stride) + " * v; }");
  }
}

void PartText::Load(size_t index, const std::string& name) {
  const Operand& operand = part_.operands[index];
  TapeType type = NaturalType(operand.dtype);
  if (index < lanes_.size() && !lanes_[index].empty()) {
    Line("const float " + name + " = " + lanes_[index] + "[e];");
    return;
  }
  headers_.insert("elements");
  std::string load =
      "ld_" + std::string(rondo::Name(operand.dtype)) + "(p" + std::to_string(operand.param) + ", ";
  if (operand.guards.empty() && operand.indirects.empty()) {
    Line("const " + std::string(TypeText(type)) + " " + name + " = " + load +
         Affine(operand.offset, operand.strides) + ");");
    return;
  }
  std::string absent =
      type == TapeType::kI64 ? Int(static_cast<int64_t>(operand.absent)) : Number(operand.absent, type);
  Line(std::string(TypeText(type)) + " " + name + " = " + absent + ";");
  Line("{");
  Address(operand);
  Line("if (ok) " + name + " = " + load + "a); }");
}

void PartText::Store(size_t index, const std::string& value) {
  const Operand& operand = part_.operands[index];
  if (index < lanes_.size() && !lanes_[index].empty()) {
    Line(lanes_[index] + "[e] = " + value + ";");
    return;
  }
  headers_.insert("elements");
  Line("{");
  Address(operand);
  Line("if (ok) st_" + std::string(rondo::Name(operand.dtype)) + "(p" + std::to_string(operand.param) +
       ", a, " + value + "); }");
}

bool PartText::IsQuick(const TapeInst& inst) const {
  return quick_ && inst.type == TapeType::kF32 &&
         (inst.op == TapeOp::kErf || inst.op == TapeOp::kSigmoid || inst.op == TapeOp::kExp);
}

// The device header of the function that an instruction calls; null: it calls none.
const char* PartText::HeaderOf(const TapeInst& inst) const {
  if (inst.op == TapeOp::kCast) return "casts";
  if (inst.op != TapeOp::kIsInf && FunctionName(inst.op) == nullptr) return nullptr;
  return IsQuick(inst) ? "quick_scalar" : "scalar";
}

std::string PartText::Expression(const TapeInst& inst, const std::string& prefix) const {
  auto reg = [&](uint16_t r) { return prefix + std::to_string(r); };
  switch (inst.op) {
    case TapeOp::kConst: return inst.type == TapeType::kI64 ? Int(inst.imm.i) : Number(inst.imm.f, inst.type);
    case TapeOp::kIndex: return "i" + std::to_string(inst.arg);
    case TapeOp::kAcc: return "acc" + std::to_string(inst.arg);
    case TapeOp::kScalar: return "s" + std::to_string(inst.arg) + row_index_;
    case TapeOp::kKept: return "kept" + std::to_string(inst.arg) + "[" + kept_index_ + "]";
    case TapeOp::kSelect: return reg(inst.a) + " != 0 ? " + reg(inst.b) + " : " + reg(inst.c);
    case TapeOp::kIsInf: return "op_isinf(" + reg(inst.a) + ", " + Int(inst.imm.i) + ")";
    case TapeOp::kCast: {
      const char* to = inst.type == TapeType::kF32 ? "f32" : inst.type == TapeType::kF64 ? "f64" : "i64";
      return std::string("cast_") + to + "<" + std::to_string(inst.imm.i) + ">(" + reg(inst.a) + ")";
    }
    default: break;
  }
  std::string call =
      std::string(IsQuick(inst) ? "quick_" : "op_") + FunctionName(inst.op) + "(" + reg(inst.a);
  if (inst.op >= TapeOp::kAdd) call += ", " + reg(inst.b);
  if (inst.op == TapeOp::kFma) call += ", " + reg(inst.c);
  return call + ")";
}

// The register whose value `store` stores: rounded to what its operand holds first, it would be the same.
uint16_t PartText::Unrounded(Tape tape, const TapeInst& store) const {
  const TapeInst& value = tape[store.a];
  const DType dtype = part_.operands[store.arg].dtype;
  const bool rounds = value.op == TapeOp::kCast && value.type == TapeType::kF32 &&
                      (dtype == DType::kF16 || dtype == DType::kBF16) &&
                      value.imm.i == static_cast<int64_t>(dtype) && tape[value.a].type == TapeType::kF32;
  return rounds ? value.a : store.a;
}

std::string PartText::WriteTape(Tape tape, const std::string& prefix) {
  std::string yielded;
  for (size_t k = 0; k < tape.size(); ++k) {
    const TapeInst& inst = tape[k];
    std::string name = prefix + std::to_string(k), a = prefix + std::to_string(inst.a);
    switch (inst.op) {
      case TapeOp::kLoad: Load(inst.arg, name); break;
      case TapeOp::kStore: Store(inst.arg, prefix + std::to_string(Unrounded(tape, inst))); break;
      case TapeOp::kYield: yielded = a; break;
      case TapeOp::kSetScalar: Line("s" + std::to_string(inst.arg) + row_index_ + " = " + a + ";"); break;
      case TapeOp::kKeep:
        Line("kept" + std::to_string(inst.arg) + "[" + kept_index_ + "] = " + a + ";");
        break;
      case TapeOp::kReduceSum:
      case TapeOp::kReduceProd:
      case TapeOp::kReduceMax:
      case TapeOp::kReduceMin:
      case TapeOp::kReduceArgMax:
      case TapeOp::kReduceArgMin: Reduce(inst, a); break;
      default:
        if (const char* header = HeaderOf(inst)) headers_.insert(header);
        Line("const " + std::string(TypeText(inst.type)) + " " + name + " = " + Expression(inst, prefix) +
             ";");
    }
  }
  return yielded;
}

// Neighbouring points that one thread of a map computes.
int PartText::MapLanes() const {
  if (part_.loops.empty()) return 1;
  // What is read may lie as it likes; what is written sets the vectors.
  const std::vector<size_t> stored = Touched(part_.body, TapeOp::kStore);
  const size_t along = part_.loops.size() - 1;
  for (size_t index : stored) {
    if (!MovesAlong(part_.operands[index], along)) return 1;
  }
  return LanesFor(stored, along);
}

Status PartText::Map() {
  size_t loops = part_.loops.size();
  int64_t points = Points(0, loops);
  if (std::optional<ScatterShape> shape = ShapeOfScatter()) return Scatter(*shape);
  if (part_.sequential) return SequentialMap();
  const int lanes = MapLanes();
  const int64_t threads = points / lanes;
  Line("const u64 point = (u64)block * 256 + threadIdx.x;");
  Line("if (point >= " + std::to_string(threads) + "ull) return;");
  if (lanes == 1) {
    Decode("point", 0, loops);
    WriteTape(part_.body, "r");
  } else {
    Line("const u64 first = point * " + std::to_string(lanes) + "u;");
    Decode("first", 0, loops);
    WriteLanes(part_.body, "r", loops - 1, lanes, "");
  }
  return SetBlocks((threads + kCudaBlock - 1) / kCudaBlock);
}

}  // namespace rondo::cuda
