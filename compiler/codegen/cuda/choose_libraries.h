// ChooseLibraries: decides which matmuls of a program a vendor library computes, and which are generated.
#pragma once

#include <functional>
#include <string>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/fusion/lowered.h"
#include "core/status.h"

namespace rondo {

enum class Matmuls : uint8_t {
  kAuto,       // by estimate
  kGenerated,  // none by a library
  kLibrary,    // by a library wherever possible
};

struct LibraryOptions {
  Matmuls matmuls = Matmuls::kAuto;
  // The requested configuration of a kernel (by a profile): a library, something else, or open. May be empty.
  // Comes before `matmuls`.
  std::function<KernelConfiguration(const Kernel& kernel)> configuration;
};

// Marks ops that a library computes (LoweredOp::library), and gives them a workspace that lives for the op.
// An op whose epilogue no library supports is first split (SplitEpilogue) where that pays. Estimates are
// those of KernelCandidates. Annotations of an op (`matmul`, `deterministic`) take precedence over the
// options. `text` gets one sentence.
Status ChooseLibraries(LoweredProgram* program, const CudaTarget& target, const LibraryOptions& options,
                       std::string* text);

}  // namespace rondo
