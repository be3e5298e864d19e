// The templates of matmuls. Internal to compiler/codegen/cuda.
//
// A variant is one file: which of its configurations can compute a problem, the estimated time of each
// (matmul_cost.h), and its text. To add a variant: a file, a line here, a name in kernel_configuration.cc.
#pragma once

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const KernelVariant kFewRowsMatmul;       // 1 to 16 rows: B streamed once
extern const KernelVariant kPackedMatmul;        // 1 to 16 rows, packed weights
extern const KernelVariant kPackedRowsMatmul;    // 5 to 32 rows, packed weights: wgmma, scaled sums
extern const KernelVariant kPackedDigitsMatmul;  // the same with weights of 4 and 8 bits, on bytes
extern const KernelVariant kPackedTilesMatmul;   // wgmma with packed weights, unpacked in registers
extern const KernelVariant kTmaMatmul;           // wgmma, tiles copied by TMA
extern const KernelVariant kPingPongMatmul;      // the same with warpgroups that take tiles in turns
extern const KernelVariant kMmaMatmul;           // mma.sync of 16-bit types
extern const KernelVariant kImmaMatmul;          // mma.sync of 8-bit integers and FP8
extern const KernelVariant kWgmmaMatmul;         // wgmma, tiles copied by threads
extern const KernelVariant kWgmmaFp8Matmul;      // the same with FP8
extern const KernelVariant kTf32Matmul;          // mma.sync of f32 rounded to tf32
extern const KernelVariant kSimtMatmul;          // FMA in f32
extern const KernelVariant kShortMatmul;         // a short K: a block of results for each thread
// For little work, or types and layouts that no other variant supports:
extern const KernelVariant kDotMatmul;    // a warp for each point, A and B read as vectors along K
extern const KernelVariant kPlainMatmul;  // a thread or a warp for each point

// Neighbouring threads of kPlainMatmul that share a point's K.
int64_t LanesOfPlainMatmul(const PartContext& context);

// Where estimates are equal, the first is preferred.
inline constexpr const KernelVariant* kMatmulVariants[] = {
    &kFewRowsMatmul,     &kPackedMatmul, &kPackedRowsMatmul, &kPackedDigitsMatmul,
    &kPackedTilesMatmul, &kTmaMatmul,    &kPingPongMatmul,   &kMmaMatmul,
    &kImmaMatmul,        &kWgmmaMatmul,  &kWgmmaFp8Matmul,   &kTf32Matmul,
    &kSimtMatmul,        &kShortMatmul,  &kDotMatmul,        &kPlainMatmul};

}  // namespace rondo::cuda
