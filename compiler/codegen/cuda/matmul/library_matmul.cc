#include "compiler/codegen/cuda/matmul/library_matmul.h"

#include <algorithm>
#include <vector>

#include "compiler/codegen/cuda/matmul/flat_loops.h"
#include "compiler/codegen/cuda/matmul/library_epilogue.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"

namespace rondo {

namespace {

using cuda::FlatLoops;
using cuda::FlatOperand;
using cuda::Flatten;
using cuda::IsPlain;
using cuda::MatmulProblem;

constexpr int64_t kMostExtent = 0x7fffffff;  // what libraries count in

class Reader {
 public:
  Reader(const Part& part, const MatmulProblem& problem, const Operand& a, const Operand& out)
      : part_(part),
        batch_(part, problem.batch_loops, Flatten(part, out)),
        m_(part, problem.m_loops, Flatten(part, out)),
        n_(part, problem.n_loops, Flatten(part, out)),
        k_(part, problem.k_loops, Flatten(part, a)) {}

  std::optional<LibraryProduct> Read(const cuda::LibraryEpilogue& epilogue) const {
    const Operand &lhs = part_.operands[part_.lhs], &rhs = part_.operands[part_.rhs[0]];
    const Operand& out = part_.operands[epilogue.out];
    LibraryProduct p;
    p.batches = batch_.extent();
    p.rows = m_.extent();
    p.columns = n_.extent();
    p.depth = k_.extent();
    p.tf32 = part_.tf32;
    p.epilogue = epilogue.activation;
    for (int64_t extent : {p.batches, p.rows, p.columns, p.depth}) {
      if (extent > kMostExtent) return std::nullopt;
    }
    if (!Matrix(lhs, m_, k_, &p.lhs) || !Matrix(rhs, n_, k_, &p.rhs) || !Matrix(out, m_, n_, &p.out) ||
        p.out.inner_stride != 1)
      return std::nullopt;
    for (uint16_t index : epilogue.added) {
      const Operand& operand = part_.operands[index];
      if (operand.mode != Mode::kRead || operand.dtype != out.dtype) return std::nullopt;
      if (p.bias.param == kNoParam && Bias(operand, &p.bias)) continue;
      if (p.addend.param != kNoParam || !Matrix(operand, m_, n_, &p.addend) || p.addend.inner_stride != 1)
        return std::nullopt;
    }
    return p;
  }

 private:
  // An operand over batches and two flat numbers: its lines do not overlap, and it is contiguous along one of
  // the two.
  bool Matrix(const Operand& operand, const FlatLoops& outer, const FlatLoops& inner,
              ProductMatrix* m) const {
    const FlatOperand flat = Flatten(part_, operand);
    const auto batch = batch_.Stride(flat), o = outer.Stride(flat), i = inner.Stride(flat);
    if (!IsPlain(operand) || flat.offset < 0 || !batch || !o || !i) return false;
    m->param = operand.param;
    m->offset = static_cast<uint64_t>(flat.offset * ByteSize(operand.dtype));
    m->dtype = operand.dtype;
    m->batch_stride = *batch;
    m->outer_stride = *o;
    m->inner_stride = *i;
    // A stride along which there is one step only is what suits.
    if (outer.extent() == 1) m->outer_stride = m->inner_stride == 1 ? inner.extent() : 1;
    if (inner.extent() == 1) m->inner_stride = 1;
    const bool along_inner = m->inner_stride == 1 && m->outer_stride >= inner.extent();
    const bool along_outer = m->outer_stride == 1 && m->inner_stride >= outer.extent();
    return along_inner || along_outer;
  }

  // One value a column.
  bool Bias(const Operand& operand, ProductMatrix* m) const {
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

std::optional<LibraryProduct> LibraryMatmulOf(const Kernel& kernel) {
  if (kernel.parts.size() != 1) return std::nullopt;
  const Part& part = kernel.parts[0];
  if (part.skeleton != Skeleton::kContraction || part.sequential || part.rhs.size() != 1 ||
      !part.prologue.empty() || part.acc_type != TapeType::kF32)
    return std::nullopt;
  const auto epilogue = cuda::ReadLibraryEpilogue(part);
  if (!epilogue) return std::nullopt;
  const Operand &lhs = part.operands[part.lhs], &rhs = part.operands[part.rhs[0]];
  const Operand& out = part.operands[epilogue->out];
  const bool typed = (lhs.dtype == DType::kF16 || lhs.dtype == DType::kBF16 || lhs.dtype == DType::kF32) &&
                     rhs.dtype == lhs.dtype && (out.dtype == lhs.dtype || out.dtype == DType::kF32);
  if (!typed || out.mode != Mode::kWrite) return std::nullopt;
  const std::vector<cuda::ParamFacts> facts(kernel.num_params);
  const std::optional<MatmulProblem> problem = cuda::MatmulProblemOf(part, facts);
  if (!problem) return std::nullopt;
  return Reader(part, *problem, lhs, out).Read(*epilogue);
}

uint64_t MostWorkspace(const LibraryProduct& product, int architecture) {
  // What cuBLAS takes for itself on these architectures, and the sums of a K split by 16.
  constexpr uint64_t kNewer = 32 << 20, kOlder = 4 << 20, kLeast = 64 << 10, kPieces = 16;
  const uint64_t most = architecture >= 90 ? kNewer : kOlder;
  const double sums = static_cast<double>(product.batches) * static_cast<double>(product.rows) *
                      static_cast<double>(product.columns) * 4 * kPieces;
  if (sums >= static_cast<double>(most)) return most;
  return std::max(kLeast, (static_cast<uint64_t>(sums) + kLeast - 1) / kLeast * kLeast);
}

}  // namespace rondo
