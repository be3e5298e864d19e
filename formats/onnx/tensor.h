// Tensors of ONNX messages as plain bytes: types, shapes and elements, wherever the message keeps them,
// except in external files (reader.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo::onnx {

class TensorProto;

// "FLOAT", "INT4", ... of a TensorProto.DataType number; "type 99" for unknown ones.
const char* DataTypeName(int data_type);

// The element type of a TensorProto.DataType number; kUnsupported when Rondo has none.
Result<DType> DTypeOf(int data_type);
// The same for a stored tensor, which may also be FP8. Other values of a model are FP8 only where an operator
// takes them.
Result<DType> StoredTypeOf(int data_type);
// Bits of an element of a type that plans do not have and that ports and files hold as codes: 8
// (FLOAT8E4M3FNUZ, FLOAT8E5M2FNUZ, FLOAT8E8M0), 4 or 2 (the first in the lowest bits of a byte); otherwise 0.
int CodeBits(int data_type);
// How a port or file holds a tensor of `shape`: its element type and shape. Codes are bytes; codes of less
// than 8 bits lose the shape. kUnsupported when Rondo has no such type.
struct PortType {
  DType dtype = DType::kF32;
  Shape shape;
};
Result<PortType> PortTypeOf(int data_type, const Shape& shape);
// The TensorProto.DataType number of an element type.
int DataTypeOf(DType dtype);

// The shape of a message; kUnsupported above kMaxRank dimensions, kCorrupt when an extent is negative or
// the bytes (of `dtype` elements) do not fit in 62 bits.
Result<Shape> ShapeOf(const TensorProto& tensor, DType dtype);

// The elements of `tensor`, dense, row-major, little-endian. `storage` is used (and the result points
// into it) when the message does not hold them as such; otherwise the result points into the message.
// kCorrupt when their number does not match the shape; kUnsupported for external data and segments.
Result<Span<const uint8_t>> InlineBytes(const TensorProto& tensor, DType dtype, const Shape& shape,
                                        std::vector<uint8_t>* storage);

}  // namespace rondo::onnx
