// Copies from global to shared memory that go on while the thread does (cp.async), in groups: `commit_copies`
// ends one, `wait_copies<N>` waits until at most N of this thread's groups are pending.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ASYNC_COPY_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ASYNC_COPY_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// BYTES (4, 8 or 16) aligned bytes; zeros if absent.
template <int BYTES>
DEV void copy_async(u32 to, const char* from, bool present) {
  const int size = present ? BYTES : 0;
  if (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(size)
                 : "memory");
  }
}

// 16 aligned bytes; zeros if absent. ONCE: they are the first to leave L2. `to` must then be a register of
// the thread, not a sum with what all threads of the block have: for such sums ptxas 13.0 names registers
// that do not exist ("illegal instruction").
template <bool ONCE>
DEV void copy_async_16(u32 to, const char* from, bool present) {
  if (!ONCE) {
    copy_async<16>(to, from, present);
    return;
  }
  const int size = present ? 16 : 0;
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to),
               "l"(from), "r"(size), "l"(policy)
               : "memory");
}

DEV void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
DEV void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
// What this thread's copies and stores wrote to shared memory is seen by wgmma and TMA (sm_90 and later),
// after a barrier.
DEV void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ASYNC_COPY_CUH_
