// TargetTraits: the properties of targets that passes and fusion may use.
//
// A plain value. One graph serves all targets of a plan, so these are the traits of the deciding target
// (`Targets::traits`, compiler/targets.h), and a GPU's feature counts only if every GPU named has it.
#pragma once

namespace rondo {

struct TargetTraits {
  // Neighbouring threads should access neighbouring memory. Recomputing a scalar in each thread is cheap;
  // sequential work on one thread is slow.
  bool many_threads = false;
  // Tensor cores read 16-bit and 8-bit images with channels last, and an 8-bit B in lines along K.
  bool tensor_cores = false;
  // Updates by maximum or minimum may collide in one place.
  bool atomics = false;
  // A kernel may also store its result in a second form for other readers.
  bool stores_beside = false;
  // Widening bytes while reading is cheaper than the memory traffic of floats.
  bool widens_as_it_reads = false;
  // Convolutions reorder their inputs themselves, and want weights with output channels last.
  bool convolutions_reorder = false;
  // Kernels keep byte sums as 32-bit integers, correct them for zero points, and write final results.
  bool integer_epilogues = false;
  // Matmuls of every type and number of rows read packed weights.
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
