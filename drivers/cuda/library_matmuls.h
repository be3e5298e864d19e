// LibraryMatmuls: the matmuls of one plan that cuBLASLt computes, on one device. Internal to
// drivers/cuda.
#pragma once

#include <memory>
#include <mutex>

#include "core/driver.h"
#include "core/list.h"
#include "core/plan.h"
#include "drivers/cuda/cublaslt_api.h"

namespace rondo::cuda {

// The node that a kernel comes from; its name where that is not known.
std::string_view SourceOfKernel(const PlanData& plan, uint32_t kernel);

// Whether the library computes a kernel of the module.
bool HasLibraryMatmuls(const CodeModule& module);

// OK, or which kernel of `module` needs the library that could not be opened (`missing`), and what else can
// be done.
Status NeedsLibrary(const PlanData& plan, const CodeModule& module, const Status& missing);

// One matmul, ready to be enqueued: what it is, and the algorithm that was chosen for it. May be launched
// from several threads.
class LibraryMatmulRun {
 public:
  // `alignments`: the least alignment, in bytes, of each parameter of the kernel. kUnsupported where the
  // library has no algorithm for it, or none of that position.
  static Result<std::unique_ptr<LibraryMatmulRun>> Prepare(const cublaslt::Api& api, cublaslt::Handle handle,
                                                           const LibraryMatmul& matmul, const Kernel& kernel,
                                                           Span<const uint64_t> alignments);
  ~LibraryMatmulRun();
  LibraryMatmulRun(const LibraryMatmulRun&) = delete;
  LibraryMatmulRun& operator=(const LibraryMatmulRun&) = delete;

  // `addresses`: one a parameter of the kernel. Allocates nothing.
  Status Launch(Span<const DeviceAddress> addresses, cublaslt::Stream stream);

 private:
  LibraryMatmulRun(const cublaslt::Api& api, cublaslt::Handle handle, const LibraryMatmul& matmul,
                   const Kernel& kernel);
  Status Describe();
  Status MakeLayout(const MatmulMatrix& matrix, int64_t outer, int64_t inner, cublaslt::Layout* layout) const;
  Status Choose(Span<const uint64_t> alignments);
  Status Set(int attribute, const void* value, size_t bytes, const char* what) const;

  const cublaslt::Api& api_;
  const cublaslt::Handle handle_;
  const LibraryMatmul& matmul_;
  const uint16_t workspace_param_;
  const uint64_t workspace_bytes_;  // of it, from its first well aligned byte on
  std::mutex mutex_;                // guards operation_, which takes the address of the bias
  cublaslt::Operation operation_ = nullptr;
  cublaslt::Layout left_ = nullptr, right_ = nullptr, addend_ = nullptr, out_ = nullptr;
  cublaslt::Algorithm algorithm_;
};

// The least alignment of what every launch binds to each parameter of kernel `kernel`: at most 256 bytes. Not
// ok() when out of memory.
GrowingList<uint64_t> AlignmentsOf(const PlanData& plan, uint32_t kernel);

}  // namespace rondo::cuda
