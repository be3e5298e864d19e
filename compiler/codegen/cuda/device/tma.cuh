// TMA (sm_90a): boxes of tensors, copied into shared memory by one thread's word, and the barriers that count
// their bytes.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_CUH_

#include "compiler/codegen/cuda/device/mbarrier.cuh"

typedef TensorMapParam TensorMap;  // a parameter of the kernel
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

DEV void mbarrier_arrive_remote(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
DEV void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// So many bytes that lie one after another, a multiple of 16 at multiples of 16.
DEV void copy_bulk(u32 to, const char* from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// The box at these coordinates, into the same place of every block of the cluster that `blocks` has a bit
// for.
template <bool SHARED>
DEV void tma_copy(u32 to, const TensorMap* map, u32 barrier, u32 blocks, int x, int y, int z) {
  if (SHARED) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"((unsigned short)blocks), "r"(x), "r"(y), "r"(z)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
        "%5}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
  }
}
template <bool SHARED>
DEV void tma_copy(u32 to, const TensorMap* map, u32 barrier, u32 blocks, int x, int y, int x_far, int y_far,
                  int z) {
  if (SHARED) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"((unsigned short)blocks), "r"(x), "r"(y), "r"(x_far), "r"(y_far), "r"(z)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6, %7}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(x_far), "r"(y_far), "r"(z)
        : "memory");
  }
}

// A box of shared memory into the tensor, but for what lies beyond its extents; one of a group of stores.
DEV void tma_store(u32 from, const TensorMap* map, int x, int y, int x_far, int y_far, int z) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(x_far), "r"(y_far), "r"(z)
      : "memory");
}
DEV void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most PENDING groups of this thread's stores still read shared memory.
template <int PENDING>
DEV void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
// All of this thread's stores are in memory.
DEV void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_CUH_
