// Compares the drivers' own declarations of CUDA, NCCL and cuBLASLt with the toolkit's headers. Compiled only
// if these are installed.
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "drivers/cuda/cublaslt_api.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_constants.h"
#include "drivers/nccl/nccl_api.h"

#ifdef RONDO_CUDA_HEADER
#include <cuda.h>
#endif
#ifdef RONDO_HAVE_NCCL_HEADER
#include <nccl.h>
#endif
#ifdef RONDO_HAVE_CUBLASLT_HEADER
#include <cublasLt.h>
#endif

namespace rondo {
namespace {

// Our constant equals theirs.
#define SAME(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours " is not " #theirs)
// Our field has the offset and size of theirs.
#define SAME_FIELD(our_type, ours, their_type, theirs)                      \
  static_assert(offsetof(our_type, ours) == offsetof(their_type, theirs) && \
                    sizeof(our_type::ours) == sizeof(their_type::theirs),   \
                #our_type "." #ours " is not " #their_type "." #theirs)

#ifdef RONDO_CUDA_HEADER
namespace cuda_h {
using namespace cuda;

SAME(kOutOfMemoryError, CUDA_ERROR_OUT_OF_MEMORY);
SAME(kPeerEnabledError, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(kAssert, CUDA_ERROR_ASSERT);
SAME(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(kInvalidPc, CUDA_ERROR_INVALID_PC);
SAME(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME(kMpsClientTerminated, CUDA_ERROR_MPS_CLIENT_TERMINATED);
SAME(kExternalDevice, CUDA_ERROR_EXTERNAL_DEVICE);
#if CUDA_VERSION >= 13000
SAME(kContained, CUDA_ERROR_CONTAINED);
SAME(kTensorMemoryLeak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif

SAME(kNoTiming, CU_EVENT_DISABLE_TIMING);
SAME(kRecordExternal, CU_EVENT_RECORD_EXTERNAL);
SAME(kNonBlockingStream, CU_STREAM_NON_BLOCKING);
SAME(kPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME(kMapped, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(kThreadLocalCapture, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(kDependentLaunch, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(kMajorAttribute, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(kProcessorsAttribute, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(kMinorAttribute, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(kBlockSharedAttribute, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(kFunctionThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(kFunctionShared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(kErrorLog, CU_JIT_ERROR_LOG_BUFFER);
SAME(kErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(kMostDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(kHostMemory, CU_MEMORYTYPE_HOST);
SAME(kDeviceMemory, CU_MEMORYTYPE_DEVICE);
SAME(kMapF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(kMapF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(kMapBF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(kNoInterleave, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(kNoSwizzle, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(kSwizzle32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(kSwizzle64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(kSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(kPromoteToL2_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(kFillZeros, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
SAME_FIELD(LaunchAttribute, bytes, CUlaunchAttribute, value);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, grid) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
SAME_FIELD(LaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
SAME_FIELD(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME_FIELD(LaunchConfig, attributes, CUlaunchConfig, attrs);
SAME_FIELD(LaunchConfig, num_attributes, CUlaunchConfig, numAttrs);
static_assert(sizeof(KernelNodeParams) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(KernelNodeParams, grid) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
static_assert(offsetof(KernelNodeParams, block) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
SAME_FIELD(KernelNodeParams, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
SAME_FIELD(KernelNodeParams, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
SAME_FIELD(KernelNodeParams, params, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
SAME_FIELD(KernelNodeParams, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra);
SAME_FIELD(KernelNodeParams, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
SAME_FIELD(KernelNodeParams, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);
static_assert(sizeof(CopyNodeParams) == sizeof(CUDA_MEMCPY3D));
SAME_FIELD(CopyNodeParams, from.x, CUDA_MEMCPY3D, srcXInBytes);
SAME_FIELD(CopyNodeParams, from.memory_type, CUDA_MEMCPY3D, srcMemoryType);
SAME_FIELD(CopyNodeParams, from.host, CUDA_MEMCPY3D, srcHost);
SAME_FIELD(CopyNodeParams, from.device, CUDA_MEMCPY3D, srcDevice);
SAME_FIELD(CopyNodeParams, from.pitch, CUDA_MEMCPY3D, srcPitch);
SAME_FIELD(CopyNodeParams, from.height, CUDA_MEMCPY3D, srcHeight);
SAME_FIELD(CopyNodeParams, to.x, CUDA_MEMCPY3D, dstXInBytes);
SAME_FIELD(CopyNodeParams, to.memory_type, CUDA_MEMCPY3D, dstMemoryType);
SAME_FIELD(CopyNodeParams, to.device, CUDA_MEMCPY3D, dstDevice);
SAME_FIELD(CopyNodeParams, to.pitch, CUDA_MEMCPY3D, dstPitch);
SAME_FIELD(CopyNodeParams, width, CUDA_MEMCPY3D, WidthInBytes);
SAME_FIELD(CopyNodeParams, height, CUDA_MEMCPY3D, Height);
SAME_FIELD(CopyNodeParams, depth, CUDA_MEMCPY3D, Depth);
static_assert(CopyEnd().memory_type == kDeviceMemory);
static_assert(sizeof(EncodedMap) == sizeof(CUtensorMap) && alignof(EncodedMap) >= alignof(CUtensorMap));
static_assert(sizeof(Address) == sizeof(CUdeviceptr) && sizeof(DeviceId) == sizeof(CUdevice));

// One "CUDA_... = number" of the header, and the comment before it.
struct DocumentedError {
  std::string name, says;
  int number = 0;
};
std::vector<DocumentedError> ErrorsOfTheHeader() {
  std::vector<DocumentedError> errors;
  std::ifstream file(RONDO_CUDA_HEADER);
  bool inside = false;
  std::string says;
  for (std::string line; std::getline(file, line);) {
    inside = inside || line.find("typedef enum cudaError_enum") != std::string::npos;
    if (!inside) continue;
    if (line.find("} CUresult;") != std::string::npos) break;
    std::istringstream words(line);
    std::string word, equals;
    words >> word;
    if (word == "/**") says.clear();
    DocumentedError error;
    if (word.rfind("CUDA_", 0) == 0 && words >> equals >> error.number) {
      error.name = word;
      error.says = says;
      errors.push_back(error);
    }
    while (words >> word) says += " " + word;
  }
  return errors;
}

// These are final: the errors after which, by the header, the process must be restarted; and
// ECC_UNCORRECTABLE, ASSERT and CONTEXT_IS_DESTROYED, after which no call on the context works.
TEST(ToolkitHeaders, ErrorsThatEndAProcessAreFinal) {
  const std::vector<DocumentedError> errors = ErrorsOfTheHeader();
  int ending = 0;
  for (const DocumentedError& error : errors) {
    const bool says = error.says.find("process must be terminated") != std::string::npos;
    const bool more =
        error.number == kEccUncorrectable || error.number == kAssert || error.number == kContextIsDestroyed;
    EXPECT_EQ(IsFinal(error.number), says || more) << error.name << ":" << error.says;
    ending += says;
  }
  EXPECT_GT(errors.size(), 50u);
  EXPECT_GT(ending, 8);
}

}  // namespace cuda_h
#else
TEST(ToolkitHeaders, Cuda) { GTEST_SKIP() << "cuda.h is not on this machine"; }
#endif

#ifdef RONDO_HAVE_NCCL_HEADER
namespace nccl_h {
using namespace nccl;

SAME(kSuccess, ncclSuccess);
SAME(kInProgress, ncclInProgress);
SAME(kSum, ncclSum);
SAME(kInt8, ncclInt8);
SAME(kUint8, ncclUint8);
SAME(kInt32, ncclInt32);
SAME(kUint32, ncclUint32);
SAME(kInt64, ncclInt64);
SAME(kUint64, ncclUint64);
SAME(kFloat16, ncclFloat16);
SAME(kFloat32, ncclFloat32);
SAME(kFloat64, ncclFloat64);
SAME(kBfloat16, ncclBfloat16);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
SAME_FIELD(Config, size, ncclConfig_t, size);
SAME_FIELD(Config, magic, ncclConfig_t, magic);
SAME_FIELD(Config, version, ncclConfig_t, version);
SAME_FIELD(Config, blocking, ncclConfig_t, blocking);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 17, 0)
SAME_FIELD(Config, most_blocks, ncclConfig_t, maxCTAs);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
SAME_FIELD(Config, graph_usage, ncclConfig_t, graphUsageMode);
#endif

// Fields in both structs have the header's defaults, except `blocking`.
TEST(ToolkitHeaders, ConfigurationsOfNcclBeginAlike) {
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  Config ours;
  EXPECT_EQ(ours.version, static_cast<unsigned>(NCCL_VERSION(2, 29, 0)));
  EXPECT_EQ(Version(2, 29), NCCL_VERSION(2, 29, 0));
  EXPECT_EQ(ours.blocking, 0);
  const size_t both = std::min(ours.size, theirs.size);
  theirs.size = ours.size;
  theirs.version = ours.version;
  ours.blocking = theirs.blocking;
  EXPECT_EQ(std::memcmp(&ours, &theirs, both), 0);
}

}  // namespace nccl_h
#else
TEST(ToolkitHeaders, Nccl) { GTEST_SKIP() << "nccl.h is not on this machine"; }
#endif

#ifdef RONDO_HAVE_CUBLASLT_HEADER
namespace cublaslt_h {
using namespace cublaslt;

SAME(kF32, CUDA_R_32F);
SAME(kF16, CUDA_R_16F);
SAME(kBF16, CUDA_R_16BF);
SAME(kComputeF32, CUBLAS_COMPUTE_32F);
SAME(kComputeTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(kPlain, CUBLAS_OP_N);
SAME(kTransposed, CUBLAS_OP_T);
SAME(kNoEpilogue, CUBLASLT_EPILOGUE_DEFAULT);
SAME(kRelu, CUBLASLT_EPILOGUE_RELU);
SAME(kBias, CUBLASLT_EPILOGUE_BIAS);
SAME(kGelu, CUBLASLT_EPILOGUE_GELU);
SAME(kTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(kTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(kBiasAddress, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(kBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(kBatches, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(kBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(kMostWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(kAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(kAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(kAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(kAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
SAME_FIELD(Candidate, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_FIELD(Candidate, state, cublasLtMatmulHeuristicResult_t, state);
SAME_FIELD(Candidate, waves, cublasLtMatmulHeuristicResult_t, wavesCount);

}  // namespace cublaslt_h
#else
TEST(ToolkitHeaders, CublasLt) { GTEST_SKIP() << "cublasLt.h is not on this machine"; }
#endif

}  // namespace
}  // namespace rondo
