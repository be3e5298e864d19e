#include "compiler/codegen/cuda/matmul/row_stages.h"

#include <optional>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"

namespace rondo::cuda {

namespace {

// The row of A as a row reduction over K that stores it; its loops are those of K, as the matmul counts them.
class RowPart {
 public:
  RowPart(const PartContext& context, const MatmulProblem& problem, DType type)
      : strides_(context.part.operands.size() + 1),
        operands_(context.part.operands.begin(), context.part.operands.end()),
        stages_(context.part.stages.begin(), context.part.stages.end()),
        last_(context.part.prologue.begin(), context.part.prologue.end()),
        params_(context.params.begin(), context.params.end()) {
    constexpr uint64_t kAligned = 16;  // of shared memory
    const Part& from = context.part;
    std::vector<int64_t>& own = strides_.back();
    int64_t step = problem.k;
    for (size_t l : problem.k_loops) {
      loops_.push_back(from.loops[l]);
      for (size_t i = 0; i < operands_.size(); ++i) strides_[i].push_back(from.operands[i].strides[l]);
      own.push_back(step /= from.loops[l]);
    }
    Operand row;
    row.param = static_cast<uint16_t>(params_.size());
    row.dtype = type;
    row.mode = Mode::kWrite;
    TapeInst& end = last_.back();  // the yield
    end.op = TapeOp::kStore;
    end.arg = static_cast<uint16_t>(operands_.size());
    operands_.push_back(row);
    params_.push_back({kAligned, false});
    for (size_t i = 0; i < operands_.size(); ++i) operands_[i].strides = strides_[i];
    stages_.push_back({false, last_});
    part_.skeleton = Skeleton::kReduction;
    part_.reduced = static_cast<uint8_t>(loops_.size());
    part_.loops = loops_;
    part_.operands = operands_;
    part_.stages = stages_;
    part_.scalars = from.scalars;
  }
  RowPart(const RowPart&) = delete;  // part() points into it

  const Part& part() const { return part_; }
  Span<const ParamFacts> params() const { return params_; }
  size_t param() const { return params_.size() - 1; }  // where the row goes

 private:
  std::vector<int64_t> loops_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<Operand> operands_;
  std::vector<Stage> stages_;
  std::vector<TapeInst> last_;
  std::vector<ParamFacts> params_;
  Part part_;
};

bool ArePlain(const Part& part) {
  for (const Stage& stage : part.stages) {
    for (size_t index : Touched(stage.tape, TapeOp::kLoad)) {
      if (!IsPlain(part.operands[index])) return false;
    }
    if (!Touched(stage.tape, TapeOp::kIndex).empty()) return false;
  }
  return true;
}

}  // namespace

bool FitsRowStages(const PartContext& context, const MatmulProblem& problem, DType type, int64_t room) {
  if (context.part.stages.empty()) return true;
  if (problem.m != 1 || problem.batches != 1 || !Is16Bit(type) || problem.k * ByteSize(type) > room)
    return false;
  const RowPart row(context, problem, type);
  return ArePlain(row.part()) && ShapeOfRow({row.part(), context.target, row.params()}).has_value();
}

void WriteRowsOfA(const PartContext& context, const MatmulProblem& problem, DType type, int64_t at,
                  PartWriter* writer) {
  if (context.part.stages.empty()) {
    WriteAValue(context, problem, 1, writer);
    if (Is16Bit(type)) WriteAVectors(context, problem, type, writer);
    writer->Line("auto rows = []() {};");
    return;
  }
  const RowPart row(context, problem, type);
  const PartContext own = {row.part(), context.target, row.params()};
  const RowShape shape = *ShapeOfRow(own);
  const std::string to = "p" + Text(row.param());
  PartWriter text(own);
  text.Include("shared_memory");
  text.Line("char* const " + to + " = (char*)shared_memory + " + Text(at) + ";");
  text.Line("const u32 lane = threadIdx.x % " + Text(shape.width) + "u;");
  CacheOperands(own, shape, true, &text);
  text.Line("auto rows = [&]() {");
  CacheOperands(own, shape, false, &text);
  DeclareScalars(RowTypesOf(row.part()), &text);
  int number = 0;
  for (const Stage& stage : row.part().stages)
    WriteRowStage(own, shape, stage, "r" + Text(number++) + "_", &text);
  text.Line("__syncthreads(); };");
  text.Line("auto a_at = [&](int, int k) -> uint4 { return *(const uint4*)(" + to + " + 2 * k); };");
  writer->Append(text);
}

}  // namespace rondo::cuda
