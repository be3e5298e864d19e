// Weights of few bits in the order of CUTLASS's matmuls of f16 or bf16 by integers, as onnxruntime-genai's
// builder writes QMoE for CUDA, and MatMulNBits on request.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"

namespace rondo::importer {

enum class WeightOrder {
  kRows,       // of K numbers each, the first in a byte's low bits
  kMixedSm80,  // for tensor cores of sm_80: columns interleaved by tiles of 64 of K
  kMixedSm90,  // for sm_90: not interleaved
};

// Whether matrices [n, k] of that many bits lie in that order: kCorrupt, with the multiples that are needed.
Status CheckOrder(WeightOrder order, int64_t n, int64_t k, int64_t bits);

// `count` matrices [n, k] that lie in `order` in `bytes`, by rows. What CUTLASS's preprocessing of weights
// does (permute_B_rows, subbyte_transpose, interleave_column_major, add_bias_and_interleave of TensorRT-LLM's
// cutlass_preprocessors), undone. Needs CheckOrder, and count * n * k * bits / 8 bytes.
std::vector<uint8_t> ByRows(WeightOrder order, const uint8_t* bytes, int64_t count, int64_t n, int64_t k,
                            int64_t bits);

}  // namespace rondo::importer
