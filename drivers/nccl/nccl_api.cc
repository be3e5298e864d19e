#include "drivers/nccl/nccl_api.h"

#include "drivers/library/shared_library.h"

namespace rondo::nccl {
namespace {

constexpr const char* kSonames[] = {"libnccl.so.2"};
constexpr int kLeastVersion = 21400;  // the first with non-blocking communicators

constexpr Symbol kSymbols[] = {
    RONDO_SYMBOL(version, "ncclGetVersion"),
    RONDO_SYMBOL(unique_id, "ncclGetUniqueId"),
    RONDO_SYMBOL(init_rank, "ncclCommInitRankConfig"),
    RONDO_SYMBOL(state, "ncclCommGetAsyncError"),
    RONDO_SYMBOL(abort, "ncclCommAbort"),
    RONDO_SYMBOL(destroy, "ncclCommDestroy"),
    RONDO_SYMBOL(error_string, "ncclGetErrorString"),
    RONDO_SYMBOL(last_error, "ncclGetLastError"),
    RONDO_SYMBOL(group_start, "ncclGroupStart"),
    RONDO_SYMBOL(group_end, "ncclGroupEnd"),
    RONDO_SYMBOL(all_reduce, "ncclAllReduce"),
    RONDO_SYMBOL(all_gather, "ncclAllGather"),
    RONDO_SYMBOL(reduce_scatter, "ncclReduceScatter"),
    RONDO_SYMBOL(broadcast, "ncclBroadcast"),
    RONDO_SYMBOL(send, "ncclSend"),
    RONDO_SYMBOL(receive, "ncclRecv"),
};

constexpr SharedLibrary kLibrary = {"NCCL", kSonames, kSymbols, "2.14"};

Status Open(const char* library_path, Api* api) {
  RONDO_RETURN_IF_ERROR(OpenLibrary(kLibrary, library_path, api));
  int version = 0;
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->version(&version), "ncclGetVersion"));
  if (version >= kLeastVersion) return Status::Ok();
  return Status::Error(Code::kUnsupported, "NCCL has version number %d; 2.14 (%d) is needed", version,
                       kLeastVersion);
}

}  // namespace

Result<const Api*> OpenApi(const char* library_path) {
  static OpenedOnce<Api> opened;
  return opened.Get([&](Api* api) { return Open(library_path, api); });
}

Status ToStatus(const Api& api, Result_t result, const char* call, Comm comm) {
  if (result == kSuccess || result == kInProgress) return Status::Ok();
  const char* last = comm == nullptr ? nullptr : api.last_error(comm);
  return Status::Error(Code::kInternal, "%s: %s (%d)%s%s", call, api.error_string(result), result,
                       last != nullptr && *last != 0 ? ": " : "", last != nullptr ? last : "");
}

}  // namespace rondo::nccl
