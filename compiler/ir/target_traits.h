// TargetTraits: what the passes and fusion may know of the machines that a plan is for.
//
// A plain value. One graph serves all targets of a plan, so the traits are those of the target that decides
// (`Targets::traits`, compiler/targets.h), and a GPU's feature counts only where every GPU named has it.
#pragma once

namespace rondo {

struct TargetTraits {
  // Neighbouring threads want neighbouring memory. Each may compute a scalar again for itself; one thread
  // that works alone, in order, is slow.
  bool many_threads = false;
  // Tensor cores read 16-bit and 8-bit pictures with their channels last, and B of 8 bits in lines along K.
  bool tensor_cores = false;
  // Updates that keep a maximum or minimum may meet in one place.
  bool atomics = false;
  // A kernel may store its result in a second form for other readers.
  bool stores_beside = false;
  // Bytes are widened as they are read for less than floats cost in memory.
  bool widens_as_it_reads = false;
  // Convolutions bring what they read into their own order, and want weights with output channels last.
  bool convolutions_reorder = false;
  // Kernels keep sums of bytes as 32-bit integers, correct them for zero points, and write what they become
  // to where it belongs.
  bool integer_epilogues = false;
  // Packed weights are read by matmuls of every type and number of rows.
  bool packed_everywhere = false;
  bool wgmma = false;     // matmuls of any number of rows read packed weights
  bool clusters = false;  // blocks of a cluster can share a row
  bool fp8 = false;       // tensor cores multiply FP8
};

// The host's.
constexpr TargetTraits HostTraits() {
  TargetTraits host;
  host.widens_as_it_reads = host.convolutions_reorder = true;
  host.integer_epilogues = host.packed_everywhere = true;
  return host;
}

// What every GPU has.
constexpr TargetTraits GpuTraits() {
  TargetTraits gpu;
  gpu.many_threads = gpu.tensor_cores = gpu.atomics = gpu.stores_beside = true;
  return gpu;
}

}  // namespace rondo
