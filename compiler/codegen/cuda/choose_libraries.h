// ChooseLibraries: which matmuls of a program a vendor library computes, and which are generated.
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
  kLibrary,    // by a library wherever one can
};

struct LibraryOptions {
  Matmuls matmuls = Matmuls::kAuto;
  // What is asked for a kernel (by a profile): a library, anything else, or nothing (left open). May be
  // empty. Comes before `matmuls`.
  std::function<KernelConfiguration(const Kernel& kernel)> configuration;
};

// Ops that a library computes are marked (LoweredOp::library) and given scratch: a workspace that lives for
// the op. One whose epilogue no library has is split first (SplitEpilogue) where that pays. Estimates are
// those of KernelCandidates. `text` receives one sentence.
Status ChooseLibraries(LoweredProgram* program, const CudaTarget& target, const LibraryOptions& options,
                       std::string* text);

}  // namespace rondo
