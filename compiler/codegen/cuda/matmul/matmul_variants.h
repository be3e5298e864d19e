// The templates of matmuls. Internal to compiler/codegen/cuda.
//
// A variant is one file: which of its configurations compute a problem, what each is estimated to take
// (matmul_cost.h), and the text of one. A new variant: a file, a line here, a name in
// kernel_configuration.cc.
#pragma once

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const KernelVariant kFewRowsMatmul;       // 1 to 16 rows: B streamed once
extern const KernelVariant kPackedMatmul;        // 1 to 16 rows by weights in fewer bits
extern const KernelVariant kPackedRowsMatmul;    // 5 to 32 rows by weights in fewer bits: wgmma, scaled sums
extern const KernelVariant kPackedDigitsMatmul;  // the same by weights of 4 and 8 bits, on bytes
extern const KernelVariant kPackedTilesMatmul;   // wgmma by weights in fewer bits, unpacked in registers
extern const KernelVariant kTmaMatmul;           // wgmma, tiles brought by TMA
extern const KernelVariant kPingPongMatmul;      // the same by warpgroups that take tiles in turn
extern const KernelVariant kMmaMatmul;           // mma.sync of 16-bit types
extern const KernelVariant kImmaMatmul;          // mma.sync of 8-bit integers and FP8
extern const KernelVariant kWgmmaMatmul;         // wgmma, tiles copied by threads
extern const KernelVariant kWgmmaFp8Matmul;      // the same of FP8
extern const KernelVariant kTf32Matmul;          // mma.sync of f32 rounded to tf32
extern const KernelVariant kSimtMatmul;          // FMA in f32
// Little work, or types and layouts that no variant takes:
extern const KernelVariant kDotMatmul;    // a warp a point, A and B read as vectors along K
extern const KernelVariant kPlainMatmul;  // a thread or a warp a point

// Where estimates are equal, the first is preferred.
inline constexpr const KernelVariant* kMatmulVariants[] = {
    &kFewRowsMatmul,  &kPackedMatmul,   &kPackedRowsMatmul, &kPackedDigitsMatmul, &kPackedTilesMatmul,
    &kTmaMatmul,      &kPingPongMatmul, &kMmaMatmul,        &kImmaMatmul,         &kWgmmaMatmul,
    &kWgmmaFp8Matmul, &kTf32Matmul,     &kSimtMatmul,       &kDotMatmul,          &kPlainMatmul};

}  // namespace rondo::cuda
