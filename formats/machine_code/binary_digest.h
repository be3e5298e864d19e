// Digests of what a binary of a kernel came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"

namespace rondo {

// Everything of a kernel but its name, as bytes: equal exactly for kernels that do the same. Numbers are
// compared by their bits.
std::string KernelStructure(const Kernel& kernel);

// What profiles know a kernel by: xxh3-64 of all that it computes, reads and writes. Names and a library's
// scratch are left out, and so is what is known of the memory it will be bound to: the same kernel of another
// model, or on its way to a plan, has the same digest.
uint64_t KernelDigest(const Kernel& kernel);

// xxh3-64 of the CUDA text that a code was compiled from.
uint64_t TextDigest(std::string_view text);

// Of each code of the module, in order: what BinaryDigest takes.
std::vector<uint64_t> CodeDigests(const CodeModule& module);

// One number for all that the binary came from and is launched with: the kernel's contract, the text's
// digest, the module's compiler and architecture, the bytes of its code, its choice, and every field of the
// launch. A field added to KernelBinary belongs here. `codes`: CodeDigests(module). Never 0.
//
// It tells what was altered since from what was compiled; whoever alters a plan on purpose can compute it as
// well.
uint64_t BinaryDigest(const Kernel& kernel, const CodeModule& module, const KernelBinary& binary,
                      const std::vector<uint64_t>& codes);

}  // namespace rondo
