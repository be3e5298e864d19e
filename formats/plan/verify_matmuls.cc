#include <cinttypes>
#include <utility>

#include "core/library_matmul_rules.h"
#include "formats/plan/check/footprint.h"
#include "formats/plan/verifier.h"
#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

using check::Box;
using check::BoxDim;
using check::Footprint;

bool Same(const Box& a, const Box& b) {
  if (a.base != b.base || a.end != b.end || a.rank != b.rank || !a.exact || !b.exact) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[i].stride != b.dims[i].stride || a.dims[i].extent != b.dims[i].extent) return false;
  }
  return true;
}

// Computes the bytes of a matrix. False if no library can take such a matrix.
bool BoxOf(const MatmulMatrix& m, int64_t batches, int64_t outer, int64_t inner, Box* box) {
  if (static_cast<int>(m.dtype) >= kNumDTypes || m.offset > static_cast<uint64_t>(kMaxReach)) return false;
  const int64_t size = ByteSize(m.dtype);
  BoxDim dims[] = {{m.batch_stride, batches}, {m.outer_stride, outer}, {m.inner_stride, inner}};
  for (BoxDim& dim : dims) {
    if (dim.stride < 0 || dim.stride > (kMaxReach >> 4) / dim.extent) return false;
    dim.stride *= size;
  }
  *box = check::StridedBox(static_cast<int64_t>(m.offset), size, dims, 3);
  return IsLibraryMatrix(m, outer, inner);
}

// Whether all elements of the matrix have distinct places: each stride exceeds the span of the smaller ones.
bool Distinct(const MatmulMatrix& m, const LibraryMatmul& p) {
  BoxDim dims[] = {{m.batch_stride, p.batches}, {m.outer_stride, p.m}, {m.inner_stride, p.n}};
  int64_t span = 0;
  for (int i = 0; i < 3; ++i) {
    for (int k = i + 1; k < 3; ++k) {
      if (dims[k].stride < dims[i].stride) std::swap(dims[k], dims[i]);
    }
    if (dims[i].extent == 1) continue;
    if (dims[i].stride <= span) return false;
    span += dims[i].stride * (dims[i].extent - 1);
  }
  return true;
}

bool SameLayout(const LibraryMatmul& p, const MatmulMatrix& a, const MatmulMatrix& b) {
  return (p.batches == 1 || a.batch_stride == b.batch_stride) &&
         (p.m == 1 || a.outer_stride == b.outer_stride) && (p.n == 1 || a.inner_stride == b.inner_stride);
}

Status VerifyMatmul(const Kernel& kernel, const LibraryMatmul& p, KernelRanges::Apart* apart, Work& work) {
  const Part& part = kernel.parts[0];
  if (kernel.parts.size() != 1 || part.skeleton != Skeleton::kMatMul)
    return RONDO_BROKEN("its matmul is not of one matmul");
  if (const char* why = NotForLibrary(p); why != nullptr) {
    return RONDO_BROKEN("its matmul (%" PRId64 " batches, %" PRId64 " x %" PRId64 " x %" PRId64 ") %s",
                        p.batches, p.m, p.n, p.k, why);
  }
  if (p.workspace_bytes > kernel.workspace_bytes) {
    return RONDO_BROKEN("its matmul takes %" PRIu64 " bytes of a workspace of %" PRIu64, p.workspace_bytes,
                        kernel.workspace_bytes);
  }
  // The addend may lie where the result does, if both have the same layout.
  if (p.addend.param != kNoParam && !SameLayout(p, p.addend, p.out)) *apart = {p.addend.param, p.out.param};
  if (!work.Spend(part.operands.size() * 64)) return TooMuchWork();
  const MatmulMatrix* const matrices[] = {&p.lhs, &p.rhs, &p.out, &p.addend, &p.bias};
  const int64_t outer[] = {p.m, p.n, p.m, p.m, 1};
  const int64_t inner[] = {p.k, p.k, p.n, p.n, p.n};
  constexpr int kOut = 2, kBias = 4;
  for (int i = 0; i <= kBias; ++i) {
    const MatmulMatrix& m = *matrices[i];
    if (m.param == kNoParam && i > kOut) continue;
    // The bytes must be those that an operand of the same parameter and dtype touches.
    Box box;
    bool good = BoxOf(m, p.batches, outer[i], inner[i], &box) && (i != kBias || m.batch_stride == 0) &&
                (i != kOut || Distinct(m, p));
    bool found = false;
    for (size_t o = 0; o < part.operands.size() && good && !found; ++o) {
      const Operand& operand = part.operands[o];
      if (operand.param != m.param || operand.dtype != m.dtype) continue;
      const Footprint print = check::FootprintOf(part, static_cast<uint16_t>(o));
      found = !print.by_data && (i == kOut ? print.writes : print.reads) && Same(print.box, box);
    }
    if (found) continue;
    return RONDO_BROKEN("matrix %d of its matmul, parameter %u, %s", i, m.param,
                        good ? "is not what an operand touches" : "has impossible strides");
  }
  return Status::Ok();
}

}  // namespace

Status VerifyMatmuls(const PlanData& plan, const KernelRanges& ranges, Work& work) {
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    for (size_t i = 0; i < NumBinaries(plan.modules[m]); ++i) {
      const KernelBinary& binary = BinaryAt(plan.modules[m], i);
      const size_t k = KernelOfBinary(plan.modules[m], i);
      Status status;
      if (binary.kind > BinaryKind::kLibraryMatmul ||
          (binary.kind == BinaryKind::kLibraryMatmul) != (binary.matmul != nullptr)) {
        status = RONDO_BROKEN("kind %d %s a matmul", static_cast<int>(binary.kind),
                              binary.matmul != nullptr ? "with" : "without");
      } else if (binary.matmul != nullptr) {
        status = VerifyMatmul(plan.kernels[k], *binary.matmul, &ranges.apart[k], work);
      }
      if (!status.ok()) return status.At("module %zu: the binary of kernel %zu", m, k);
    }
  }
  return Status::Ok();
}

}  // namespace rondo::plan
