// What a launch passes to a generated kernel, written once: device code (compiler/codegen/cuda/device)
// includes this file, as do CheckBinaries and the cuda driver. It includes nothing.
//
// A kernel takes an address for each of its operands' parameters, then its tensor maps, then KERNEL_TAIL.
#ifndef RONDO_FORMATS_MACHINE_CODE_KERNEL_PARAMS_H_
#define RONDO_FORMATS_MACHINE_CODE_KERNEL_PARAMS_H_

namespace rondo::cuda {

// The first fault of a run: what it is (0: there is none), its step, and by what it is,
// - kIndexFault: the index, and the extent that it should have been below;
// - kAssertFault: which of the kernel's assertions failed, and whether it met NaN (0), infinity or -infinity
//   (1, -1).
// The cuda driver's small collectives have other uses for it
// (drivers/cuda/peer_collectives/exchange_layout.h).
struct FaultRecord {
  unsigned long long taken, step, value, extent;
};
enum : unsigned { kIndexFault = 1, kAssertFault = 4 };

// A CUtensorMap: how a kernel sees memory that TMA cuts boxes from. CUDA 12 aligns it to 64 bytes.
struct alignas(64) TensorMapParam {
  unsigned long long words[16];
};

// Where a kernel records a fault, and the number of the step that launched it.
#define KERNEL_TAIL ::rondo::cuda::FaultRecord *faults, unsigned step

}  // namespace rondo::cuda

#endif  // RONDO_FORMATS_MACHINE_CODE_KERNEL_PARAMS_H_
