// What a launch passes to a generated kernel, written once: device code (compiler/codegen/cuda/device)
// includes this file, as do CheckBinaries and the cuda driver. It includes nothing.
//
// A kernel takes an address for each of its operands' parameters, then its tensor maps, then KERNEL_TAIL.
#ifndef RONDO_FORMATS_MACHINE_CODE_KERNEL_PARAMS_H_
#define RONDO_FORMATS_MACHINE_CODE_KERNEL_PARAMS_H_

namespace rondo::cuda {

// The first index out of range that a kernel met: whether there was one, in which step, the index, and the
// extent that it should have been below. The cuda driver's small collectives have other uses for it
// (drivers/cuda/peer_collectives/exchange_layout.h).
struct FaultRecord {
  unsigned long long taken, step, value, extent;
};

// A CUtensorMap: how a kernel sees memory that TMA cuts boxes from. CUDA 12 aligns it to 64 bytes.
struct alignas(64) TensorMapParam {
  unsigned long long words[16];
};

// Where a kernel records a fault, and the number of the step that launched it.
#define KERNEL_TAIL ::rondo::cuda::FaultRecord *faults, unsigned step

}  // namespace rondo::cuda

#endif  // RONDO_FORMATS_MACHINE_CODE_KERNEL_PARAMS_H_
