#include "compiler/codegen/cuda/matmul/library_matmul.h"

#include <algorithm>
#include <vector>

#include "compiler/codegen/cuda/matmul/flat_loops.h"
#include "compiler/codegen/cuda/matmul/library_epilogue.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "core/library_matmul_rules.h"

namespace rondo {

namespace {

using cuda::FlatLoops;
using cuda::FlatOperand;
using cuda::Flatten;
using cuda::IsPlain;
using cuda::MatmulProblem;

class Reader {
 public:
  Reader(const Part& part, const MatmulProblem& problem, const Operand& a, const Operand& out)
      : part_(part),
        batch_(part, problem.batch_loops, Flatten(part, out)),
        m_(part, problem.m_loops, Flatten(part, out)),
        n_(part, problem.n_loops, Flatten(part, out)),
        k_(part, problem.k_loops, Flatten(part, a)) {}

  std::optional<LibraryMatmul> Read(const cuda::LibraryEpilogue& epilogue) const {
    const Operand &lhs = part_.operands[part_.lhs], &rhs = part_.operands[part_.rhs[0]];
    const Operand& out = part_.operands[epilogue.out];
    LibraryMatmul p;
    p.batches = batch_.extent();
    p.m = m_.extent();
    p.n = n_.extent();
    p.k = k_.extent();
    p.tf32 = part_.tf32;
    p.epilogue = epilogue.activation;
    if (!Matrix(lhs, m_, k_, &p.lhs) || !Matrix(rhs, n_, k_, &p.rhs) || !Matrix(out, m_, n_, &p.out))
      return std::nullopt;
    for (uint16_t index : epilogue.added) {
      const Operand& operand = part_.operands[index];
      if (operand.mode != Mode::kRead) return std::nullopt;
      if (p.bias.param == kNoParam && Bias(operand, &p.bias)) continue;
      if (p.addend.param != kNoParam || !Matrix(operand, m_, n_, &p.addend)) return std::nullopt;
    }
    return NotForLibrary(p) == nullptr ? std::optional(p) : std::nullopt;
  }

 private:
  // Describes an operand over batches and two flat indices as a matrix: its lines must not overlap, and it
  // must be contiguous along one of the two.
  bool Matrix(const Operand& operand, const FlatLoops& outer, const FlatLoops& inner, MatmulMatrix* m) const {
    const FlatOperand flat = Flatten(part_, operand);
    const auto batch = batch_.Stride(flat), o = outer.Stride(flat), i = inner.Stride(flat);
    if (!IsPlain(operand) || flat.offset < 0 || !batch || !o || !i) return false;
    m->param = operand.param;
    m->offset = static_cast<uint64_t>(flat.offset * ByteSize(operand.dtype));
    m->dtype = operand.dtype;
    m->batch_stride = *batch;
    m->outer_stride = *o;
    m->inner_stride = *i;
    // A dimension of one step may have any stride.
    if (outer.extent() == 1) m->outer_stride = m->inner_stride == 1 ? inner.extent() : 1;
    if (inner.extent() == 1) m->inner_stride = 1;
    return IsLibraryMatrix(*m, outer.extent(), inner.extent());
  }

  // A bias has one value for each column.
  bool Bias(const Operand& operand, MatmulMatrix* m) const {
    const FlatOperand flat = Flatten(part_, operand);
    const auto batch = batch_.Stride(flat), row = m_.Stride(flat), column = n_.Stride(flat);
    if (!IsPlain(operand) || flat.offset < 0 || !batch || !row || !column) return false;
    if (*batch != 0 || *row != 0 || (*column != 1 && n_.extent() > 1)) return false;
    m->param = operand.param;
    m->offset = static_cast<uint64_t>(flat.offset * ByteSize(operand.dtype));
    m->dtype = operand.dtype;
    m->outer_stride = n_.extent();
    m->inner_stride = 1;
    return true;
  }

  const Part& part_;
  const FlatLoops batch_, m_, n_, k_;
};

}  // namespace

std::optional<LibraryMatmul> LibraryMatmulOf(const Kernel& kernel) {
  // Library calls check no condition.
  if (kernel.parts.size() != 1 || !kernel.parts[0].when.empty()) return std::nullopt;
  const Part& part = kernel.parts[0];
  if (part.skeleton != Skeleton::kMatMul || part.sequential || part.rhs.size() != 1 ||
      !part.prologue.empty() || part.acc_type != TapeType::kF32 || part.packed.type != PackedType::kNone)
    return std::nullopt;
  const auto epilogue = cuda::ReadLibraryEpilogue(part);
  if (!epilogue) return std::nullopt;
  const Operand &lhs = part.operands[part.lhs], &out = part.operands[epilogue->out];
  if (out.mode != Mode::kWrite) return std::nullopt;
  const std::vector<cuda::ParamFacts> facts(kernel.num_params);
  const std::optional<MatmulProblem> problem = cuda::MatmulProblemOf(part, facts);
  if (!problem) return std::nullopt;
  return Reader(part, *problem, lhs, out).Read(*epilogue);
}

uint64_t MostWorkspace(const LibraryMatmul& matmul, int architecture) {
  // The workspace that cuBLAS uses by default on these architectures, and the sums of K split by 16.
  constexpr uint64_t kNewer = 32 << 20, kOlder = 4 << 20, kLeast = 64 << 10, kPieces = 16;
  const uint64_t most = architecture >= 90 ? kNewer : kOlder;
  const double sums = static_cast<double>(matmul.batches) * static_cast<double>(matmul.m) *
                      static_cast<double>(matmul.n) * 4 * kPieces;
  if (sums >= static_cast<double>(most)) return most;
  return std::max(kLeast, (static_cast<uint64_t>(sums) + kLeast - 1) / kLeast * kLeast);
}

}  // namespace rondo
