#include <cinttypes>

#include "formats/plan/check/footprint.h"
#include "formats/plan/verifier.h"
#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

using check::Box;
using check::BoxDim;
using check::Footprint;

constexpr int64_t kMaxExtent = 0x7fffffff;  // what libraries count in

bool Same(const Box& a, const Box& b) {
  if (a.base != b.base || a.end != b.end || a.rank != b.rank || !a.exact || !b.exact) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[i].stride != b.dims[i].stride || a.dims[i].extent != b.dims[i].extent) return false;
  }
  return true;
}

// The bytes of a matrix. False: it has none that a library could take. One of the inner strides is 1, and
// lines do not overlap.
bool BoxOf(const ProductMatrix& m, int64_t batches, int64_t outer, int64_t inner, Box* box) {
  const bool along_inner = m.inner_stride == 1 && (outer == 1 || m.outer_stride >= inner);
  const bool along_outer = m.outer_stride == 1 && (inner == 1 || m.inner_stride >= outer);
  if (static_cast<int>(m.dtype) >= kNumDTypes || m.offset > static_cast<uint64_t>(kMaxReach)) return false;
  const int64_t size = ByteSize(m.dtype);
  BoxDim dims[] = {{m.batch_stride, batches}, {m.outer_stride, outer}, {m.inner_stride, inner}};
  for (BoxDim& dim : dims) {
    if (dim.stride < 0 || dim.stride > (kMaxReach >> 4) / dim.extent) return false;
    dim.stride *= size;
  }
  *box = check::StridedBox(static_cast<int64_t>(m.offset), size, dims, 3);
  return along_inner || along_outer;
}

Status VerifyProduct(const Kernel& kernel, const LibraryProduct& p, Arena& scratch) {
  const Part& part = kernel.parts[0];
  if (kernel.parts.size() != 1 || part.skeleton != Skeleton::kContraction)
    return RONDO_BROKEN("its product is not of one contraction");
  for (int64_t extent : {p.batches, p.rows, p.columns, p.depth}) {
    if (extent < 1 || extent > kMaxExtent) return RONDO_BROKEN("its product has extent %" PRId64, extent);
  }
  if (p.epilogue > ProductEpilogue::kGeluTanh)
    return RONDO_BROKEN("epilogue %d is unknown", static_cast<int>(p.epilogue));
  if (p.workspace_bytes > kernel.workspace_bytes) {
    return RONDO_BROKEN("its product takes %" PRIu64 " bytes of a workspace of %" PRIu64, p.workspace_bytes,
                        kernel.workspace_bytes);
  }
  const Span<Footprint> prints = check::Footprints(kernel, scratch);
  if (prints.data() == nullptr) return OutOfMemory("the products");
  const ProductMatrix* const matrices[] = {&p.lhs, &p.rhs, &p.out, &p.addend, &p.bias};
  const int64_t outer[] = {p.rows, p.columns, p.rows, p.rows, 1};
  const int64_t inner[] = {p.depth, p.depth, p.columns, p.columns, p.columns};
  constexpr int kOut = 2, kBias = 4;
  for (int i = 0; i <= kBias; ++i) {
    const ProductMatrix& m = *matrices[i];
    if (m.param == kNoParam && i > kOut) continue;
    // The bytes are those that an operand of its parameter and dtype touches, as the matrix does.
    Box box;
    bool good = BoxOf(m, p.batches, outer[i], inner[i], &box) && (i != kBias || m.batch_stride == 0);
    bool found = false;
    for (const Footprint& print : prints) {
      found |= good && print.part != nullptr && print.param == m.param && !print.by_data &&
               part.operands[print.operand].dtype == m.dtype && (i == kOut ? print.writes : print.reads) &&
               Same(print.box, box);
    }
    if (found) continue;
    return RONDO_BROKEN("matrix %d of its product, parameter %u, %s", i, m.param,
                        good ? "is not what an operand touches" : "has impossible strides");
  }
  return Status::Ok();
}

}  // namespace

Status VerifyProducts(const PlanData& plan, Arena& scratch) {
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    for (size_t i = 0; i < NumImages(plan.modules[m]); ++i) {
      const KernelImage& image = ImageAt(plan.modules[m], i);
      const size_t k = KernelOfImage(plan.modules[m], i);
      Status status;
      if (image.kind > ImageKind::kLibraryProduct ||
          (image.kind == ImageKind::kLibraryProduct) != (image.product != nullptr)) {
        status = RONDO_BROKEN("kind %d %s a product", static_cast<int>(image.kind),
                              image.product != nullptr ? "with" : "without");
      } else if (image.product != nullptr) {
        status = VerifyProduct(plan.kernels[k], *image.product, scratch);
      }
      if (!status.ok()) return status.At("module %zu: the image of kernel %zu", m, k);
    }
  }
  return Status::Ok();
}

}  // namespace rondo::plan
