// LibraryMatmuls: the matmuls of one plan that cuBLASLt computes, on one device. Internal to drivers/cuda.
#pragma once

#include <memory>
#include <mutex>

#include "core/driver.h"
#include "core/list.h"
#include "core/plan.h"
#include "drivers/cuda/cublaslt_api.h"

namespace rondo::cuda {

// The source node of a kernel; the kernel's name if that is unknown.
std::string_view SourceOfKernel(const PlanData& plan, uint32_t kernel);

// Whether the library computes a kernel of the module.
bool HasLibraryMatmuls(const CodeModule& module);

// OK, or an error that names a kernel of `module` that needs the library, which could not be opened
// (`missing`), and a remedy.
Status NeedsLibrary(const PlanData& plan, const CodeModule& module, const Status& missing);

// One matmul with its chosen algorithm, ready to be enqueued. May be launched from several threads.
class LibraryMatmulRun {
 public:
  // `alignments`: the guaranteed alignment, in bytes, of each parameter of the kernel. kUnsupported if the
  // library has no algorithm for it, or none at the requested index.
  static Result<std::unique_ptr<LibraryMatmulRun>> Prepare(const cublaslt::Api& api, cublaslt::Handle handle,
                                                           const LibraryMatmul& matmul, const Kernel& kernel,
                                                           Span<const uint64_t> alignments);
  ~LibraryMatmulRun();
  LibraryMatmulRun(const LibraryMatmulRun&) = delete;
  LibraryMatmulRun& operator=(const LibraryMatmulRun&) = delete;

  // `addresses`: one for each parameter of the kernel. Allocates nothing.
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
  const uint64_t workspace_bytes_;  // of its workspace, from the first aligned byte on
  std::mutex mutex_;                // guards operation_, which holds the bias's address
  cublaslt::Operation operation_ = nullptr;
  cublaslt::Layout left_ = nullptr, right_ = nullptr, addend_ = nullptr, out_ = nullptr;
  cublaslt::Algorithm algorithm_;
};

// The alignment, at most 256 bytes, that all launches guarantee for each parameter of kernel `kernel`. Not
// ok() when out of memory.
GrowingList<uint64_t> AlignmentsOf(const PlanData& plan, uint32_t kernel);

}  // namespace rondo::cuda
