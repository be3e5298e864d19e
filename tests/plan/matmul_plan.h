// A small plan made by hand for GPUs, with one kernel, which a library computes with scratch memory.
#pragma once

#include "tests/plan/sample_plan.h"

namespace rondo {

// Program "main": Y = relu(X W^T + R + B) for X of 4 x 8, W of 16 x 8, R and Y of 4 x 16, B of 16 floats. The
// plan has one module, whose one binary is the matmul. The epilogue reads B and R.
enum ProductBuffer : uint32_t { kProductX, kProductW, kProductR, kProductB, kProductY, kProductScratch };
inline constexpr uint64_t kProductScratchBytes = 4096;
Sample MakeProductSample();

// The same with two alternatives for its kernel: a function, and the matmul by another algorithm.
Sample MakeSampleWithAlternatives();

// The same, computed by a function that gets X and W as tensor maps.
Sample MakeMapSample();

inline KernelBinary& BinaryOf(Sample& s) { return Edit(s.data.modules[0].binaries, 0); }
inline LibraryMatmul& MatmulOf(Sample& s) { return const_cast<LibraryMatmul&>(*BinaryOf(s).matmul); }

}  // namespace rondo
