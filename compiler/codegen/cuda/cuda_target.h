// CudaTarget: the GPU that texts are generated for; ParamFacts: what is known about the memory of a
// parameter.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/codegen/cuda/device/block_threads.h"
#include "compiler/codegen/cuda/kernel_configuration.h"
#include "core/kernel.h"

namespace rondo {

namespace cuda {
struct GpuTable;  // gpu_table.h
}

// Elements of a row that the blocks of a cluster may share, and the most rows whose elements they keep.
inline constexpr int64_t kLeastTeamRow = 1 << 14, kMostTeamRow = 1 << 17, kMostTeamRows = 32;
inline constexpr uint32_t kCudaBlock = cuda::kBlockThreads;  // threads of most launches' blocks
inline constexpr uint32_t kCudaSharedBytes = 48 << 10;       // static shared memory that every launch may use

// What the text is written for.
struct CudaTarget {
  int architecture = 90;        // 10 * major + minor
  uint32_t processors = 132;    // multiprocessors that a launch should fill
  uint32_t shared = 227 << 10;  // bytes of shared memory that a block can have
  uint32_t shared_processor =
      228 << 10;  // bytes that the blocks of a multiprocessor share, 1 KiB a block for itself
  // The requested configuration, for kernels that have it as a candidate. Otherwise, and for open fields: by
  // estimate.
  KernelConfiguration configuration;
  // The table for estimates; null: the architecture's. Borrowed.
  const cuda::GpuTable* table = nullptr;
  bool clusters() const { return architecture >= 90; }
  bool fp8() const { return architecture >= 89; }
  // Whether mma.sync multiplies FP8 itself: elsewhere wgmma does (sm_90a), or tcgen05.
  bool mma_fp8() const { return architecture == 89 || architecture >= 120; }
  bool warp_groups = true;  // sm_90a: has wgmma
  bool dependent_launch() const { return architecture >= 90; }
  // Small maps and attention let the next kernel begin before they wait themselves.
  bool begins_early = false;
};

// "sm_90a": the largest GPU known of that architecture (formats/machine_code/architecture.h).
CudaTarget TargetOf(const std::string& architecture);

// The same for a plan's kernels. Kernels with packed weights begin early, since they fetch little meanwhile.
// With 16-bit weights, the fetches would slow down the matmul that still runs (a decode step of Llama-3-8B, 8
// layers, on an H200: 1136 us; 1165 if all begin early).
CudaTarget TargetOf(const std::string& architecture, Span<const Kernel> kernels);

namespace cuda {

// What is known about the memory bound to a parameter in every step.
struct ParamFacts {
  uint64_t alignment = 1;      // bytes
  bool constant = false;       // never written while a plan runs
  uint64_t all_constants = 0;  // bytes of constants that a run of a program that binds it reads: the most
};

}  // namespace cuda

}  // namespace rondo
