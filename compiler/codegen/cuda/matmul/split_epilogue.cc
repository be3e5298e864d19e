#include "compiler/codegen/cuda/matmul/split_epilogue.h"

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/codegen/cuda/matmul/flat_loops.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"

namespace rondo {

namespace {

// Whether the instruction names an operand.
bool Touches(TapeOp op) { return op == TapeOp::kLoad || op == TapeOp::kStore || Combines(op); }

using cuda::FlatLoops;
using cuda::FlatOperand;
using cuda::Flatten;
using cuda::Is16Bit;
using cuda::IsPlain;
using cuda::MatmulProblem;

// One accumulator: a run of columns of B.
struct Sum {
  size_t part = 0, index = 0;
  int64_t place = 0;  // of B: bytes from its value's start
  int64_t n = 0;
  int64_t first_n = 0;  // in the combined result
};

// A or B, which all parts must share.
struct MatrixOperand {
  int value = -1;
  int64_t place = 0;  // bytes from the value's start
  DType dtype = DType::kF32;
  int64_t batch_stride = 0, line_stride = 0, k_stride = 0;  // elements
  bool operator==(const MatrixOperand&) const = default;
};

class Splitter {
 public:
  Splitter(const LoweredProgram& program, const LoweredOp& op, int value)
      : arena_(*program.arena), op_(op), value_(value) {}

  std::optional<SplitOp> Run() {
    if (op_.kind != LoweredKind::kKernel || op_.kernel.workspace_param != kNoOperand) return std::nullopt;
    for (size_t p = 0; p < op_.kernel.parts.size(); ++p) {
      if (!ReadPart(p)) return std::nullopt;
    }
    if (!PlaceColumns()) return std::nullopt;
    MakeMatmul();
    MakeMap();
    MakeSums();
    split_.batches = batches_;
    split_.m = m_;
    split_.n = n_;
    split_.k = k_;
    return std::move(split_);
  }

 private:
  // How a part's loops count the matmul's indices.
  struct Loops {
    FlatLoops batch, m, n;
  };

  bool ReadPart(size_t index) {
    const Part& part = op_.kernel.parts[index];
    if (part.skeleton != Skeleton::kMatMul || part.packed.type != PackedType::kNone || part.sequential ||
        !part.prologue.empty() || part.acc_type != TapeType::kF32)
      return false;
    const std::vector<cuda::ParamFacts> facts(op_.kernel.num_params);
    const std::optional<MatmulProblem> problem = cuda::MatmulProblemOf(part, facts);
    const Operand& lhs = part.operands[part.lhs];
    if (!problem || !IsPlain(lhs) || !Is16Bit(lhs.dtype)) return false;
    const FlatOperand a = Flatten(part, lhs), first = Flatten(part, part.operands[part.rhs[0]]);
    const Loops loops = {FlatLoops(part, problem->batch_loops, a), FlatLoops(part, problem->m_loops, a),
                         FlatLoops(part, problem->n_loops, first)};
    const FlatLoops k(part, problem->k_loops, a);
    MatrixOperand matrix;
    if (!ReadOperand(lhs, a, loops.batch, loops.m, k, &matrix)) return false;
    if (index > 0 &&
        (matrix != a_ || loops.batch.extent() != batches_ || loops.m.extent() != m_ || k.extent() != k_))
      return false;
    a_ = matrix;
    batches_ = loops.batch.extent();
    m_ = loops.m.extent();
    k_ = k.extent();
    for (size_t j = 0; j < part.rhs.size(); ++j) {
      const Operand& rhs = part.operands[part.rhs[j]];
      if (rhs.dtype != lhs.dtype) return false;
      if (!ReadOperand(rhs, Flatten(part, rhs), loops.batch, loops.n, k, &matrix)) return false;
      Sum sum;
      sum.part = index;
      sum.index = j;
      sum.place = matrix.place;
      sum.n = loops.n.extent();
      if (sums_.empty()) b_ = matrix;
      matrix.place = b_.place;
      if (matrix != b_) return false;
      sums_.push_back(sum);
    }
    loops_.push_back(loops);
    return true;
  }

  bool ReadOperand(const Operand& operand, const FlatOperand& flat, const FlatLoops& batch,
                   const FlatLoops& line, const FlatLoops& k, MatrixOperand* matrix) const {
    const auto b = batch.Stride(flat), l = line.Stride(flat), d = k.Stride(flat);
    if (!IsPlain(operand) || !b || !l || !d || flat.offset < 0) return false;
    const LoweredBinding& binding = op_.params[operand.param];
    matrix->value = binding.value;
    matrix->place = static_cast<int64_t>(binding.byte_offset) + flat.offset * ByteSize(operand.dtype);
    matrix->dtype = operand.dtype;
    matrix->batch_stride = *b;
    matrix->line_stride = *l;
    matrix->k_stride = *d;
    return true;
  }

  // Sorts accumulators by column; their columns must be consecutive.
  bool PlaceColumns() {
    std::stable_sort(sums_.begin(), sums_.end(),
                     [](const Sum& a, const Sum& b) { return a.place < b.place; });
    const int64_t step = b_.line_stride * ByteSize(b_.dtype);
    for (Sum& sum : sums_) {
      if (sum.place != sums_[0].place + n_ * step || (sum.n == 1 && sums_.size() > 1)) return false;
      sum.first_n = n_;
      n_ += sum.n;
    }
    b_.place = sums_[0].place;
    return n_ <= 0x7fffffff;
  }

  Operand MakeOperand(uint16_t param, Mode mode, DType dtype, const std::vector<int64_t>& strides) {
    Operand operand;
    operand.param = param;
    operand.mode = mode;
    operand.dtype = dtype;
    operand.strides = arena_.Copy(strides);
    return operand;
  }

  void MakeMatmul() {
    Part part;
    part.skeleton = Skeleton::kMatMul;
    part.outer = part.m = part.n = part.reduced = 1;
    part.loops = arena_.Copy(std::vector<int64_t>{batches_, m_, n_, k_});
    part.operands = arena_.Copy(std::vector<Operand>{
        MakeOperand(0, Mode::kRead, a_.dtype, {a_.batch_stride, a_.line_stride, 0, a_.k_stride}),
        MakeOperand(1, Mode::kRead, b_.dtype, {b_.batch_stride, 0, b_.line_stride, b_.k_stride}),
        MakeOperand(2, Mode::kWrite, a_.dtype, {m_ * n_, n_, 1, 0})});
    part.lhs = 0;
    part.rhs = arena_.Copy(std::vector<uint16_t>{1});
    TapeInst sum, store;
    sum.op = TapeOp::kAcc;
    store.op = TapeOp::kStore;
    store.arg = 2;
    part.epilogue = arena_.Copy(std::vector<TapeInst>{sum, store});
    LoweredOp& op = split_.matmul;
    op.kernel.num_params = 3;
    op.kernel.parts = arena_.Copy(std::vector<Part>{part});
    op.params = {{a_.value, static_cast<uint64_t>(a_.place), Mode::kRead},
                 {b_.value, static_cast<uint64_t>(b_.place), Mode::kRead},
                 {value_, 0, Mode::kWrite}};
    op.deps = op_.deps;
    op.sources = op_.sources;
    op.annotations = op_.annotations;
  }

  // Makes a map of the parts' epilogues over the sums.
  void MakeMap() {
    LoweredOp& op = split_.map;
    std::vector<Part> parts;
    std::map<uint16_t, uint16_t> param_of;
    for (size_t p = 0; p < op_.kernel.parts.size(); ++p) parts.push_back(MapPart(p, &param_of));
    const auto last = static_cast<uint16_t>(param_of.size());
    op.params.resize(param_of.size());
    for (const auto& [from, to] : param_of) op.params[to] = op_.params[from];
    op.params.push_back({value_, 0, Mode::kRead});
    for (Part& part : parts) {
      for (Operand& operand : Span<Operand>(const_cast<Operand*>(part.operands.data()), part.operands.size()))
        operand.param = operand.param == kNoParam ? last : param_of[operand.param];
    }
    for (const InPlacePair& pair : op_.in_place) {
      const auto write = param_of.find(static_cast<uint16_t>(pair.write)),
                 read = param_of.find(static_cast<uint16_t>(pair.read));
      if (write != param_of.end() && read != param_of.end())
        op.in_place.push_back({write->second, read->second});
    }
    op.kernel.label = op_.kernel.label;
    op.kernel.num_params = static_cast<uint16_t>(op.params.size());
    op.kernel.parts = arena_.Copy(parts);
    op.deps = op_.deps;
    op.sources = op_.sources;
    op.annotations = op_.annotations;
  }

  // Params are still the op's own, except the sums', which is kNoParam.
  Part MapPart(size_t index, std::map<uint16_t, uint16_t>* param_of) {
    const Part& part = op_.kernel.parts[index];
    const size_t loops = static_cast<size_t>(EpilogueLoops(part));
    std::vector<TapeInst> tape(part.epilogue.begin(), part.epilogue.end());
    std::vector<bool> used(part.operands.size(), false);
    for (const TapeInst& inst : tape) {
      if (Touches(inst.op)) used[inst.arg] = true;
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      for (const Indirect& indirect : part.operands[i].indirects) used[indirect.operand] = true;
    }
    std::vector<Operand> operands;
    std::vector<uint16_t> operand_of(part.operands.size());
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      operand_of[i] = static_cast<uint16_t>(operands.size());
      operands.push_back(Shortened(part.operands[i], loops));
      param_of->try_emplace(operands.back().param, static_cast<uint16_t>(param_of->size()));
    }
    for (Operand& operand : operands) {
      std::vector<Indirect> indirects(operand.indirects.begin(), operand.indirects.end());
      for (Indirect& indirect : indirects) indirect.operand = operand_of[indirect.operand];
      operand.indirects = arena_.Copy(indirects);
    }
    std::vector<uint16_t> sum_of(part.rhs.size());
    for (const Sum& sum : sums_) {
      if (sum.part != index) continue;
      sum_of[sum.index] = static_cast<uint16_t>(operands.size());
      operands.push_back(SumsOf(loops_[index], sum, loops));
    }
    for (TapeInst& inst : tape) {
      if (inst.op == TapeOp::kAcc) {
        inst.op = TapeOp::kLoad;
        inst.arg = sum_of[inst.arg];
      } else if (Touches(inst.op)) {
        inst.arg = operand_of[inst.arg];
      }
    }
    Part map;
    map.skeleton = Skeleton::kMap;
    map.outer = static_cast<uint8_t>(loops);
    map.loops = part.loops.subspan(0, loops);
    map.operands = arena_.Copy(operands);
    map.body = arena_.Copy(tape);
    return map;
  }

  Operand Shortened(Operand operand, size_t loops) {
    operand.strides = operand.strides.subspan(0, loops);
    std::vector<Guard> guards(operand.guards.begin(), operand.guards.end());
    for (Guard& guard : guards) guard.strides = guard.strides.subspan(0, loops);
    operand.guards = arena_.Copy(guards);
    return operand;
  }

  Operand SumsOf(const Loops& at, const Sum& sum, size_t loops) {
    std::vector<int64_t> strides(op_.kernel.parts[sum.part].loops.size(), 0);
    at.batch.AddSteps(m_ * n_, &strides);
    at.m.AddSteps(n_, &strides);
    at.n.AddSteps(1, &strides);
    strides.resize(loops);
    Operand operand = MakeOperand(kNoParam, Mode::kRead, a_.dtype, strides);
    operand.offset = sum.first_n;
    return operand;
  }

  void MakeSums() {
    LoweredValue& value = split_.sums;
    value.name = op_.sources.empty() ? "sums" : "sums of " + op_.sources[0];
    value.dtype = a_.dtype;
    value.shape = Shape({batches_, m_, n_});
    value.bytes = batches_ * m_ * n_ * ByteSize(a_.dtype);
    value.sources = op_.sources;
  }

  Arena& arena_;
  const LoweredOp& op_;
  const int value_;
  MatrixOperand a_, b_;
  int64_t batches_ = 1, m_ = 1, n_ = 0, k_ = 1;
  std::vector<Sum> sums_;
  std::vector<Loops> loops_;
  SplitOp split_;
};

}  // namespace

std::optional<SplitOp> SplitEpilogue(const LoweredProgram& program, const LoweredOp& op, int value) {
  return Splitter(program, op, value).Run();
}

}  // namespace rondo
