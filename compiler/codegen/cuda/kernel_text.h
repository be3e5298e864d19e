// CUDA C++ text for kernels: each skeleton is a template that a kernel's loops, accesses and tapes fill.
//
// The text is deterministic and begins with #include lines of the device headers (device_headers.h) that it
// needs. Every part of a kernel owns a run of blocks of one launch. All launches have kCudaBlock threads a
// block, but those of matmuls whose tiles TMA brings: one warp more, or less.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_KERNEL_TEXT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_KERNEL_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/product_choice.h"
#include "compiler/codegen/cuda/product_shape.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

inline constexpr uint32_t kCudaBlock = 256;
inline constexpr uint32_t kCudaSharedBytes = 48 << 10;  // static shared memory that every launch may use

// What the text is written for.
struct CudaTarget {
  int architecture = 90;        // 10 * major + minor
  uint32_t processors = 132;    // multiprocessors that a launch should fill
  uint32_t shared = 227 << 10;  // bytes of shared memory that a block can have
  uint32_t shared_processor =
      228 << 10;  // bytes that the blocks of a multiprocessor share, 1 KiB a block for itself
  // How products are computed, where it is one of the ways they can be; else, and what it leaves open, by
  // estimate.
  ProductChoice product;
  bool clusters() const { return architecture >= 90; }
  bool warp_groups = true;  // sm_90a: has wgmma
  bool dependent_launch() const { return architecture >= 90; }
};

// "sm_90a": the largest GPU known of that architecture (formats/machine_code/architecture.h).
CudaTarget TargetOf(const std::string& architecture);

// Every tile that products of 16-bit types can be computed by, its cluster left open.
std::vector<ProductChoice> TileChoices(const CudaTarget& target);
// Every way of the products whose tiles the copy engine brings.
std::vector<ProductChoice> BulkChoices(const CudaTarget& target);

struct KernelText {
  std::string text;             // includes and definitions, ending in one extern "C" __global__ function
  std::string entry;            // its name, after what the kernel does: kernels of one plan may share it
  uint32_t grid = 1;            // blocks
  uint32_t block = kCudaBlock;  // threads a block
  uint32_t shared = 0;          // bytes of dynamic shared memory a block
  std::vector<TensorMap> tensor_maps;
  bool waits = false;  // begins with a wait for the kernels before it: may be launched before they end
  // Of its product with most work, if a fast template computes it: how, and all ways that it could be.
  ProductChoice choice;
  std::vector<ProductOffer> offers;
};

// Parameters of the function: one `char*` a kernel parameter, then the tensor maps, then the fault record
// (`unsigned long long*`, 4 words: taken, step, operand value, extent) and the step's number (`unsigned`).
// `params`: one a kernel parameter. Errors: kUnsupported, naming the kernel, for a part that no template here
// can run.
Result<KernelText> WriteKernelText(const Kernel& kernel, const CudaTarget& target,
                                   Span<const cuda::ParamFacts> params);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_KERNEL_TEXT_H_
