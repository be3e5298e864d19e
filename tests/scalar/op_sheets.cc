#include "tests/scalar/op_sheets.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "core/scalar.h"

namespace rondo::test {
namespace {

// ---------------------------------------------------------------------------------------- values

template <typename F>
std::vector<F> FloatEdges() {
  using Limits = std::numeric_limits<F>;
  std::vector<F> values;
  const F magnitudes[] = {0,
                          Limits::denorm_min(),
                          Limits::min() / 2,
                          Limits::min(),
                          static_cast<F>(1e-6),
                          static_cast<F>(0.5),
                          static_cast<F>(0.7),
                          1,
                          static_cast<F>(1.5),
                          2,
                          static_cast<F>(2.5),
                          3,
                          4,
                          10,
                          static_cast<F>(100.25),
                          1 / Limits::epsilon() + 1,
                          static_cast<F>(1e30),
                          Limits::max(),
                          Limits::infinity()};
  for (F x : magnitudes) values.insert(values.end(), {x, -x});
  values.push_back(Limits::quiet_NaN());
  return values;
}

// Values at which conversions round to even, overflow, or leave the range of an integer type.
template <typename F>
std::vector<F> ConversionEdges() {
  std::vector<F> values = FloatEdges<F>();
  for (int bits : {7, 8, 15, 16, 24, 31, 32, 53, 63, 64}) {
    const F power = std::ldexp(F(1), bits);
    for (F x :
         {power, std::nextafter(power, F(0)), std::nextafter(power, power * 2), power - F(0.5), power - 1})
      values.insert(values.end(), {x, -x});
  }
  const double narrow[] = {1 + std::ldexp(1, -11),
                           1 + 3 * std::ldexp(1, -11),
                           1 + std::ldexp(1, -8),
                           1 + 3 * std::ldexp(1, -8),
                           std::ldexp(1, -14),
                           std::ldexp(1.5, -24),
                           std::ldexp(1, -24),
                           std::ldexp(1, -25),
                           std::ldexp(1.0001, -25),
                           65504,
                           65519.99,
                           65520,
                           3.3895313892515355e38,
                           3.3961775292304957e38};
  for (double x : narrow) values.insert(values.end(), {static_cast<F>(x), static_cast<F>(-x)});
  return values;
}

std::vector<int64_t> IntegerEdges() {
  std::vector<int64_t> values;
  for (int64_t x = -8; x <= 8; ++x) values.push_back(x);
  for (int bits : {6, 7, 8, 15, 16, 31, 32, 53, 62}) {
    for (int64_t by : {-1, 0, 1}) {
      values.push_back((int64_t{1} << bits) + by);
      values.push_back(-(int64_t{1} << bits) + by);
    }
  }
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  values.insert(values.end(), {kLeast, kLeast + 1, kMost, kMost - 1});
  return values;
}

// Edge values as an array of `dtype`; for 16 bits and fewer, all values.
std::vector<char> EdgesOf(DType dtype) {
  std::vector<char> bytes;
  const auto append = [&](const auto& values) {
    const char* at = reinterpret_cast<const char*>(values.data());
    bytes.assign(at, at + values.size() * sizeof(values[0]));
  };
  const int64_t size = ByteSize(dtype);
  if (dtype == DType::kBool) return {0, 1};
  if (size <= 2) {
    for (uint32_t pattern = 0; pattern < (1u << (8 * size)); ++pattern) {
      const char low = static_cast<char>(pattern), high = static_cast<char>(pattern >> 8);
      bytes.push_back(low);
      if (size == 2) bytes.push_back(high);
    }
    return bytes;
  }
  if (dtype == DType::kF32) return append(ConversionEdges<float>()), bytes;
  if (dtype == DType::kF64) return append(ConversionEdges<double>()), bytes;
  const std::vector<int64_t> values = IntegerEdges();
  bytes.resize(values.size() * static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i)
    scalar::Store(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  return bytes;
}

// ---------------------------------------------------------------------------------------- sheets

constexpr TapeType kTypes[] = {TapeType::kF32, TapeType::kF64, TapeType::kI64};
constexpr TapeOp kOps[] = {
#define RONDO_OP(name, number, text, accuracy) TapeOp::k##name,
    RONDO_TAPE_OPS(RONDO_OP)
#undef RONDO_OP
};

DType WideOf(TapeType type) {
  return type == TapeType::kF32 ? DType::kF32 : type == TapeType::kF64 ? DType::kF64 : DType::kI64;
}
const char* TypeName(TapeType type) { return Name(WideOf(type)); }

template <typename F>
auto WithEdges(TapeType type, F f) {
  if (type == TapeType::kF32) return f(FloatEdges<float>());
  if (type == TapeType::kF64) return f(FloatEdges<double>());
  return f(IntegerEdges());
}

// Fills the inputs with all combinations of `count` values; for three inputs, with every fifth value.
void Combine(TapeType type, size_t count, OpSheet* sheet) {
  WithEdges(type, [&](auto values) {
    using T = typename decltype(values)::value_type;
    if (count == 3) {
      decltype(values) some;
      for (size_t i = 0; i < values.size(); i += 3) some.push_back(values[i]);
      values = some;
    }
    const size_t n = values.size();
    size_t rows = 1;
    for (size_t k = 0; k < count; ++k) rows *= n;
    sheet->rows = static_cast<int64_t>(rows);
    size_t period = 1;
    for (size_t k = 0; k < count; ++k, period *= n) {
      sheet->inputs.push_back(WideOf(type));
      std::vector<char> bytes(rows * sizeof(T));
      for (size_t i = 0; i < rows; ++i)
        std::memcpy(&bytes[i * sizeof(T)], &values[i / period % n], sizeof(T));
      sheet->values.push_back(std::move(bytes));
    }
  });
}

OpColumn ColumnOf(TapeOp op, TapeType operands, int64_t imm = 0) {
  const TapeType result = GivesTruth(ClassOf(op)) ? TapeType::kI64 : operands;
  return {op, result, imm, WideOf(result)};
}

// The sheet of all operations on `count` operands of `type`.
OpSheet SheetOf(TapeType type, size_t count) {
  OpSheet sheet;
  sheet.name = std::to_string(count) + " " + TypeName(type);
  Combine(type, count, &sheet);
  for (TapeOp op : kOps) {
    const OpClass kind = ClassOf(op);
    const bool arithmetic = kind != OpClass::kLeaf && kind != OpClass::kEffect;
    if (!arithmetic || kind == OpClass::kCast || kind == OpClass::kSelect) continue;
    if (static_cast<size_t>(Inputs(kind)) != count || (IsBitwise(kind) && type != TapeType::kI64)) continue;
    const bool infinities = op == TapeOp::kIsInf;
    for (int64_t imm = infinities ? 0 : 3; imm < 4; ++imm)
      sheet.columns.push_back(ColumnOf(op, type, infinities ? imm : 0));
  }
  return sheet;
}

OpSheet SelectSheet(TapeType type) {
  OpSheet sheet;
  sheet.name = std::string("select ") + TypeName(type);
  Combine(type, 2, &sheet);
  const std::vector<int64_t> conditions = {0, 1, -1, 2, std::numeric_limits<int64_t>::min()};
  std::vector<char> bytes(static_cast<size_t>(sheet.rows) * sizeof(int64_t));
  for (int64_t i = 0; i < sheet.rows; ++i)
    scalar::Store(DType::kI64, bytes.data(), i, conditions[static_cast<size_t>(i) % conditions.size()]);
  sheet.inputs.insert(sheet.inputs.begin(), DType::kI64);
  sheet.values.insert(sheet.values.begin(), std::move(bytes));
  for (TapeOp op : kOps) {
    if (ClassOf(op) == OpClass::kSelect) sheet.columns.push_back({op, type, 0, WideOf(type)});
  }
  return sheet;
}

OpSheet CastSheet(DType from) {
  OpSheet sheet;
  sheet.name = std::string("cast ") + Name(from);
  sheet.inputs = {from};
  sheet.values = {EdgesOf(from)};
  sheet.rows = static_cast<int64_t>(sheet.values[0].size()) / ByteSize(from);
  for (int to = 0; to < kNumDTypes; ++to) {
    const DType dtype = static_cast<DType>(to);
    sheet.columns.push_back({TapeOp::kCast, NaturalType(dtype), to, dtype});
  }
  return sheet;
}

// ------------------------------------------------------------------------------------ comparison

// Whether `got` may stand for `want`; F: float or double.
template <typename F>
bool Close(Accuracy accuracy, F want, F got) {
  if (want != want) return got != got;
  if (want == got) return std::signbit(want) == std::signbit(got);
  if (accuracy != Accuracy::kFunction || !std::isfinite(want) || !std::isfinite(got)) return false;
  const F relative = sizeof(F) == 4 ? F(4e-6) : F(2e-14), absolute = std::numeric_limits<F>::min();
  // sin and cos in f32 lose digits near their zeros.
  const F near = sizeof(F) == 4 ? F(3e-7) : absolute;
  return std::fabs(want - got) <= std::fabs(want) * relative + (std::fabs(want) < F(1e-30) ? absolute : near);
}

bool CloseInt(TapeOp op, int64_t want, int64_t got) {
  if (want == got) return true;
  if (AccuracyOf(op) != Accuracy::kFunction) return false;
  return std::fabs(static_cast<double>(want) - static_cast<double>(got)) <=
         2e-14 * std::fabs(static_cast<double>(want));
}

template <typename T>
std::string TextOf(T value) {
  char text[64];
  if constexpr (scalar::kIsInt<T>) {
    std::snprintf(text, sizeof(text), "%lld", static_cast<long long>(value));
  } else {
    std::snprintf(text, sizeof(text), "%.17g", static_cast<double>(value));
  }
  return text;
}

std::string ElementText(DType dtype, const char* data, int64_t row) {
  switch (NaturalType(dtype)) {
    case TapeType::kF32: return TextOf(scalar::Load<float>(dtype, data, row));
    case TapeType::kF64: return TextOf(scalar::Load<double>(dtype, data, row));
    default: return TextOf(scalar::Load<int64_t>(dtype, data, row));
  }
}

}  // namespace

void OpSheet::Make(PartMaker* maker) const {
  maker->loops = {rows};
  maker->part.outer = 1;
  TapeMaker tape;
  std::vector<uint16_t> loaded;
  for (DType dtype : inputs) loaded.push_back(tape.Load(maker->Operand(dtype, Mode::kRead, {0}), dtype));
  loaded.resize(3);
  for (const OpColumn& column : columns) {
    const uint16_t out = maker->Operand(column.dtype, Mode::kWrite, {0});
    const uint16_t r = tape.Add(column.op, column.type, 0, loaded[0], loaded[1], loaded[2]);
    tape.list[r].imm.i = column.imm;
    tape.Add(TapeOp::kStore, column.type, out, r);
  }
  maker->part.body = maker->Keep(tape);
}

Memory OpSheet::Fill(const PartMaker& maker) const {
  Memory memory;
  memory.Resize(maker);
  for (size_t k = 0; k < inputs.size(); ++k) memory.params[k] = values[k];
  return memory;
}

TapeInst OpSheet::Instruction(const OpColumn& column) const {
  TapeInst inst;
  inst.op = column.op;
  inst.type = column.type;
  inst.imm.i = column.imm;
  return inst;
}

std::vector<char> OpSheet::Expected(const OpColumn& column) const {
  std::vector<char> bytes(static_cast<size_t>(rows * ByteSize(column.dtype)));
  const TapeInst inst = Instruction(column);
  for (int64_t row = 0; row < rows; ++row) {
    scalar::Value v[3];
    for (size_t k = 0; k < inputs.size(); ++k) v[k] = scalar::LoadValue(inputs[k], values[k].data(), row);
    scalar::StoreValue(column.dtype, bytes.data(), row, scalar::Eval(inst, InputType(0), v[0], v[1], v[2]));
  }
  return bytes;
}

namespace {

// Two roundings or one.
template <typename T>
bool FusedClose(const OpSheet& sheet, int64_t row, T got) {
  T v[3];
  for (size_t k = 0; k < 3; ++k) v[k] = scalar::Load<T>(sheet.inputs[k], sheet.values[k].data(), row);
  return Close(Accuracy::kExact, static_cast<T>(std::fma(v[0], v[1], v[2])), got);
}

bool RowClose(const OpSheet& sheet, const OpColumn& column, const char* want, const char* got, int64_t row) {
  const Accuracy accuracy = AccuracyOf(column.op);
  const auto close = [&](auto zero) {
    using F = decltype(zero);
    const F w = scalar::Load<F>(column.dtype, want, row), g = scalar::Load<F>(column.dtype, got, row);
    if (Close(accuracy, w, g)) return true;
    if constexpr (std::is_floating_point_v<F>) {
      return ClassOf(column.op) == OpClass::kTernary && FusedClose(sheet, row, g);
    }
  };
  switch (NaturalType(column.dtype)) {
    case TapeType::kF32: return close(0.0f);
    case TapeType::kF64: return close(0.0);
    default:
      return CloseInt(column.op, scalar::Load<int64_t>(column.dtype, want, row),
                      scalar::Load<int64_t>(column.dtype, got, row));
  }
}

}  // namespace

std::string OpSheet::Difference(const OpColumn& column, const char* got) const {
  constexpr int kMost = 5;
  const std::vector<char> want = Expected(column);
  std::string text;
  int wrong = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (RowClose(*this, column, want.data(), got, row) || ++wrong > kMost) continue;
    text += std::string("\n  ") + Name(column.op) + " (imm " + std::to_string(column.imm) + ") of " +
            Name(inputs[0]) + " to " + Name(column.dtype) + ":";
    for (size_t k = 0; k < inputs.size(); ++k) text += " " + ElementText(inputs[k], values[k].data(), row);
    text += " gave " + ElementText(column.dtype, got, row) + ", not " +
            ElementText(column.dtype, want.data(), row);
  }
  return wrong == 0 ? "" : std::to_string(wrong) + " rows of \"" + name + "\"" + text;
}

std::vector<OpSheet> EveryOpSheet() {
  std::vector<OpSheet> sheets;
  for (TapeType type : kTypes) {
    for (size_t count : {1, 2, 3}) sheets.push_back(SheetOf(type, count));
    sheets.push_back(SelectSheet(type));
  }
  for (int from = 0; from < kNumDTypes; ++from) sheets.push_back(CastSheet(static_cast<DType>(from)));
  return sheets;
}

}  // namespace rondo::test
