// A libcublasLt over fake_cuda. It computes matmuls of f32 element by element when they run, and has three
// algorithms that need 0, 1 KiB and 64 KiB of scratch. The second launches two kernels.
#pragma once

#include <cstdint>

#define RONDO_FAKE_LT_API __attribute__((visibility("default")))

namespace rondo::fake_cublaslt {

struct Counts {
  int64_t handles = 0, objects = 0;  // held by programs
  int64_t matmuls = 0;               // matmuls computed
  int64_t bad_scratch = 0;           // enqueued with scratch that is too short, or not aligned to 256 bytes
  int algorithm = -1;                // of the last one enqueued
  int (*on_create)() = nullptr;      // called by cublasLtCreate, which fails with its result unless that is 0
};
extern "C" RONDO_FAKE_LT_API Counts* RondoFakeCublasLtCounts();

}  // namespace rondo::fake_cublaslt
