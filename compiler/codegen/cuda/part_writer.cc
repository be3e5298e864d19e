// PartWriter's loops and accesses.
#include "compiler/codegen/cuda/part_writer.h"

#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

PartWriter::PartWriter(const PartContext& context) : context_(context) {
  scope.quick = NeedsFewBits(context.part);
}

void PartWriter::Decode(std::string_view from, size_t first, size_t last) {
  if (first == last) return;
  // 32-bit division is several times cheaper than 64-bit.
  bool narrow = context_.Points(first, last) <= 0x7fffffff;
  std::string type = narrow ? "u32" : "u64";
  std::string rest = "t" + Text(first);
  Line(type + " " + rest + " = (" + type + ")(" + std::string(from) + ");");
  for (size_t l = last; l-- > first;) {
    std::string extent = Text(context_.part.loops[l]);
    std::string i = Counter(l);
    if (l == first) {
      Line("const i64 " + i + " = (i64)" + rest + ";");
    } else {
      Line("const i64 " + i + " = (i64)(" + rest + " % " + extent + "u); " + rest + " /= " + extent + "u;");
    }
  }
}

void PartWriter::DecodeLoops(const std::string& from, const std::vector<size_t>& loops) {
  std::string rest = from;
  for (size_t n = loops.size(); n-- > 0;) {
    const std::string i = Counter(loops[n]), extent = Text(context_.part.loops[loops[n]]) + "u";
    if (context_.part.loops[loops[n]] == 1) {
      ZeroLoops(loops[n], loops[n] + 1);
    } else if (n == 0) {
      Line("const i64 " + i + " = (i64)(" + rest + ");");
    } else {
      Line("const i64 " + i + " = (i64)((" + rest + ") % " + extent + ");");
      rest = "(" + rest + ") / " + extent;
    }
  }
}

void PartWriter::CountLoops(const std::string& from, const std::vector<size_t>& loops) {
  Line("{ u32 rest = " + from + ";");
  for (size_t k = loops.size(); k-- > 0;) {
    const std::string i = Counter(loops[k]), extent = Text(context_.part.loops[loops[k]]);
    Line(k == 0 ? i + " = rest;" : i + " = rest % " + extent + "u; rest /= " + extent + "u;");
  }
  Line("}");
}

void PartWriter::ZeroLoops(size_t first, size_t last) {
  for (size_t l = first; l < last; ++l) Line("const i64 " + Counter(l) + " = 0; (void)" + Counter(l) + ";");
}

void PartWriter::ZeroLoops(const std::vector<size_t>& loops) {
  for (size_t l : loops) ZeroLoops(l, l + 1);
}

void PartWriter::DeclareLoops() {
  for (size_t l = 0; l < context_.part.loops.size(); ++l)
    Line("i64 " + Counter(l) + " = 0; (void)" + Counter(l) + ";");
}

void PartWriter::Open(size_t first, size_t last) {
  for (size_t l = first; l < last; ++l) {
    std::string i = Counter(l);
    Line("for (i64 " + i + " = 0; " + i + " < " + IntText(context_.part.loops[l]) + "; ++" + i + ") {");
  }
}

void PartWriter::Address(const Operand& operand) {
  Line("i64 a = " + AffineText(operand.offset, operand.strides) + "; bool ok = true;");
  for (const Guard& guard : operand.guards) {
    Line("{ const i64 c = " + AffineText(guard.offset, guard.strides) + "; if (c < 0 || c >= " +
         IntText(guard.extent) + ") ok = false; a += " + IntText(guard.stride) + " * c; }");
  }
  for (const Indirect& indirect : operand.indirects) {
    const Operand& index = context_.part.operands[indirect.operand];
    Include("elements");
    checks_indices_ = checks_indices_ || indirect.fault;
    const auto held = [&](const std::vector<std::string>& names) {
      return indirect.operand < names.size() ? names[indirect.operand] : std::string();
    };
    const std::string lanes = held(scope.lanes), fetched = held(scope.fetched);
    const std::string place = fetched.empty()
                                  ? "p" + Text(index.param) + ", " + AffineText(index.offset, index.strides)
                                  : "(const char*)&" + fetched + ", 0";
    Line("{ i64 v = " +
         (lanes.empty() ? "ld_" + std::string(Name(index.dtype)) + "(" + place + ")"
                        : "(int)" + lanes + "[e]") +
         ";");
    if (indirect.wrap) Line("if (v < 0) v += " + IntText(indirect.extent) + ";");
    std::string record = indirect.fault ? " outside.take(v, " + IntText(indirect.extent) + ");" : "";
    Line("if (v < 0 || v >= " + IntText(indirect.extent) + ") { ok = false;" + record + " }");
    Line("a += " + IntText(indirect.stride) + " * v; }");
  }
}

const std::string& PartWriter::HeldIn(size_t operand) const {
  static const std::string kNone;
  return operand < scope.held.size() ? scope.held[operand] : kNone;
}

void PartWriter::Load(size_t index, const std::string& name) {
  const Operand& operand = context_.part.operands[index];
  TapeType type = NaturalType(operand.dtype);
  if (index < scope.lanes.size() && !scope.lanes[index].empty()) {
    Line("const " + std::string(TypeText(type)) + " " + name + " = " + scope.lanes[index] + "[e];");
    return;
  }
  Include("elements");
  std::string load = "ld_" + std::string(Name(operand.dtype)) + "(p" + Text(operand.param) + ", ";
  if (!HeldIn(index).empty()) {
    Line("const " + std::string(TypeText(type)) + " " + name + " = ld_" + std::string(Name(operand.dtype)) +
         "((const char*)" + HeldIn(index) + ", 0);");
    return;
  }
  if (index < scope.fetched.size() && !scope.fetched[index].empty()) {
    Line("const " + std::string(TypeText(type)) + " " + name + " = ld_" + std::string(Name(operand.dtype)) +
         "((const char*)&" + scope.fetched[index] + ", 0);");
    return;
  }
  if (operand.guards.empty() && operand.indirects.empty()) {
    Line("const " + std::string(TypeText(type)) + " " + name + " = " + load +
         AffineText(operand.offset, operand.strides) + ");");
    return;
  }
  std::string absent = type == TapeType::kI64 ? IntText(static_cast<int64_t>(operand.absent))
                                              : NumberText(operand.absent, type);
  Line(std::string(TypeText(type)) + " " + name + " = " + absent + ";");
  Line("{");
  Address(operand);
  Line("if (ok) " + name + " = " + load + "a); }");
}

void PartWriter::Store(size_t index, const std::string& value) {
  const Operand& operand = context_.part.operands[index];
  if (index < scope.lanes.size() && !scope.lanes[index].empty()) {
    const bool whole = NaturalType(operand.dtype) == TapeType::kI64;
    const bool truth = operand.dtype == DType::kBool;
    Line(scope.lanes[index] + "[e] = " + (truth ? value + " != 0" : (whole ? "(int)" : "") + value) + ";");
    return;
  }
  Include("elements");
  if (!HeldIn(index).empty()) {
    Line("st_" + std::string(Name(operand.dtype)) + "((char*)" + HeldIn(index) + ", 0, " + value + ");");
    return;
  }
  Line("{");
  Address(operand);
  Line("if (ok) st_" + std::string(Name(operand.dtype)) + "(p" + Text(operand.param) + ", a, " + value +
       "); }");
}

std::string PartWriter::AddressText(uint16_t index) const {
  const Operand& operand = context_.part.operands[index];
  return "p" + Text(operand.param) + " + " + Text(ByteSize(operand.dtype)) + " * (" +
         AffineText(operand.offset, operand.strides) + ")";
}

void PartWriter::LoadWords(size_t index, int lanes, const std::string& name) {
  const Operand& operand = context_.part.operands[index];
  const int64_t size = ByteSize(operand.dtype);
  Include("vectors");
  Line("{");
  Address(operand);
  Line("if (ok) load_words<" + Text(lanes * size / 4) + ">(p" + Text(operand.param) + " + a * " + Text(size) +
       ", " + name + ");");
  Line("else fill_words<" + Text(lanes * size / 4) + ">(" + name + "); }");
}

}  // namespace rondo::cuda
