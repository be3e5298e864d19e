// A slow, plain interpreter of LoweredPrograms, written from the comments of core/kernel.h alone: the oracle
// that fused kernels are compared with, independent of any driver.
#ifndef RONDO_TESTS_FUSION_REFERENCE_RUN_H_
#define RONDO_TESTS_FUSION_REFERENCE_RUN_H_

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// One vector of bytes a value. Constants are filled in, everything else is 0xcd until written.
using Memory = std::vector<std::vector<uint8_t>>;
Memory MakeMemory(const LoweredProgram& program);

// Runs all ops in order. Every access is checked against the bounds of its value: aborts the test process
// with a message when one is outside.
void RunReference(const LoweredProgram& program, Memory* memory);

}  // namespace rondo

#endif  // RONDO_TESTS_FUSION_REFERENCE_RUN_H_
