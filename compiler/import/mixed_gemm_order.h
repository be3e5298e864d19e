// Integer weights in the order that CUTLASS's matmuls of f16 or bf16 by integers expect. onnxruntime-genai's
// builder writes this order in QMoE for CUDA, and on request in MatMulNBits.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"

namespace rondo::importer {

enum class WeightOrder {
  kRows,       // rows of K numbers, the first one in the low bits of a byte
  kMixedSm80,  // for tensor cores of sm_80: columns are interleaved in tiles of 64 along K
  kMixedSm90,  // for sm_90: not interleaved
};

// kCorrupt, with the required multiples, if matrices [n, k] of `bits` bits cannot be in that order.
Status CheckOrder(WeightOrder order, int64_t n, int64_t k, int64_t bits);

// Converts `count` matrices [n, k] in `bytes` from `order` to rows. This inverts CUTLASS's preprocessing of
// weights (permute_B_rows, subbyte_transpose, interleave_column_major and add_bias_and_interleave of
// TensorRT-LLM's cutlass_preprocessors). Requires a successful CheckOrder, and count * n * k * bits / 8
// bytes.
std::vector<uint8_t> ByRows(WeightOrder order, const uint8_t* bytes, int64_t count, int64_t n, int64_t k,
                            int64_t bits);

}  // namespace rondo::importer
