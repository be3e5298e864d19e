// NumPy's .npy format, versions 1.0 to 3.0
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <string>
#include <vector>

#include "formats/tensor/tensor.h"

namespace rondo {

// Little-endian or one-byte types: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1. Fortran order is converted to C
// order. kCorrupt when the file contradicts itself, kUnsupported for other types. The tensor has no name.
Result<Tensor> ParseNpy(const std::vector<uint8_t>& file);

// Version 1.0, C order, data aligned to 64 bytes. bf16 is written as its bit patterns ("<u2").
std::string SerializeNpy(const Tensor& tensor);

}  // namespace rondo
