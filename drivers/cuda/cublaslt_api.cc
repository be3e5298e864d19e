#include "drivers/cuda/cublaslt_api.h"

#include "drivers/library/shared_library.h"

namespace rondo::cublaslt {
namespace {

constexpr const char* kSonames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr Symbol kSymbols[] = {
    RONDO_SYMBOL(version, "cublasLtGetVersion"),
    RONDO_SYMBOL(status_string, "cublasLtGetStatusString"),
    RONDO_SYMBOL(create, "cublasLtCreate"),
    RONDO_SYMBOL(destroy, "cublasLtDestroy"),
    RONDO_SYMBOL(operation_create, "cublasLtMatmulDescCreate"),
    RONDO_SYMBOL(operation_destroy, "cublasLtMatmulDescDestroy"),
    RONDO_SYMBOL(operation_set, "cublasLtMatmulDescSetAttribute"),
    RONDO_SYMBOL(layout_create, "cublasLtMatrixLayoutCreate"),
    RONDO_SYMBOL(layout_destroy, "cublasLtMatrixLayoutDestroy"),
    RONDO_SYMBOL(layout_set, "cublasLtMatrixLayoutSetAttribute"),
    RONDO_SYMBOL(preference_create, "cublasLtMatmulPreferenceCreate"),
    RONDO_SYMBOL(preference_destroy, "cublasLtMatmulPreferenceDestroy"),
    RONDO_SYMBOL(preference_set, "cublasLtMatmulPreferenceSetAttribute"),
    RONDO_SYMBOL(heuristic, "cublasLtMatmulAlgoGetHeuristic"),
    RONDO_SYMBOL(matmul, "cublasLtMatmul"),
};
constexpr SharedLibrary kLibrary = {"cuBLASLt", kSonames, kSymbols, "that of CUDA 12.0"};

}  // namespace

Result<const Api*> OpenApi(const char* library_path) {
  static OpenedOnce<Api> opened;
  return opened.Get([&](Api* api) { return OpenLibrary(kLibrary, library_path, api); });
}

Status ToStatus(const Api& api, Result_t result, const char* call) {
  if (result == 0) return Status::Ok();
  return Status::Error(Code::kInternal, "%s: %s (%d)", call, api.status_string(result), result);
}

}  // namespace rondo::cublaslt
