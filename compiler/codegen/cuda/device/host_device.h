// What headers begin with that both the compiler (g++) and device code (NVRTC) include: layouts of shared
// memory and shapes of launches, each defined once. They include nothing else. Constants are enumerators:
// of variables, NVRTC would give every kernel one each.
#pragma once

#ifdef __CUDACC_RTC__
#define HOST_DEVICE __host__ __device__ constexpr  // a function of both

namespace rondo::cuda {}
using namespace rondo::cuda;  // device code has no namespaces
#else
#define HOST_DEVICE constexpr
#endif
