#include "compiler/codegen/cuda/matmul/matmul_problem.h"

#include <algorithm>

#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

bool Same(const Operand& a, const Operand& b) {
  return a.dtype == b.dtype && std::equal(a.strides.begin(), a.strides.end(), b.strides.begin());
}

int64_t Extent(const Part& part, const std::vector<size_t>& loops) {
  int64_t n = 1;
  for (size_t l : loops) n *= part.loops[l];
  return n;
}

// Moves the loop along which `operand` is contiguous to the end.
void PutContiguousLast(const Part& part, const FlatOperand& operand, std::vector<size_t>* loops) {
  auto last = std::find_if(loops->begin(), loops->end(),
                           [&](size_t l) { return operand.strides[l] == 1 && part.loops[l] > 1; });
  if (last != loops->end()) std::rotate(last, last + 1, loops->end());
}

class Reader {
 public:
  Reader(const Part& part, Span<const ParamFacts> params) : part_(part), params_(params) {}

  std::optional<MatmulProblem> Run() {
    if (part_.rhs.empty() || part_.combine != Combine::kProduct) return std::nullopt;
    problem_.adds_up = RhsThatAddsUp(part_);
    matrices_ = MatricesOf(part_, problem_);
    const Operand& rhs = part_.operands[matrices_[0]];
    if (!rhs.indirects.empty() || !rhs.guards.empty()) return std::nullopt;
    for (uint16_t other : matrices_) {
      if (!Same(rhs, part_.operands[other])) return std::nullopt;
    }
    b_ = Flatten(part_, rhs);
    Split();
    if (packed()) {
      SortByB(&problem_.n_loops);
      SortByB(&problem_.k_loops);
    } else {
      PutContiguousLast(part_, b_, &problem_.n_loops);
      PutContiguousLast(part_, b_, &problem_.k_loops);
    }
    problem_.b_count = static_cast<int64_t>(matrices_.size());
    ReadA();
    ReadB();
    problem_.batches = Extent(part_, problem_.batch_loops);
    problem_.m = Extent(part_, problem_.m_loops);
    problem_.n = Extent(part_, problem_.n_loops);
    problem_.k = Extent(part_, problem_.k_loops);
    constexpr int64_t kMost = 0x7fffffff;
    bool fits = problem_.m <= kMost && problem_.n <= kMost && problem_.k <= kMost;
    return fits ? std::optional<MatmulProblem>(problem_) : std::nullopt;
  }

 private:
  // Gives each loop its role, by whether it moves A and B.
  void Split() {
    size_t first = static_cast<size_t>(EpilogueLoops(part_));
    for (size_t l = 0; l < first; ++l) {
      const bool b = b_.strides[l] != 0, a = AMoves(l);
      if (a && b) {
        problem_.batch_loops.push_back(l);
      } else if (b) {
        problem_.n_loops.push_back(l);
      } else {
        problem_.m_loops.push_back(l);
      }
    }
    for (size_t l = first; l < part_.loops.size(); ++l) problem_.k_loops.push_back(l);
  }

  bool packed() const { return part_.packed.type != PackedType::kNone; }

  // Packed weights fix one order of the loops of N and K.
  void SortByB(std::vector<size_t>* loops) const {
    std::stable_sort(loops->begin(), loops->end(),
                     [&](size_t x, size_t y) { return b_.strides[x] > b_.strides[y]; });
  }

  bool AMoves(size_t loop) const {
    if (part_.prologue.empty()) return MovesAlong(part_, part_.operands[part_.lhs], loop);
    for (const TapeInst& inst : part_.prologue) {
      if (inst.op == TapeOp::kLoad && MovesAlong(part_, part_.operands[inst.arg], loop)) return true;
      if (inst.op == TapeOp::kIndex && inst.arg == loop) return true;
    }
    return false;
  }

  void ReadA() {
    const Operand& lhs = part_.operands[part_.lhs];
    if (!part_.prologue.empty() || !lhs.indirects.empty()) return;
    FlatOperand flat = Flatten(part_, lhs);
    // K is counted in the order of A's memory if A is contiguous along K.
    if (!packed()) PutContiguousLast(part_, flat, &problem_.k_loops);
    PutContiguousLast(part_, flat, &problem_.m_loops);
    const ParamFacts& facts = params_[lhs.param];
    const int along_k = VectorAlong(part_, lhs, problem_.k_loops.back(), facts);
    const int along_m =
        problem_.m_loops.empty() ? 1 : VectorAlong(part_, lhs, problem_.m_loops.back(), facts);
    problem_.a_k_major = along_k >= along_m;
    problem_.a_vector = std::max(along_k, along_m);
  }

  void ReadB() {
    int along_k = 16, along_n = 16;
    for (uint16_t index : matrices_) {
      const Operand& rhs = part_.operands[index];
      const ParamFacts& facts = params_[rhs.param];
      along_k = std::min(along_k, VectorAlong(part_, rhs, problem_.k_loops.back(), facts));
      along_n = std::min(
          along_n, problem_.n_loops.empty() ? 1 : VectorAlong(part_, rhs, problem_.n_loops.back(), facts));
    }
    problem_.b_k_major = along_k >= along_n;
    problem_.b_vector = std::max(along_k, along_n);
  }

  const Part& part_;
  Span<const ParamFacts> params_;
  std::vector<uint16_t> matrices_;
  FlatOperand b_;
  MatmulProblem problem_;
};

}  // namespace

int RhsThatAddsUp(const Part& part) {
  if (part.rhs.size() < 2 || part.combine != Combine::kProduct || part.acc_type != TapeType::kI64) return -1;
  for (size_t j = 0; j < part.rhs.size(); ++j) {
    const Operand& rhs = part.operands[part.rhs[j]];
    const bool still =
        std::all_of(rhs.strides.begin(), rhs.strides.end(), [](int64_t stride) { return stride == 0; });
    if (still && IsPlain(rhs) && ByteSize(rhs.dtype) == 1) return static_cast<int>(j);
  }
  return -1;
}

std::vector<uint16_t> MatricesOf(const Part& part, const MatmulProblem& problem) {
  std::vector<uint16_t> matrices(part.rhs.begin(), part.rhs.end());
  if (problem.adds_up >= 0) matrices.erase(matrices.begin() + problem.adds_up);
  return matrices;
}

std::optional<MatmulProblem> MatmulProblemOf(const Part& part, Span<const ParamFacts> params) {
  return Reader(part, params).Run();
}

}  // namespace rondo::cuda
