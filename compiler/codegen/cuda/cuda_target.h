// CudaTarget: the GPU that texts are written for; ParamFacts: what is known of the memory of a parameter.
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

// Elements of a row that the blocks of a cluster share, and rows of which they keep a value of each element.
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
  // How a kernel is computed, where it is one of its candidates; else, and what it leaves open, by estimate.
  KernelConfiguration configuration;
  // What estimates are made with; null: the table of the architecture. Borrowed.
  const cuda::GpuTable* table = nullptr;
  bool clusters() const { return architecture >= 90; }
  bool fp8() const { return architecture >= 89; }
  // Whether mma.sync multiplies FP8 itself: elsewhere wgmma does (sm_90a), or tcgen05.
  bool mma_fp8() const { return architecture == 89 || architecture >= 120; }
  bool warp_groups = true;  // sm_90a: has wgmma
  bool dependent_launch() const { return architecture >= 90; }
  // Small maps and attentions let the next kernel begin before they wait themselves.
  bool begins_early = false;
};

// "sm_90a": the largest GPU known of that architecture (formats/machine_code/architecture.h).
CudaTarget TargetOf(const std::string& architecture);

// The same for a plan's kernels. Those of weights in fewer bits begin early: what they fetch meanwhile is
// little. Of 16 bits, it would be taken from the matmul that still runs (a decode step of Llama-3-8B, 8
// layers, on an H200: 1136 us, where all begin early 1165).
CudaTarget TargetOf(const std::string& architecture, Span<const Kernel> kernels);

namespace cuda {

// What is known of the memory bound to a parameter, whichever step binds it.
struct ParamFacts {
  uint64_t alignment = 1;  // bytes
  bool constant = false;   // never written while a plan runs
};

}  // namespace cuda

}  // namespace rondo
