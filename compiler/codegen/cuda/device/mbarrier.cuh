// Barriers in shared memory that count bytes on their way (sm_90 and later). All addresses are of shared
// memory.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MBARRIER_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MBARRIER_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

DEV void mbarrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
DEV void mbarrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
DEV void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives once what this thread began to copy (cp.async) is there; the thread goes on.
DEV void mbarrier_arrive_when_copied(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
DEV void mbarrier_wait(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
}
// Eight bytes into a block of the cluster, which count for its barrier; both addresses are the cluster's.
DEV void store_async(u32 address, u64 value, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(address),
      "l"(value), "r"(barrier)
      : "memory");
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MBARRIER_CUH_
