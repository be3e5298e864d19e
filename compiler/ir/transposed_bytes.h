// TransposedBytes: transposes matrices of bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rondo::ir {

// Transposes consecutive matrices [rows, columns] into [columns, rows]. No result if either is 0; otherwise
// the bytes must be whole matrices. Uses all cores (shares.h).
std::vector<uint8_t> TransposedBytes(std::span<const uint8_t> matrices, int64_t rows, int64_t columns);

}  // namespace rondo::ir
