// cuBLASLt, opened at run time.
//
// Types, numbers and functions are declared here as in cublasLt.h of CUDA 12 and 13, so that building needs
// no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

struct CUstream_st;

namespace rondo::cublaslt {

using Result_t = int;  // cublasStatus_t; 0 is success
using Handle = struct cublasLtContext*;
using Operation = struct cublasLtMatmulDescOpaque_t*;
using Layout = struct cublasLtMatrixLayoutOpaque_t*;
using Preference = struct cublasLtMatmulPreferenceOpaque_t*;
using Stream = ::CUstream_st*;

// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t.
struct Algorithm {
  uint64_t data[8] = {};
};
struct Candidate {
  Algorithm algorithm;
  size_t workspace_bytes = 0;
  Result_t state = 0;
  float waves = 0;
  int reserved[4] = {};
};

inline constexpr int kF32 = 0, kF16 = 2, kBF16 = 14;       // cudaDataType_t
inline constexpr int kComputeF32 = 68, kComputeTf32 = 77;  // cublasComputeType_t
inline constexpr int kPlain = 0, kTransposed = 1;          // cublasOperation_t
inline constexpr uint32_t kNoEpilogue = 1, kRelu = 2, kBias = 4,
                          kGelu = 32;  // cublasLtEpilogue_t, to be joined

// cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t.
enum OperationAttribute : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasAddress = 8,
  kBiasType = 26
};
enum LayoutAttribute : int { kBatches = 5, kBatchStride = 6 };
enum PreferenceAttribute : int {
  kMostWorkspace = 1,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8
};

struct Api {
  size_t (*version)();
  const char* (*status_string)(Result_t status);
  Result_t (*create)(Handle* handle);
  Result_t (*destroy)(Handle handle);
  Result_t (*operation_create)(Operation* operation, int compute_type, int scale_type);
  Result_t (*operation_destroy)(Operation operation);
  Result_t (*operation_set)(Operation operation, int attribute, const void* value, size_t bytes);
  Result_t (*layout_create)(Layout* layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
  Result_t (*layout_destroy)(Layout layout);
  Result_t (*layout_set)(Layout layout, int attribute, const void* value, size_t bytes);
  Result_t (*preference_create)(Preference* preference);
  Result_t (*preference_destroy)(Preference preference);
  Result_t (*preference_set)(Preference preference, int attribute, const void* value, size_t bytes);
  Result_t (*heuristic)(Handle handle, Operation operation, Layout a, Layout b, Layout c, Layout d,
                        Preference preference, int most, Candidate* candidates, int* found);
  Result_t (*matmul)(Handle handle, Operation operation, const void* alpha, const void* a, Layout a_layout,
                     const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout,
                     void* d, Layout d_layout, const Algorithm* algorithm, void* workspace,
                     size_t workspace_bytes, Stream stream);
};

// Opens libcublasLt.so.13 or .12 once in a process, first in the folders of `library_path` (separated by ':';
// null: none). kUnsupported when there is none; the message lists the places searched. Thread-safe.
Result<const Api*> OpenApi(const char* library_path);

// OK, or an error with the call and cuBLASLt's message.
Status ToStatus(const Api& api, Result_t result, const char* call);

}  // namespace rondo::cublaslt
