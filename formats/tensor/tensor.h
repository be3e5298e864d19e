// Tensor: one named array in host memory, for test cases and files of the rondo command.
//
// A plain value that owns its bytes (row-major, little-endian). Not used by the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/status.h"

namespace rondo {

struct Tensor {
  std::string name;  // may be empty
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<uint8_t> bytes;  // shape.elements() * ByteSize(dtype)
};

// The bytes of a tensor of `dims` elements of `dtype`. kCorrupt for a negative extent, more than kMaxRank
// extents, or a product that does not fit an int64; `shape` gets the extents.
Result<int64_t> CheckedBytes(DType dtype, const std::vector<int64_t>& dims, Shape* shape);

// Element `index` (below shape.elements(), unchecked) as a double; 64-bit integers are rounded.
double ElementAsDouble(const Tensor& tensor, int64_t index);

// Differences of two tensors of the same shape, as numpy.allclose(got, want) counts: an element agrees when
// |got - want| <= atol + rtol * |want|, when both are NaN, or when both are the same infinity.
struct Comparison {
  int64_t mismatches = 0;
  double greatest_error = 0;  // greatest |got - want| (infinity where one side is NaN or infinite)
  int64_t at = -1;            // row-major index of the element with the greatest excess over its tolerance
  double got = 0, want = 0;   // there
};
// kInvalidArgument when dtypes or shapes differ.
Result<Comparison> Compare(const Tensor& got, const Tensor& want, double rtol, double atol);

// Reads by the file's extension: .npy or .pb (a TensorProto).
Result<Tensor> ReadTensor(const std::string& path);
// Writes by the file's extension; an existing file is replaced only if it is a tensor of that format
// (core/files.h). bf16 has no .npy type: it is written as uint16 ("<u2") bit patterns.
Status WriteTensor(const Tensor& tensor, const std::string& path);

}  // namespace rondo
