// The CudaDevice functions for kernels that cuBLASLt computes.
#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {

Status CudaDevice::BeginMatmuls(const CodeModule& code, CudaModule* module) {
  if (!HasLibraryMatmuls(code)) return Status::Ok();
  module->device = this;
  module->code = &code;
  const auto prepare = [](void* argument) -> void* {
    auto* const m = static_cast<CudaModule*>(argument);
    m->prepared = m->device->PrepareMatmuls(*m->plan, *m->code, m);
    return nullptr;
  };
  const bool alone = modules_.load() == 1;
  module->has_thread = alone && hooks_.start(hooks_.user, prepare, module, &module->thread) == 0;
  if (module->has_thread) return Status::Ok();
  prepare(module);
  return module->prepared;
}

Status CudaDevice::PrepareMatmuls(const PlanData& plan, const CodeModule& code, CudaModule* module) {
  Use use(*this);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (cublaslt_handle_ == nullptr) {
      const Result<const cublaslt::Api*> library = opening_->Wait();
      RONDO_RETURN_IF_ERROR(NeedsLibrary(plan, code, library.status()));
      cublaslt_ = *library;
      RONDO_RETURN_IF_ERROR(
          cublaslt::ToStatus(*cublaslt_, cublaslt_->create(&cublaslt_handle_), "cublasLtCreate")
              .At("cuda device %u", index_));
    }
  }
  for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
    if (code.binaries[k].kind != BinaryKind::kLibraryMatmul) continue;
    const GrowingList<uint64_t> alignments = AlignmentsOf(plan, k);
    if (!alignments.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for a matmul");
    Result<std::unique_ptr<LibraryMatmulRun>> run =
        LibraryMatmulRun::Prepare(*cublaslt_, cublaslt_handle_, *code.binaries[k].matmul, plan.kernels[k],
                                  {alignments.data(), alignments.size()});
    Status status = run.status();
    if (status.ok()) status = CaptureOnce(run->get(), plan.kernels[k].num_params);
    if (!status.ok()) {
      const std::string_view source = SourceOfKernel(plan, k);
      return status
          .At("cuda device %u: %.*s (compile with --matmuls generated to do without)", index_,
              static_cast<int>(source.size()), source.data())
          .FromNode(source);
    }
    module->kernels[k].matmul = run.Take();
  }
  return Status::Ok();
}

// Captures the matmul once and discards the graph: this loads the library's kernels. Nothing runs, so that
// any address will do.
Status CudaDevice::CaptureOnce(LibraryMatmulRun* matmul, size_t params) {
  RONDO_ASSIGN_OR_RETURN(const DeviceAddress memory, Allocate(1, 1));
  StreamHandle stream = nullptr;
  GraphHandle graph = nullptr;
  Status status = Check(api_.stream_create(&stream, kNonBlockingStream), "creating a stream");
  if (status.ok()) status = Check(api_.capture_begin(stream, kThreadLocalCapture), "beginning a recording");
  if (status.ok()) {
    const GrowingList<DeviceAddress> addresses = GrowingList<DeviceAddress>::Filled(params, memory);
    status = addresses.ok() ? matmul->Launch({addresses.data(), addresses.size()}, stream)
                            : Status::Error(Code::kOutOfMemory, "no host memory for a matmul");
    const Status ended = Check(api_.capture_end(stream, &graph), "ending a recording");
    if (status.ok()) status = ended;
  }
  if (graph != nullptr) api_.graph_destroy(graph);
  if (stream != nullptr) api_.stream_destroy(stream);
  Free(memory, 1);
  return status;
}

// The library's kernels do not wait by themselves, and may be several. So they get full edges on both sides,
// and their addresses stay as recorded.
Status CudaDevice::LaunchMatmul(LibraryMatmulRun* matmul, Span<const DeviceAddress> addresses,
                                CudaStream* stream, uint32_t step) {
  stream->after_kernel = false;
  {
    Use use(*this);
    RONDO_RETURN_IF_ERROR(matmul->Launch(addresses, stream->handle).At("cuda device %u", index_));
  }
  Note(stream, {step, StepKind::kLaunch});
  return Status::Ok();
}

}  // namespace rondo::cuda
