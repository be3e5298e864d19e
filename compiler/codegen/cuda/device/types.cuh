// The words of all device code: integers by width, and what a function is.
//
// Device code is C++20 for NVRTC, with no other header than those of this folder. Every kernel has one; the
// functions are inlined into it.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TYPES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TYPES_CUH_

#include "compiler/codegen/cuda/device/block_threads.h"

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

#define DEV static __device__ __forceinline__  // a function, or a static member
#define MEMBER __device__ __forceinline__      // a member of an object

DEV float bits_float(u32 u) { return __int_as_float((int)u); }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TYPES_CUH_
