#include "drivers/nccl/nccl_api.h"

#include <dlfcn.h>

#include <cstdio>

#include "drivers/library/shared_library.h"

namespace rondo::nccl {
namespace {

constexpr const char* kSonames[] = {"libnccl.so.2"};
constexpr int kLeastVersion = Version(2, 14);  // the first with non-blocking communicators

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
  return Status::Error(Code::kUnsupported, "NCCL is %s; 2.14 is needed", VersionText(version).text);
}

}  // namespace

Result<const Api*> OpenApi(const char* library_path) {
  static OpenedOnce<Api> opened;
  return opened.Get([&](Api* api) { return Open(library_path, api); });
}

int VersionOf(const Api& api) {
  int version = 0;
  return api.version(&version) == kSuccess ? version : 0;
}

// Up to 2.8, NCCL multiplied the major number by 1000.
VersionText::VersionText(int version) {
  const int factor = version < 10000 ? 1000 : 10000;
  std::snprintf(text, sizeof(text), "%d.%d.%d", version / factor, version % factor / 100, version % 100);
}

const char* FileOf(const Api& api) {
  Dl_info info = {};
  const bool found = dladdr(reinterpret_cast<const void*>(api.version), &info) != 0;
  return found && info.dli_fname != nullptr ? info.dli_fname : "";
}

Status ToStatus(const Api& api, Result_t result, const char* call, Comm comm) {
  if (result == kSuccess || result == kInProgress) return Status::Ok();
  const char* last = comm == nullptr ? nullptr : api.last_error(comm);
  return Status::Error(Code::kInternal, "%s: %s (%d)%s%s", call, api.error_string(result), result,
                       last != nullptr && *last != 0 ? ": " : "", last != nullptr ? last : "");
}

}  // namespace rondo::nccl
