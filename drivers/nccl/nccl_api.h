// NCCL, opened at run time.
//
// Types and functions are declared here as in nccl.h of NCCL 2.14 and later, so that building needs no NCCL.
#pragma once

#include <climits>
#include <cstddef>

#include "core/status.h"

struct CUstream_st;

namespace rondo::nccl {

using Result_t = int;                                     // ncclResult_t
inline constexpr Result_t kSuccess = 0, kInProgress = 7;  // ncclSuccess, ncclInProgress
inline constexpr int kSum = 0;                            // ncclRedOp_t: ncclSum
// ncclDataType_t.
inline constexpr int kInt8 = 0, kUint8 = 1, kInt32 = 2, kUint32 = 3, kInt64 = 4, kUint64 = 5, kFloat16 = 6,
                     kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;
using Comm = struct ncclComm*;
using Stream = ::CUstream_st*;

struct UniqueId {
  char bytes[128];
};

// NCCL 2.29.7 as it numbers itself.
constexpr int Version(int major, int minor, int patch = 0) { return major * 10000 + minor * 100 + patch; }

// The part of ncclConfig_t that NCCL 2.29 knows. Fields are only added at its end: an older library reads the
// fields that it knows, a newer one uses its defaults for the rest. Undefined fields get defaults, too.
inline constexpr int kUndefined = INT_MIN;  // NCCL_CONFIG_UNDEF_INT
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = Version(2, 29);  // the version with these fields
  int blocking = 0;
  int cluster_size = kUndefined;
  int least_blocks = kUndefined;  // of a collective's kernel
  int most_blocks = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* name = nullptr;
  int collnet = kUndefined;
  int block_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_blocks = kUndefined;
  int channels_per_peer = kUndefined;
  int nvlink_centric = kUndefined;
  int graph_usage = kUndefined;
  int rma_contexts = kUndefined;
};
inline constexpr int kGraphsOnly = 1;  // Config::graph_usage: no calls beside graphs, nor graphs side by side

struct Api {
  Result_t (*version)(int* version);
  Result_t (*unique_id)(UniqueId* id);
  Result_t (*init_rank)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  Result_t (*state)(Comm comm, Result_t* state);
  Result_t (*abort)(Comm comm);
  Result_t (*destroy)(Comm comm);
  const char* (*error_string)(Result_t result);
  const char* (*last_error)(Comm comm);
  Result_t (*group_start)();
  Result_t (*group_end)();
  Result_t (*all_reduce)(const void* from, void* to, size_t count, int type, int op, Comm comm,
                         Stream stream);
  Result_t (*all_gather)(const void* from, void* to, size_t count, int type, Comm comm, Stream stream);
  Result_t (*reduce_scatter)(const void* from, void* to, size_t count, int type, int op, Comm comm,
                             Stream stream);
  Result_t (*broadcast)(const void* from, void* to, size_t count, int type, int root, Comm comm,
                        Stream stream);
  Result_t (*send)(const void* from, size_t count, int type, int peer, Comm comm, Stream stream);
  Result_t (*receive)(void* to, size_t count, int type, int peer, Comm comm, Stream stream);
};

// Opens libnccl.so.2 once in a process, first in the folders of `library_path` (separated by ':'; null:
// none); later calls return the same. kUnsupported when it is missing or too old; the message lists the
// places searched. Thread-safe.
Result<const Api*> OpenApi(const char* library_path);

// NCCL's own version number; 0 if unknown.
int VersionOf(const Api& api);
// "2.28.9".
struct VersionText {
  explicit VersionText(int version);
  char text[24];
};
// The file that it was opened from; "" if unknown.
const char* FileOf(const Api& api);

// OK (also for an operation in progress), or an error with the call and NCCL's message.
Status ToStatus(const Api& api, Result_t result, const char* call, Comm comm = nullptr);

}  // namespace rondo::nccl
