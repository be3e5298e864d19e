#include "compiler/codegen/cuda/join_norms.h"

#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/choose_libraries.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_plan.h"
#include "compiler/ir/graph.h"

namespace rondo {

namespace {

constexpr size_t kMostReaders = 2;  // kernels that compute the row anew
constexpr size_t kMostParams = 64;

// Where an operand's element is at loops 0, in bytes of the value that the parameter is bound to.
uint64_t FirstByte(const LoweredOp& op, const Operand& operand) {
  return op.params[operand.param].byte_offset +
         static_cast<uint64_t>(operand.offset * ByteSize(operand.dtype));
}

// A row reduction that stores one value, element by element, at its end.
struct Norm {
  size_t op = 0;
  const Operand* result = nullptr;  // what it stores to
  std::vector<TapeInst> last;       // its last stage, which yields what was stored
};

// The last stage's tape with a yield, of what the store rounds to, for its store. None if it stores
// otherwise.
std::optional<std::vector<TapeInst>> Yielding(const Part& part, DType type) {
  size_t stores = 0;
  for (const Stage& stage : part.stages) {
    for (const TapeInst& inst : stage.tape) {
      stores += inst.op == TapeOp::kStore;
      if (inst.op == TapeOp::kIndex) return std::nullopt;  // of a loop that the matmul counts otherwise
    }
  }
  const Stage& end = part.stages.back();
  if (stores != 1 || end.per_row || end.tape.back().op != TapeOp::kStore) return std::nullopt;
  std::vector<TapeInst> tape(end.tape.begin(), end.tape.end());
  TapeInst yield = tape.back();
  yield.op = TapeOp::kYield;
  yield.arg = 0;
  TapeInst& cast = tape.back();
  cast.op = TapeOp::kCast;
  cast.type = TapeType::kF32;
  cast.arg = 0;
  cast.imm.i = static_cast<int64_t>(type);
  yield.a = static_cast<uint16_t>(tape.size() - 1);
  tape.push_back(yield);
  return tape;
}

class Joiner {
 public:
  Joiner(LoweredProgram* program, const std::vector<CudaTarget>& targets)
      : program_(*program), targets_(targets), dead_(program->ops.size(), false) {}

  void Run(std::string* text) {
    size_t joined = 0;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const std::optional<Norm> norm = NormAt(i);
      joined += norm && Join(*norm);
    }
    RemoveDead();
    *text = std::to_string(joined) + " norms are computed by the matmuls that read them";
  }

 private:
  std::optional<Norm> NormAt(size_t i) const {
    const LoweredOp& op = program_.ops[i];
    if (op.kind != LoweredKind::kKernel || op.kernel.parts.size() != 1 || op.loop >= 0 ||
        !op.annotations.empty())
      return std::nullopt;
    const Part& part = op.kernel.parts[0];
    if (part.skeleton != Skeleton::kReduction || part.kept != 0) return std::nullopt;
    Norm norm;
    norm.op = i;
    for (const Operand& operand : part.operands) {
      if (!cuda::IsPlain(operand) || operand.mode == Mode::kReadWrite) return std::nullopt;
      if (operand.mode == Mode::kWrite) norm.result = &operand;
    }
    for (const LoweredBinding& param : op.params) {
      if (param.stride != 0) return std::nullopt;
    }
    if (norm.result == nullptr || !cuda::Is16Bit(norm.result->dtype)) return std::nullopt;
    std::optional<std::vector<TapeInst>> last = Yielding(part, norm.result->dtype);
    if (!last || BehindCollective(op)) return std::nullopt;
    norm.last = *std::move(last);
    return norm;
  }

  bool BehindCollective(const LoweredOp& op) const {
    return std::any_of(op.deps.begin(), op.deps.end(), [&](int d) {
      return program_.ops[static_cast<size_t>(d)].kind == LoweredKind::kCollectiveWait;
    });
  }

  // The ops that read the norm's result; none if something else does as well, or waits for the norm.
  std::vector<size_t> ReadersOf(const Norm& norm) const {
    const int value = program_.ops[norm.op].params[norm.result->param].value;
    if (program_.values[static_cast<size_t>(value)].kind != BufferKind::kTemporary) return {};
    std::vector<size_t> readers;
    for (size_t i = norm.op + 1; i < program_.ops.size(); ++i) {
      const LoweredOp& op = program_.ops[i];
      const auto is = [&](const LoweredBinding& param) { return param.value == value; };
      const bool reads = std::any_of(op.params.begin(), op.params.end(), is);
      const bool after =
          std::find(op.deps.begin(), op.deps.end(), static_cast<int>(norm.op)) != op.deps.end();
      if (!dead_[i] && reads != after) return {};
      if (reads) readers.push_back(i);
    }
    return readers.size() <= kMostReaders ? readers : std::vector<size_t>();
  }

  bool Join(const Norm& norm) {
    const std::vector<size_t> readers = ReadersOf(norm);
    std::vector<LoweredOp> joined;
    for (size_t reader : readers) {
      std::optional<LoweredOp> op = Joined(norm, program_.ops[reader]);
      if (!op) return false;
      joined.push_back(*std::move(op));
    }
    for (size_t r = 0; r < readers.size(); ++r) program_.ops[readers[r]] = std::move(joined[r]);
    dead_[norm.op] = !readers.empty();
    return dead_[norm.op];
  }

  // `to` with the norm's stages in each of its parts; none if it reads the norm in another way, or if a
  // target cannot compute that.
  std::optional<LoweredOp> Joined(const Norm& norm, const LoweredOp& to) {
    const LoweredOp& from = program_.ops[norm.op];
    if (to.kind != LoweredKind::kKernel || to.library || to.loop >= 0 || !to.annotations.empty()) return {};
    LoweredOp op = to;
    std::vector<Part> parts;
    for (const Part& part : to.kernel.parts) {
      std::optional<Part> with = WithStages(norm, part, &op);
      if (!with) return std::nullopt;
      parts.push_back(*with);
    }
    const int value = from.params[norm.result->param].value;
    const auto left = [&](const LoweredBinding& param) { return param.value == value; };
    if (op.params.size() > kMostParams || std::any_of(op.params.begin(), op.params.end(), left)) return {};
    op.kernel.parts = program_.arena->Copy(parts);
    op.kernel.num_params = static_cast<uint16_t>(op.params.size());
    for (const CudaTarget& target : targets_) {
      for (const cuda::PartPlan& plan : cuda::PlanParts(op.kernel, target, FactsOf(program_, op))) {
        if (plan.candidates.empty()) return std::nullopt;
      }
    }
    // Blocks that compute the row read it while others write.
    std::erase_if(op.in_place, [&](const InPlacePair& pair) {
      return std::any_of(from.params.begin(), from.params.end(), [&](const LoweredBinding& param) {
        return param.value == op.params[static_cast<size_t>(pair.read)].value;
      });
    });
    std::erase(op.deps, static_cast<int>(norm.op));
    op.deps.insert(op.deps.end(), from.deps.begin(), from.deps.end());
    std::sort(op.deps.begin(), op.deps.end());
    op.deps.erase(std::unique(op.deps.begin(), op.deps.end()), op.deps.end());
    ir::MergeSources(&op.sources, from.sources);
    return op;
  }

  // The matmul's part, whose left side is the norm's result. Its parameter for that is the norm's for what
  // moves along the row; the norm's others are appended to `op`'s.
  std::optional<Part> WithStages(const Norm& norm, const Part& part, LoweredOp* op) {
    const LoweredOp& from = program_.ops[norm.op];
    const Part& row = from.kernel.parts[0];
    if (part.skeleton != Skeleton::kContraction || !part.prologue.empty() || part.acc_type != TapeType::kF32)
      return std::nullopt;
    const std::optional<std::vector<int>> loops = LoopsOf(norm, part, *op);
    if (!loops) return std::nullopt;
    const uint16_t left = part.operands[part.lhs].param;
    std::vector<Operand> operands(part.operands.begin(), part.operands.end());
    std::vector<uint16_t> number(row.operands.size(), kNoOperand);  // in the matmul's part
    bool first = true;
    for (size_t i = 0; i < row.operands.size(); ++i) {
      Operand operand = row.operands[i];
      if (operand.mode != Mode::kRead) continue;
      std::vector<int64_t> strides;
      for (int loop : *loops) strides.push_back(loop < 0 ? 0 : operand.strides[static_cast<size_t>(loop)]);
      operand.strides = program_.arena->Copy(strides);
      const LoweredBinding& binding = from.params[operand.param];
      number[i] = first ? part.lhs : static_cast<uint16_t>(operands.size());
      operand.param = first ? left : static_cast<uint16_t>(op->params.size());
      if (first) {
        op->params[left] = binding;
        operands[part.lhs] = operand;
      } else {
        op->params.push_back(binding);
        operands.push_back(operand);
      }
      first = false;
    }
    if (first) return std::nullopt;
    const auto renumbered = [&](Tape tape) {
      std::vector<TapeInst> insts(tape.begin(), tape.end());
      for (TapeInst& inst : insts) {
        if (inst.op == TapeOp::kLoad) inst.arg = number[inst.arg];
      }
      return Tape(program_.arena->Copy(insts));
    };
    std::vector<Stage> stages;
    for (const Stage& stage : row.stages) {
      if (&stage != row.stages.end() - 1) stages.push_back({stage.per_row, renumbered(stage.tape)});
    }
    Part with = part;
    with.operands = program_.arena->Copy(operands);
    with.stages = program_.arena->Copy(stages);
    with.scalars = row.scalars;
    with.prologue = renumbered(norm.last);
    return with;
  }

  // Of each loop of the matmul's part, the norm's that moves as it does through what the norm has stored; -1
  // if it does not move there. None if the two go through it in other ways.
  std::optional<std::vector<int>> LoopsOf(const Norm& norm, const Part& part, const LoweredOp& op) const {
    const LoweredOp& from = program_.ops[norm.op];
    const Part& row = from.kernel.parts[0];
    const Operand &read = part.operands[part.lhs], &result = *norm.result;
    const auto shares = [&](const Operand& operand) { return operand.param == read.param; };
    if (!cuda::IsPlain(read) || read.dtype != result.dtype || op.params[read.param].stride != 0 ||
        op.params[read.param].value != from.params[result.param].value ||
        FirstByte(op, read) != FirstByte(from, result) ||
        std::count_if(part.operands.begin(), part.operands.end(), shares) != 1)
      return std::nullopt;
    std::vector<bool> taken(row.loops.size(), false);
    std::vector<int> loops(part.loops.size(), -1);
    const size_t first_k = static_cast<size_t>(EpilogueLoops(part));
    for (size_t l = 0; l < part.loops.size(); ++l) {
      if (part.loops[l] == 1 || (l < first_k && read.strides[l] == 0)) continue;
      for (size_t r = 0; r < row.loops.size() && loops[l] < 0; ++r) {
        const bool along = (r >= row.outer) == (l >= first_k);
        if (taken[r] || !along || row.loops[r] != part.loops[l] || result.strides[r] != read.strides[l])
          continue;
        loops[l] = static_cast<int>(r);
        taken[r] = true;
      }
      if (loops[l] < 0) return std::nullopt;
    }
    for (size_t r = 0; r < row.loops.size(); ++r) {
      if (!taken[r] && row.loops[r] > 1) return std::nullopt;
    }
    return loops;
  }

  void RemoveDead() {
    std::vector<int> place(program_.ops.size(), -1);
    std::vector<LoweredOp> left;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (dead_[i]) continue;
      place[i] = static_cast<int>(left.size());
      for (int& d : program_.ops[i].deps) d = place[static_cast<size_t>(d)];
      left.push_back(std::move(program_.ops[i]));
    }
    program_.ops = std::move(left);
  }

  LoweredProgram& program_;
  const std::vector<CudaTarget>& targets_;
  std::vector<bool> dead_;
};

}  // namespace

void JoinNorms(LoweredProgram* program, const std::vector<CudaTarget>& targets, std::string* text) {
  Joiner(program, targets).Run(text);
}

}  // namespace rondo
