// TransposedBytes: matrices of bytes laid out the other way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rondo::ir {

// Matrices [rows, columns] that lie one behind the other, each as [columns, rows]. There are none where
// either is 0; else the bytes are those of whole matrices. Uses all cores (shares.h).
std::vector<uint8_t> TransposedBytes(std::span<const uint8_t> matrices, int64_t rows, int64_t columns);

}  // namespace rondo::ir
