// Constants of cuda.h. Each names its original; tests/cuda/toolkit_headers_test.cc compares them with the
// toolkit's header where there is one.
#pragma once

#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

// CUDA_ERROR_*
inline constexpr Error kOutOfMemoryError = 2;    // OUT_OF_MEMORY
inline constexpr Error kPeerEnabledError = 704;  // PEER_ACCESS_ALREADY_ENABLED
// Errors after which, as cuda.h says, the process must be restarted.
inline constexpr Error kEccUncorrectable = 214, kContained = 226, kIllegalAddress = 700, kLaunchTimeout = 702,
                       kContextIsDestroyed = 709, kAssert = 710, kHardwareStackError = 714,
                       kIllegalInstruction = 715, kMisalignedAddress = 716, kInvalidAddressSpace = 717,
                       kInvalidPc = 718, kLaunchFailed = 719, kTensorMemoryLeak = 721,
                       kMpsClientTerminated = 810, kExternalDevice = 911;

inline constexpr unsigned kNoTiming = 2;           // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kRecordExternal = 1;     // CU_EVENT_RECORD_EXTERNAL
inline constexpr unsigned kNonBlockingStream = 1;  // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kPortable = 1;           // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kMapped = 2;             // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr int kThreadLocalCapture = 1;      // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr int kDependentLaunch = 6;         // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

// CU_DEVICE_ATTRIBUTE_*
inline constexpr int kProcessorsAttribute = 16;   // MULTIPROCESSOR_COUNT
inline constexpr int kPciBusAttribute = 33;       // PCI_BUS_ID
inline constexpr int kPciDeviceAttribute = 34;    // PCI_DEVICE_ID
inline constexpr int kPciDomainAttribute = 50;    // PCI_DOMAIN_ID
inline constexpr int kMajorAttribute = 75;        // COMPUTE_CAPABILITY_MAJOR
inline constexpr int kMinorAttribute = 76;        // COMPUTE_CAPABILITY_MINOR
inline constexpr int kBlockSharedAttribute = 97;  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN

// CU_FUNC_ATTRIBUTE_*
inline constexpr int kFunctionThreads = 0;               // MAX_THREADS_PER_BLOCK
inline constexpr int kFunctionShared = 1;                // SHARED_SIZE_BYTES
inline constexpr int kFunctionRegisters = 4;             // NUM_REGS
inline constexpr int kErrorLog = 5, kErrorLogBytes = 6;  // JIT_ERROR_LOG_BUFFER, and its size
inline constexpr int kMostDynamicShared = 8;             // MAX_DYNAMIC_SHARED_SIZE_BYTES

inline constexpr int kMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
// CU_MEMORYTYPE_*; 0 where CUDA does not know the memory.
inline constexpr int kHostMemory = 1;    // HOST
inline constexpr int kDeviceMemory = 2;  // DEVICE

// CUtensorMap*
inline constexpr int kMapF16 = 6;           // CU_TENSOR_MAP_DATA_TYPE_FLOAT16
inline constexpr int kMapF32 = 7;           // CU_TENSOR_MAP_DATA_TYPE_FLOAT32
inline constexpr int kMapBF16 = 9;          // CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
inline constexpr int kNoInterleave = 0;     // CU_TENSOR_MAP_INTERLEAVE_NONE
inline constexpr int kNoSwizzle = 0;        // CU_TENSOR_MAP_SWIZZLE_NONE
inline constexpr int kSwizzle32 = 1;        // CU_TENSOR_MAP_SWIZZLE_32B
inline constexpr int kSwizzle64 = 2;        // CU_TENSOR_MAP_SWIZZLE_64B
inline constexpr int kSwizzle128 = 3;       // CU_TENSOR_MAP_SWIZZLE_128B
inline constexpr int kPromoteToL2_256 = 3;  // CU_TENSOR_MAP_L2_PROMOTION_L2_256B
inline constexpr int kFillZeros = 0;        // CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE

}  // namespace rondo::cuda
