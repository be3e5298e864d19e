// Constant weights [n, k] of FP4 (E2M1) or FP8 (E4M3), in blocks along k with one scale each.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

struct FloatBlocks {
  PackedType type = PackedType::kE2M1;
  int64_t n = 0, k = 0, block = 0;  // at least 1
  std::vector<uint8_t> codes;       // [n, k], a byte each
  std::vector<float> scales;        // [n, ceil(k / block)]
  std::string name;

  int64_t count() const { return (k - 1) / block + 1; }  // blocks of a row
};

// Each code's number times its block's scale, [n, k] of `dtype`: packed where kernels read that form
// (compiler/ir/packed.h), else worked out. Codes and scales that are NaN give NaN.
NodeId FloatWeight(ir::Builder& b, const FloatBlocks& blocks, DType dtype);

// What the codes of input `i` are read from: u8, or of FP8 the bytes of its own type. kUnsupported where only
// a run knows them, or where the model's file of weights is missing.
Result<std::shared_ptr<const ir::ConstantData>> CodesOf(const OpContext& c, int i);

// The scales in input `i`, as they lie: of any float type, FP8 or E8M0 (or, with `bytes`, u8 that are codes
// of E4M3). kUnsupported as above.
Result<std::vector<float>> ScalesOf(const OpContext& c, int i, bool bytes = false);

}  // namespace rondo::importer
