// Constant weights [n, k] of FP4 (E2M1) or FP8 (E4M3), in blocks along k with one scale per block.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

struct FloatBlocks {
  PackedType type = PackedType::kE2M1;
  int64_t n = 0, k = 0, block = 0;  // at least 1
  std::vector<uint8_t> codes;       // [n, k], one byte each
  std::vector<float> scales;        // [n, ceil(k / block)]
  std::string name;

  int64_t count() const { return (k - 1) / block + 1; }  // blocks per row
};

// The number of each code times the scale of its block, [n, k] of `dtype`: a packed constant if kernels can
// read one (compiler/ir/packed.h), otherwise a plain constant. A NaN code or scale gives NaN.
NodeId FloatWeight(ir::Builder& b, const FloatBlocks& blocks, DType dtype);

// The codes in input `i`: its u8 elements, or the bytes of its FP8 type. kUnsupported if they are known only
// at run time, or if the model's weights file is missing.
Result<std::shared_ptr<const ir::ConstantData>> CodesOf(const OpContext& c, int i);

// The scales in input `i`, in the input's order. Its type is any float type, FP8 or E8M0; with `bytes` also
// u8, whose elements are codes of E4M3. kUnsupported as above.
Result<std::vector<float>> ScalesOf(const OpContext& c, int i, bool bytes = false);

}  // namespace rondo::importer
