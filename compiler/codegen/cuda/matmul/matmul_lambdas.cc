#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"

#include <algorithm>

namespace rondo::cuda {

namespace {

// The text "start + stride * iK + ..." over some loops.
std::string Sum(int64_t start, const std::vector<int64_t>& strides, const std::vector<size_t>& loops) {
  std::string out = IntText(start);
  for (size_t l : loops) {
    if (strides[l] != 0) out += " + " + IntText(strides[l]) + " * " + Counter(l);
  }
  return out;
}

}  // namespace

const char* WordType(DType dtype) {
  const int64_t size = ByteSize(dtype);
  return size == 1 ? "unsigned char" : size == 2 ? "unsigned short" : size == 4 ? "u32" : "u64";
}

void WritePlace(const std::string& name, const std::vector<size_t>& loops, const FlatOperand& operand,
                bool from_offset, PartWriter* writer) {
  writer->Include("place");
  writer->Line("auto " + name + " = [](int flat) -> At { const u32 x = (u32)flat; (void)x;");
  writer->DecodeLoops("x", loops);
  std::string coordinates;
  for (size_t c = 0; c < 3; ++c) {
    if (c >= operand.coordinates.size()) {
      coordinates += ", 0";
      continue;
    }
    const FlatOperand::Coordinate& coordinate = operand.coordinates[c];
    coordinates += ", (int)(" + Sum(from_offset ? coordinate.offset : 0, coordinate.strides, loops) + ")";
  }
  writer->Line("return {" + Sum(from_offset ? operand.offset : 0, operand.strides, loops) + coordinates +
               "}; };");
}

void WritePresent(const FlatOperand& operand, PartWriter* writer) {
  std::string all = "true";
  for (size_t c = 0; c < operand.coordinates.size(); ++c)
    all += " && (u32)at.c" + Text(c) + " < " + Text(operand.coordinates[c].extent) + "u";
  writer->Line("auto a_present = [](At at) -> bool { return " + all + "; };");
}

void WriteAValue(const PartContext& context, const MatmulProblem& problem, int lanes, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line(std::string("auto a_value = [&](int m, int k") +
               (lanes > 1 ? ", float* x) {" : ") -> float {"));
  writer->DecodeLoops("(u32)batch", problem.batch_loops);
  writer->DecodeLoops("(u32)m", problem.m_loops);
  writer->ZeroLoops(problem.n_loops);
  writer->DecodeLoops("(u32)k", problem.k_loops);
  if (lanes > 1) {
    writer->WriteLanes(part.prologue, "q", problem.k_loops.back(), lanes, "");
    writer->Line("};");
    return;
  }
  std::string value = "a_element";
  if (part.prologue.empty()) {
    writer->Load(part.lhs, value);
  } else {
    value = writer->WriteTape(part.prologue, "q");
  }
  writer->Line("return (float)" + value + "; };");
}

void WriteAVectors(const PartContext& context, const MatmulProblem& problem, DType type, PartWriter* writer) {
  const Part& part = context.part;
  const Operand& lhs = part.operands[part.lhs];
  const int64_t size = ByteSize(type);
  writer->Line("auto a_at = [&](int m, int k) -> uint4 {");
  if (part.prologue.empty() && lhs.dtype == type && IsPlain(lhs) && problem.a_k_major &&
      problem.a_vector == 16 / size) {
    const FlatOperand a = Flatten(part, lhs);
    WritePlace("a_m_place", problem.m_loops, a, true, writer);
    WritePlace("a_k_place", problem.k_loops, a, false, writer);
    writer->Line("return *(const uint4*)(p" + Text(lhs.param) + " + " + Text(size) +
                 " * (a_m_place(m).a + a_k_place(k).a)); };");
    return;
  }
  const std::string bf16 = Truth(type == DType::kBF16);
  std::string words;
  for (int w = 0; w < 4; ++w) {
    words += std::string(w == 0 ? "" : ", ") + "pack_pair<" + bf16 + ">(a_value(m, k + " + Text(2 * w) +
             "), a_value(m, k + " + Text(2 * w + 1) + "))";
  }
  writer->Line("return make_uint4(" + words + "); };");
}

void WriteBValue(const PartContext& context, const MatmulProblem& problem, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("auto b_value = [&](int which, int n, int k) -> float {");
  writer->DecodeLoops("(u32)batch", problem.batch_loops);
  writer->ZeroLoops(problem.m_loops);
  writer->DecodeLoops("(u32)n", problem.n_loops);
  writer->DecodeLoops("(u32)k", problem.k_loops);
  const std::vector<uint16_t> matrices = MatricesOf(part, problem);
  for (size_t j = 0; j < matrices.size(); ++j) {
    writer->Line("if (which == " + Text(j) + ") {");
    writer->Load(matrices[j], "value");
    writer->Line("return (float)value; }");
  }
  writer->Line("return 0; };");
}

void WriteBases(const Part& part, const MatmulProblem& problem, const std::string& start,
                PartWriter* writer) {
  std::string bases;
  for (uint16_t index : MatricesOf(part, problem)) {
    const Operand& operand = part.operands[index];
    const int64_t size = ByteSize(operand.dtype);
    bases += (bases.empty() ? "p" : ", p") + Text(operand.param) + " + " +
             (start.empty() ? Text(size * operand.offset)
                            : Text(size) + " * (" + start + " + " + Text(operand.offset) + ")");
  }
  writer->Line("const char* const b[] = {" + bases + "};");
}

int EpilogueLanes(const Part& part, const MatmulProblem& problem) {
  if (problem.n_loops.empty()) return 1;
  const size_t along = problem.n_loops.back();
  for (int lanes : {8, 4, 2}) {
    // Results far apart are no vectors, and threads read four accumulators of a row without bank conflicts.
    if (part.loops[along] % lanes == 0 && (lanes <= 4 || !LiesDown(part, problem))) return lanes;
  }
  return 1;
}

bool LiesDown(const Part& part, const MatmulProblem& problem) {
  const std::vector<size_t> stored = Touched(part.epilogue, TapeOp::kStore);
  if (problem.m_loops.empty() || problem.n_loops.empty() || stored.empty()) return false;
  return std::all_of(stored.begin(), stored.end(), [&](size_t index) {
    const FlatOperand operand = Flatten(part, part.operands[index]);
    return operand.strides[problem.m_loops.back()] == 1 && operand.strides[problem.n_loops.back()] != 1;
  });
}

namespace {

// Whether the epilogue reads the same elements of the operand in every row, and no kernel writes them.
bool IsOfColumns(const Part& part, const MatmulProblem& problem, const Operand& operand) {
  if (operand.mode != Mode::kRead || !operand.guards.empty() || !operand.indirects.empty()) return false;
  return std::none_of(problem.m_loops.begin(), problem.m_loops.end(),
                      [&](size_t l) { return operand.strides[l] != 0; }) &&
         !IsWritten(part, operand.param);
}

// A lambda that loads operands in vectors of `lanes` points into the words of an array; `shared` epilogues
// share each vector.
struct VectorFetch {
  const char* begin;  // of its text
  const char* array;
  bool of_rows;  // it knows the row
  int lanes, most, shared;
};
template <typename F>
int WriteVectorFetch(const PartContext& context, const MatmulProblem& problem, const VectorFetch& fetch,
                     const F& wanted, PartWriter* writer) {
  const Part& part = context.part;
  const size_t along = problem.n_loops.back();
  int words = 0;
  writer->Line(fetch.begin);
  writer->DecodeLoops("(u32)batch", problem.batch_loops);
  if (fetch.of_rows)
    writer->DecodeLoops("(u32)m", problem.m_loops);
  else
    writer->ZeroLoops(problem.m_loops);
  writer->DecodeLoops("(u32)n", problem.n_loops);
  writer->ZeroLoops(problem.k_loops);
  writer->scope.lanes.resize(part.operands.size());
  for (size_t index : Touched(part.epilogue, TapeOp::kLoad)) {
    const Operand& operand = part.operands[index];
    const int own = fetch.lanes * static_cast<int>(ByteSize(operand.dtype)) / 4;
    const bool fits = fetch.lanes > 1 && own % fetch.shared == 0 && wanted(operand) &&
                      MovesAlong(part, operand, along) && FitsLanes(context, index, along, fetch.lanes) &&
                      operand.absent == 0;
    if (!fits || words + own > fetch.most) continue;
    const auto place = [&](int at) { return "(" + std::string(fetch.array) + " + " + Text(at) + ")"; };
    writer->LoadWords(index, fetch.lanes, place(words));
    writer->scope.lanes[index] = place(words / fetch.shared);
    words += own;
  }
  writer->Line("};");
  return words;
}

}  // namespace

int WriteFetch(const PartContext& context, const MatmulProblem& problem, int lanes, int most,
               PartWriter* writer) {
  return WriteVectorFetch(
      context, problem, {"auto fetch = [&](int m, int n, u32* words) {", "words", true, lanes, most, 1},
      [](const Operand&) { return true; }, writer);
}

FetchedWords WriteFetchOfPairs(const PartContext& context, const MatmulProblem& problem, int most,
                               PartWriter* writer) {
  constexpr int kMostOfColumns = 2;
  const auto of_columns = [&](const Operand& operand) { return IsOfColumns(context.part, problem, operand); };
  FetchedWords fetched;
  fetched.columns = WriteVectorFetch(
      context, problem,
      {"auto fetch_columns = [&](int n, u32* columns) {", "columns", false, 2, kMostOfColumns, 1},
      [&](const Operand& operand) { return ByteSize(operand.dtype) >= 2 && of_columns(operand); }, writer);
  fetched.words = WriteVectorFetch(
      context, problem, {"auto fetch = [&](int m, int n, u32* words) {", "words", true, 8, most, 4},
      [&](const Operand& operand) { return Is16Bit(operand.dtype) && !of_columns(operand); }, writer);
  return fetched;
}

void WriteFetchOfPoint(const PartContext& context, const MatmulProblem& problem, PartWriter* writer) {
  const Part& part = context.part;
  std::vector<size_t> fetched, touched = Touched(part.epilogue, TapeOp::kLoad);
  if (problem.adds_up >= 0) touched.push_back(part.rhs[static_cast<size_t>(problem.adds_up)]);
  writer->scope.fetched.assign(part.operands.size(), "");
  for (size_t index : touched) {
    const Operand& operand = part.operands[index];
    if (operand.mode != Mode::kRead || !operand.guards.empty() || !operand.indirects.empty()) continue;
    const std::string name = "fetched" + Text(index);
    writer->Line(std::string(WordType(operand.dtype)) + " " + name + " = 0;");
    writer->scope.fetched[index] = name;
    fetched.push_back(index);
  }
  writer->Line("auto fetch = [&](int m, int n) { (void)m; (void)n;");
  if (!fetched.empty()) {
    writer->DecodeLoops("(u32)batch", problem.batch_loops);
    writer->DecodeLoops("(u32)m", problem.m_loops);
    writer->DecodeLoops("(u32)n", problem.n_loops);
    writer->ZeroLoops(problem.k_loops);
  }
  for (size_t index : fetched) {
    const std::string type = WordType(part.operands[index].dtype);
    writer->Line(writer->scope.fetched[index] + " = *(const " + type + "*)(" +
                 writer->AddressText(static_cast<uint16_t>(index)) + ");");
  }
  writer->Line("};");
}

void WriteFetchOfColumns(const PartContext& context, const MatmulProblem& problem, int lanes,
                         PartWriter* writer) {
  const Part& part = context.part;
  std::vector<size_t> vectors, elements, touched = Touched(part.epilogue, TapeOp::kLoad);
  if (problem.adds_up >= 0) touched.push_back(part.rhs[static_cast<size_t>(problem.adds_up)]);
  TapeScope& scope = writer->scope;
  scope.fetched.assign(part.operands.size(), "");
  scope.lanes.assign(part.operands.size(), "");
  for (size_t index : touched) {
    const Operand& operand = part.operands[index];
    if (!IsOfColumns(part, problem, operand)) continue;
    const std::string name = "fetched" + Text(index);
    const bool moves = lanes > 1 && MovesAlong(part, operand, problem.n_loops.back());
    if (moves && (!FitsLanes(context, index, problem.n_loops.back(), lanes) || operand.absent != 0)) continue;
    if (moves) {
      writer->Line("u32 " + name + "[" + Text(lanes * ByteSize(operand.dtype) / 4) + "] = {};");
      scope.lanes[index] = name;
      vectors.push_back(index);
    } else {
      writer->Line(std::string(WordType(operand.dtype)) + " " + name + " = 0;");
      scope.fetched[index] = name;
      elements.push_back(index);
    }
  }
  writer->Line("auto fetch = [&](int n) { (void)n;");
  if (!vectors.empty() || !elements.empty()) {
    writer->DecodeLoops("(u32)batch", problem.batch_loops);
    writer->ZeroLoops(problem.m_loops);
    writer->DecodeLoops("(u32)n", problem.n_loops);
    writer->ZeroLoops(problem.k_loops);
  }
  for (size_t index : vectors) writer->LoadWords(index, lanes, scope.lanes[index]);
  for (size_t index : elements) {
    const std::string type = WordType(part.operands[index].dtype);
    writer->Line(scope.fetched[index] + " = *(const " + type + "*)(" +
                 writer->AddressText(static_cast<uint16_t>(index)) + ");");
  }
  writer->Line("};");
}

namespace {

// "const i64 acc0 = ...; ..." for each rhs, of the point itself or of its lane e. The sum of A comes after
// the sums of every B, times its factor.
std::string SumsText(const Part& part, const MatmulProblem& problem, int lanes) {
  const bool whole = part.acc_type == TapeType::kI64;  // else the bits of floats
  std::string text;
  int64_t next = 0;
  for (size_t j = 0; j < part.rhs.size(); ++j) {
    const bool adds_up = static_cast<int>(j) == problem.adds_up;
    const std::string place = Text(adds_up ? problem.b_count : next++);
    const std::string sum = "sums[" + place + (lanes == 1 ? "" : " * " + Text(lanes) + " + e") + "]";
    const std::string value = whole ? "__float_as_int(" + sum + ")" : sum;
    text += (whole ? "const i64 " : "const float ") + Accumulator(j) + " = " +
            (adds_up ? "(int)((u32)" + value + " * (u32)number)" : value) + ";";
  }
  return text;
}

}  // namespace

void WriteEpilogue(const PartContext& context, const MatmulProblem& problem, int lanes,
                   const std::string& more, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("auto epilogue = [&](int m, int n, const float* sums" + more + ") {");
  writer->DecodeLoops("(u32)batch", problem.batch_loops);
  writer->DecodeLoops("(u32)m", problem.m_loops);
  writer->DecodeLoops("(u32)n", problem.n_loops);
  writer->ZeroLoops(problem.k_loops);
  const bool whole = part.acc_type == TapeType::kI64;
  writer->scope.small_sums = whole;
  if (problem.adds_up >= 0) writer->Load(part.rhs[static_cast<size_t>(problem.adds_up)], "number");
  const std::string sums = SumsText(part, problem, lanes);
  if (lanes == 1) {
    writer->Line(sums);
    writer->WriteTape(part.epilogue, "r");
  } else {
    writer->WriteLanes(part.epilogue, "r", problem.n_loops.back(), lanes, sums);
  }
  writer->Line("};");
  writer->scope.small_sums = false;
  writer->scope.fetched.clear();
}

}  // namespace rondo::cuda
