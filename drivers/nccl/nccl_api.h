// NCCL, opened at run time.
//
// Types and functions are declared here as nccl.h of NCCL 2.14 and later does, so that building needs no
// NCCL.
#ifndef RONDO_DRIVERS_NCCL_NCCL_API_H_
#define RONDO_DRIVERS_NCCL_NCCL_API_H_

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

// The part of ncclConfig_t that NCCL 2.14 knows: later ones take their defaults for the rest.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

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

// Opens libnccl.so.2, looked for first in the folders of `library_path` (separated by ':'; null: none), once
// a process: later calls get what the first one found. kUnsupported when it is not there or too old; the
// message says where it was looked for. Thread-safe.
Result<const Api*> OpenApi(const char* library_path);

// OK (an operation in progress included), or an error that names the call and what NCCL says.
Status ToStatus(const Api& api, Result_t result, const char* call, Comm comm = nullptr);

}  // namespace rondo::nccl

#endif  // RONDO_DRIVERS_NCCL_NCCL_API_H_
