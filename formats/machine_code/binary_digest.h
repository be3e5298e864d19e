// Digests of kernels, and of everything that a kernel's binary was made from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"

namespace rondo {

// Everything in a kernel except its name, as bytes: equal exactly for kernels that do the same. Numbers are
// compared by their bits.
std::string KernelStructure(const Kernel& kernel);

// Identifies a kernel in profiles: xxh3-64 of everything it computes, reads and writes. Leaves out names, a
// library's workspace and what is known about the memory it will be bound to. So the same kernel has the same
// digest in another model, and before it is in a plan.
uint64_t KernelDigest(const Kernel& kernel);

// xxh3-64 of the CUDA text that was compiled.
uint64_t TextDigest(std::string_view text);

// One digest for each code of the module, in order, for BinaryDigest.
std::vector<uint64_t> CodeDigests(const CodeModule& module);

// One number for everything that the binary was made from and is launched with: the kernel's contract, the
// text's digest, the module's compiler and architecture, the bytes of its code, its choice, and every field
// of the launch. Any new field of KernelBinary must be added here. `codes`: CodeDigests(module). Never 0.
//
// It detects changes after compilation, but not deliberate ones: anybody who changes a plan can compute it
// again.
uint64_t BinaryDigest(const Kernel& kernel, const CodeModule& module, const KernelBinary& binary,
                      const std::vector<uint64_t>& codes);

}  // namespace rondo
