// Running sums: each row sums those elements, of the same sequence, whose position is below the row's number.
// One warp computes all rows of such a triangle, and reads each element once.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduce_ops.h"
#include "compiler/codegen/cuda/reduction/reduction_variants.h"
#include "compiler/codegen/cuda/reduction/row_steps.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"scan"};
constexpr int64_t kLanes = 32;

struct Triangle {
  size_t row = 0;      // the outer loop over a triangle's rows; the last loop is over elements
  uint16_t sum = 0;    // the instruction that sums
  uint16_t value = 0;  // the instruction whose selected values are summed
  bool own = false;    // whether a row includes its own element
};

// Whether a value of the tape is the same in all rows of a triangle.
bool IsOfElement(const Part& part, Tape tape, uint16_t value, size_t row) {
  const TapeInst& inst = tape[value];
  if (inst.op == TapeOp::kLoad) return !MovesAlong(part, part.operands[inst.arg], row);
  if (inst.op == TapeOp::kIndex) return inst.arg != row;
  if (inst.op == TapeOp::kConst) return true;
  if (inst.op == TapeOp::kScalar || inst.op == TapeOp::kKept || inst.op == TapeOp::kAcc) return false;
  const int inputs = Inputs(inst.op);
  return (inputs < 1 || IsOfElement(part, tape, inst.a, row)) &&
         (inputs < 2 || IsOfElement(part, tape, inst.b, row)) &&
         (inputs < 3 || IsOfElement(part, tape, inst.c, row));
}

// The loop whose counter this value of the tape is.
std::optional<size_t> LoopOf(Tape tape, uint16_t value) {
  const TapeInst& inst = tape[value];
  const auto zero = [&](uint16_t k) { return tape[k].op == TapeOp::kConst && tape[k].imm.i == 0; };
  if (inst.op == TapeOp::kIndex) return inst.arg;
  if (inst.op != TapeOp::kAdd || inst.type != TapeType::kI64) return std::nullopt;
  return zero(inst.a) ? LoopOf(tape, inst.b) : zero(inst.b) ? LoopOf(tape, inst.a) : std::nullopt;
}

// The only reduction of the first stage is the sum of select(position < row, value, 0). The other stages work
// on rows.
std::optional<Triangle> TriangleOf(const Part& part) {
  constexpr int64_t kMostElements = 16 * kLanes;
  const size_t last = part.loops.size() - 1;
  if (part.outer == 0 || part.loops.size() != part.outer + 1u || part.kept != 0 || part.stages.empty() ||
      part.stages[0].per_row || part.loops[last] > kMostElements)
    return std::nullopt;
  const auto of_rows = [](const Stage& stage) { return stage.per_row; };
  if (!std::all_of(part.stages.begin() + 1, part.stages.end(), of_rows)) return std::nullopt;
  const Tape tape = part.stages[0].tape;
  std::optional<Triangle> found;
  for (size_t k = 0; k < tape.size(); ++k) {
    const TapeInst& inst = tape[k];
    if (inst.op == TapeOp::kStore || inst.op == TapeOp::kKeep || inst.op == TapeOp::kSetScalar ||
        Combines(inst.op))
      return std::nullopt;
    if (!IsReduction(inst.op)) continue;
    const TapeInst& select = tape[inst.a];
    if (found || inst.op != TapeOp::kReduceSum || select.op != TapeOp::kSelect) return std::nullopt;
    const TapeInst &when = tape[select.a], &otherwise = tape[select.c];
    if ((when.op != TapeOp::kLess && when.op != TapeOp::kLessEqual) || otherwise.op != TapeOp::kConst)
      return std::nullopt;
    const std::optional<size_t> position = LoopOf(tape, when.a), row = LoopOf(tape, when.b);
    const bool zero = otherwise.type == TapeType::kI64 ? otherwise.imm.i == 0 : otherwise.imm.f == 0;
    if (!zero || position != last || !row || *row >= part.outer || part.loops[*row] != part.loops[last] ||
        !IsOfElement(part, tape, select.b, *row))
      return std::nullopt;
    found = Triangle{*row, static_cast<uint16_t>(k), select.b, when.op == TapeOp::kLessEqual};
  }
  return found;
}

// Reads value[], this lane's elements, 32 apart.
void WriteElements(const PartContext& context, const Triangle& triangle, const std::string& type,
                   PartWriter* writer) {
  const Part& part = context.part;
  const size_t last = part.loops.size() - 1;
  std::vector<TapeInst> tape(part.stages[0].tape.begin(), part.stages[0].tape.end());
  const std::string slot = Text(tape[triangle.sum].arg), elements = Text(part.loops[last]);
  tape[triangle.sum].a = triangle.value;
  writer->Line("const i64 " + Counter(triangle.row) + " = 0; (void)" + Counter(triangle.row) + ";");
  writer->Line("#pragma unroll");
  writer->Line("for (int round = 0; round < " + Text((part.loops[last] + kLanes - 1) / kLanes) +
               "; ++round) {");
  writer->Line("const i64 " + Counter(last) + " = round * 32 + lane;");
  writer->Line(type + " v" + slot + " = 0;");
  writer->Line("if (" + Counter(last) + " < " + elements + ") {");
  writer->WriteTape(Tape(tape.data(), tape.size()), "r0_");
  writer->Line("}");
  writer->Line("value[round] = v" + slot + ";");
  writer->Line("}");
}

Result<PartLaunch> WriteRunningSums(const PartContext& context, const KernelConfiguration&,
                                    PartWriter* writer) {
  const Part& part = context.part;
  const Triangle triangle = *TriangleOf(part);
  const RowTypes types = RowTypesOf(part);
  const int64_t elements = part.loops[triangle.row], rounds = (elements + kLanes - 1) / kLanes;
  const int64_t triangles = context.Points(0, part.outer) / elements;
  constexpr int64_t kTogether = kCudaBlock / kLanes;
  const uint16_t slot = part.stages[0].tape[triangle.sum].arg;
  const std::string type = TypeText(types.scalars[slot]);
  std::vector<size_t> others;
  for (size_t l = 0; l < part.outer; ++l)
    if (l != triangle.row) others.push_back(l);
  writer->Line("wait_for_earlier();");
  writer->Line("launch_dependents();");
  writer->Line("const u32 triangle = block * " + Text(kTogether) + "u + threadIdx.x / 32;");
  writer->Line("if (triangle >= " + Text(triangles) + "u) return;");
  writer->Line("const u32 lane = threadIdx.x % 32;");
  writer->DecodeLoops("triangle", others);
  writer->Line(type + " value[" + Text(rounds) + "];");
  writer->Line("{");
  WriteElements(context, triangle, type, writer);
  writer->Line("}");
  writer->Line(type + " before = 0;");
  writer->Line("#pragma unroll");
  writer->Line("for (int round = 0; round < " + Text(rounds) + "; ++round) {");
  writer->Line("const " + type + " sum = sum_of_lanes(value[round], lane);");
  for (size_t k = 0; k < types.scalars.size(); ++k)
    writer->Line(std::string(TypeText(types.scalars[k])) + " s" + Text(k) + " = 0;");
  writer->Line("s" + Text(slot) + " = op_add(before, " +
               (triangle.own ? "sum" : "sum_before_lane(sum, lane)") + ");");
  writer->Line("before = op_add(before, (" + type + ")__shfl_sync(0xffffffffu, sum, 31));");
  writer->Line("const i64 " + Counter(triangle.row) + " = round * 32 + lane;");
  writer->Line("if (" + Counter(triangle.row) + " < " + Text(elements) + ") {");
  for (size_t k = 1; k < part.stages.size(); ++k)
    WriteRowScalars(part, part.stages[k], "r" + Text(k) + "_", writer);
  writer->Line("} }");
  return WithBlocks((triangles + kTogether - 1) / kTogether);
}

bool Suits(const PartContext& context) { return TriangleOf(context.part).has_value(); }

}  // namespace

constinit const KernelVariant kRunningSums = {VariantId::kAny, kHeaders, OneCandidate<VariantId::kAny, Suits>,
                                              WriteRunningSums};

}  // namespace rondo::cuda
