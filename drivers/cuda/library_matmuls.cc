#include "drivers/cuda/library_matmuls.h"

#include <algorithm>
#include <new>

#include "core/alignment.h"
#include "core/library_matmul_rules.h"

namespace rondo::cuda {

namespace {

using cublaslt::ToStatus;

// Always this many, so that a position always means the same algorithm.
constexpr uint32_t kMostAlgorithms = 16;

int TypeOf(DType dtype) {
  return dtype == DType::kF16 ? cublaslt::kF16 : dtype == DType::kBF16 ? cublaslt::kBF16 : cublaslt::kF32;
}

}  // namespace

std::string_view SourceOfKernel(const PlanData& plan, uint32_t kernel) {
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind == StepKind::kLaunch && step.kernel == kernel && step.source < plan.sources.size())
        return plan.sources[step.source];
    }
  }
  return plan.kernels[kernel].name;
}

bool HasLibraryMatmuls(const CodeModule& module) {
  return std::any_of(module.binaries.begin(), module.binaries.end(),
                     [](const KernelBinary& binary) { return binary.kind == BinaryKind::kLibraryMatmul; });
}

Status NeedsLibrary(const PlanData& plan, const CodeModule& module, const Status& missing) {
  if (missing.ok()) return missing;
  for (size_t k = 0; k < module.binaries.size(); ++k) {
    if (module.binaries[k].kind != BinaryKind::kLibraryMatmul) continue;
    const std::string_view source = SourceOfKernel(plan, static_cast<uint32_t>(k));
    return missing
        .At("%.*s is computed by cuBLASLt (compile with --matmuls generated to do without)",
            static_cast<int>(source.size()), source.data())
        .FromNode(source);
  }
  return Status::Ok();
}

GrowingList<uint64_t> AlignmentsOf(const PlanData& plan, uint32_t kernel) {
  GrowingList<uint64_t> alignments =
      GrowingList<uint64_t>::Filled(plan.kernels[kernel].num_params, kMostAlignment);
  if (!alignments.ok()) return alignments;
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch || step.kernel != kernel) continue;
      for (size_t p = 0; p < step.bindings.size(); ++p) {
        const Binding& binding = step.bindings[p];
        alignments[p] = std::min(alignments[p], AlignmentOf(plan.buffers[binding.buffer], binding));
      }
    }
  }
  return alignments;
}

LibraryMatmulRun::LibraryMatmulRun(const cublaslt::Api& api, cublaslt::Handle handle,
                                   const LibraryMatmul& matmul, const Kernel& kernel)
    : api_(api),
      handle_(handle),
      matmul_(matmul),
      workspace_param_(kernel.workspace_param),
      workspace_bytes_(kernel.workspace_bytes < kWorkspaceSlack
                           ? 0
                           : std::min(matmul.workspace_bytes, kernel.workspace_bytes - kWorkspaceSlack)) {}

Result<std::unique_ptr<LibraryMatmulRun>> LibraryMatmulRun::Prepare(const cublaslt::Api& api,
                                                                    cublaslt::Handle handle,
                                                                    const LibraryMatmul& matmul,
                                                                    const Kernel& kernel,
                                                                    Span<const uint64_t> alignments) {
  std::unique_ptr<LibraryMatmulRun> run(new (std::nothrow) LibraryMatmulRun(api, handle, matmul, kernel));
  if (run == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for a matmul");
  RONDO_RETURN_IF_ERROR(run->Describe());
  RONDO_RETURN_IF_ERROR(run->Choose(alignments));
  return run;
}

LibraryMatmulRun::~LibraryMatmulRun() {
  for (cublaslt::Layout layout : {left_, right_, addend_, out_}) {
    if (layout != nullptr) api_.layout_destroy(layout);
  }
  if (operation_ != nullptr) api_.operation_destroy(operation_);
}

Status LibraryMatmulRun::Set(int attribute, const void* value, size_t bytes, const char* what) const {
  return ToStatus(api_, api_.operation_set(operation_, attribute, value, bytes), what);
}

// The library's matrices are column-major: a row here is a column there. So the library computes the
// transposed result, B times A.
Status LibraryMatmulRun::Describe() {
  const LibraryMatmul& p = matmul_;
  if (const char* why = NotForLibrary(p); why != nullptr)
    return Status::Error(Code::kUnsupported, "a matmul is not for cuBLASLt: it %s", why);
  const int compute = p.lhs.dtype == DType::kF32 && p.tf32 ? cublaslt::kComputeTf32 : cublaslt::kComputeF32;
  RONDO_RETURN_IF_ERROR(
      ToStatus(api_, api_.operation_create(&operation_, compute, cublaslt::kF32), "describing a matmul"));
  const int left = p.rhs.inner_stride == 1 ? cublaslt::kTransposed : cublaslt::kPlain;
  const int right = p.lhs.inner_stride == 1 ? cublaslt::kPlain : cublaslt::kTransposed;
  uint32_t epilogue = p.epilogue == MatmulEpilogue::kRelu       ? cublaslt::kRelu
                      : p.epilogue == MatmulEpilogue::kGeluTanh ? cublaslt::kGelu
                                                                : 0;
  if (p.bias.param != kNoParam) epilogue |= cublaslt::kBias;
  if (epilogue == 0) epilogue = cublaslt::kNoEpilogue;
  RONDO_RETURN_IF_ERROR(Set(cublaslt::kTransposeA, &left, sizeof(left), "transposing a side"));
  RONDO_RETURN_IF_ERROR(Set(cublaslt::kTransposeB, &right, sizeof(right), "transposing a side"));
  RONDO_RETURN_IF_ERROR(Set(cublaslt::kEpilogue, &epilogue, sizeof(epilogue), "setting an epilogue"));
  if (p.bias.param != kNoParam) {
    const int type = TypeOf(p.bias.dtype);
    RONDO_RETURN_IF_ERROR(Set(cublaslt::kBiasType, &type, sizeof(type), "setting a bias"));
  }
  RONDO_RETURN_IF_ERROR(MakeLayout(p.rhs, p.n, p.k, &left_));
  RONDO_RETURN_IF_ERROR(MakeLayout(p.lhs, p.m, p.k, &right_));
  RONDO_RETURN_IF_ERROR(MakeLayout(p.out, p.m, p.n, &out_));
  return MakeLayout(p.addend.param != kNoParam ? p.addend : p.out, p.m, p.n, &addend_);
}

Status LibraryMatmulRun::MakeLayout(const MatmulMatrix& m, int64_t outer, int64_t inner,
                                    cublaslt::Layout* layout) const {
  // The extent along the contiguous dimension, and the number of such lines.
  const bool along_inner = m.inner_stride == 1;
  const int64_t rows = along_inner ? inner : outer, columns = along_inner ? outer : inner;
  const int64_t line = std::max(along_inner ? m.outer_stride : m.inner_stride, rows);
  RONDO_RETURN_IF_ERROR(ToStatus(api_,
                                 api_.layout_create(layout, TypeOf(m.dtype), static_cast<uint64_t>(rows),
                                                    static_cast<uint64_t>(columns), line),
                                 "describing a matrix"));
  if (matmul_.batches == 1) return Status::Ok();
  const int32_t batches = static_cast<int32_t>(matmul_.batches);
  RONDO_RETURN_IF_ERROR(ToStatus(
      api_, api_.layout_set(*layout, cublaslt::kBatches, &batches, sizeof(batches)), "describing batches"));
  return ToStatus(api_,
                  api_.layout_set(*layout, cublaslt::kBatchStride, &m.batch_stride, sizeof(m.batch_stride)),
                  "describing batches");
}

// Chooses the library's first algorithm that fits the workspace, or the one that the plan names. The choice
// is always the same for one version of the library and one kind of GPU.
Status LibraryMatmulRun::Choose(Span<const uint64_t> alignments) {
  const LibraryMatmul& p = matmul_;
  cublaslt::Preference preference = nullptr;
  RONDO_RETURN_IF_ERROR(ToStatus(api_, api_.preference_create(&preference), "asking for algorithms"));
  const uint64_t most = workspace_bytes_;
  cublaslt::Result_t result = api_.preference_set(preference, cublaslt::kMostWorkspace, &most, sizeof(most));
  const struct {
    int attribute;
    const MatmulMatrix& matrix;
  } sides[] = {{cublaslt::kAlignmentA, p.rhs},
               {cublaslt::kAlignmentB, p.lhs},
               {cublaslt::kAlignmentC, p.addend.param != kNoParam ? p.addend : p.out},
               {cublaslt::kAlignmentD, p.out}};
  for (const auto& side : sides) {
    const uint32_t alignment =
        static_cast<uint32_t>(std::min(alignments[side.matrix.param], AlignmentOf(side.matrix.offset)));
    if (result == 0) result = api_.preference_set(preference, side.attribute, &alignment, sizeof(alignment));
  }
  cublaslt::Candidate candidates[kMostAlgorithms];
  int found = 0;
  const uint32_t position = p.algorithm == kNone ? 0 : p.algorithm;
  if (result == 0) {
    result = api_.heuristic(handle_, operation_, left_, right_, addend_, out_, preference, kMostAlgorithms,
                            candidates, &found);
  }
  api_.preference_destroy(preference);
  const Status status = ToStatus(api_, result, "asking for algorithms");
  if (status.ok() && static_cast<uint32_t>(found) > position && candidates[position].state == 0) {
    algorithm_ = candidates[position].algorithm;
    return Status::Ok();
  }
  return Status::Error(Code::kUnsupported,
                       "cuBLASLt %zu has %d algorithms for a matmul of %lld x %lld x %lld (%s) within %llu "
                       "bytes of workspace, and number %u is asked for%s%s",
                       api_.version(), found, static_cast<long long>(p.m), static_cast<long long>(p.n),
                       static_cast<long long>(p.k), Name(p.lhs.dtype),
                       static_cast<unsigned long long>(workspace_bytes_), position + 1,
                       status.ok() ? "" : ": ", status.ok() ? "" : status.message());
}

Status LibraryMatmulRun::Launch(Span<const DeviceAddress> addresses, cublaslt::Stream stream) {
  const LibraryMatmul& p = matmul_;
  auto at = [&](const MatmulMatrix& m) { return reinterpret_cast<void*>(addresses[m.param] + m.offset); };
  const bool adds = p.addend.param != kNoParam;
  const float one = 1, factor = adds ? 1 : 0;
  void* workspace = nullptr;
  if (workspace_bytes_ > 0) {
    workspace =
        reinterpret_cast<void*>((addresses[workspace_param_] + kMostAlignment - 1) & ~(kMostAlignment - 1));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (p.bias.param != kNoParam) {
    const void* bias = at(p.bias);
    RONDO_RETURN_IF_ERROR(Set(cublaslt::kBiasAddress, &bias, sizeof(bias), "setting a bias"));
  }
  return ToStatus(api_,
                  api_.matmul(handle_, operation_, &one, at(p.rhs), left_, at(p.lhs), right_, &factor,
                              at(adds ? p.addend : p.out), addend_, at(p.out), out_, &algorithm_, workspace,
                              workspace_bytes_, stream),
                  "cublasLtMatmul");
}

}  // namespace rondo::cuda
