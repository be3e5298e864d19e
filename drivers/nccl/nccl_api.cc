#include "drivers/nccl/nccl_api.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <mutex>

namespace rondo::nccl {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr int kLeastVersion = 21400;  // the first with non-blocking communicators

struct Symbol {
  const char* name;
  size_t offset;
};

#define RONDO_SYMBOL(member, name) \
  { name, offsetof(Api, member) }

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
};

void* OpenLibrary(const char* library_path) {
  char place[4096];
  const char* at = library_path == nullptr ? "" : library_path;
  while (*at != 0) {
    const size_t length = std::strcspn(at, ":");
    const int written =
        std::snprintf(place, sizeof(place), "%.*s/%s", static_cast<int>(length), at, kLibrary);
    if (written > 0 && static_cast<size_t>(written) < sizeof(place)) {
      if (void* library = dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
    }
    at += length;
    if (*at == ':') ++at;
  }
  return dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
}

Status Open(const char* library_path, Api* api) {
  void* library = OpenLibrary(library_path);
  if (library == nullptr) {
    const char* why = dlerror();
    return Status::Error(
        Code::kUnsupported, "NCCL cannot be opened: %s; looked for %s in \"%s\" and where the system looks",
        why != nullptr ? why : "no reason given", kLibrary, library_path == nullptr ? "" : library_path);
  }
  for (const Symbol& symbol : kSymbols) {
    void* function = dlsym(library, symbol.name);
    if (function == nullptr) {
      return Status::Error(Code::kUnsupported, "NCCL is too old: it has no %s; 2.14 is needed", symbol.name);
    }
    *reinterpret_cast<void**>(reinterpret_cast<char*>(api) + symbol.offset) = function;
  }
  int version = 0;
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->version(&version), "ncclGetVersion"));
  if (version >= kLeastVersion) return Status::Ok();
  return Status::Error(Code::kUnsupported, "NCCL has version number %d; 2.14 (%d) is needed", version,
                       kLeastVersion);
}

struct Opened {
  Api api = {};
  Status status;
};

}  // namespace

Result<const Api*> OpenApi(const char* library_path) {
  static std::mutex mutex;
  static Opened opened;
  static bool done = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (!done) {
    opened.status = Open(library_path, &opened.api);
    done = opened.status.ok();  // another path may have it
  }
  if (!opened.status.ok()) return opened.status;
  return &opened.api;
}

Status ToStatus(const Api& api, Result_t result, const char* call, Comm comm) {
  if (result == kSuccess || result == kInProgress) return Status::Ok();
  const char* last = comm == nullptr ? nullptr : api.last_error(comm);
  return Status::Error(Code::kInternal, "%s: %s (%d)%s%s", call, api.error_string(result), result,
                       last != nullptr && *last != 0 ? ": " : "", last != nullptr ? last : "");
}

}  // namespace rondo::nccl
