// Weights of ONNX types that the plan knows only packed: INT4, UINT4, INT2, UINT2, FLOAT4E2M1 (two or four
// numbers a byte in the file), FLOAT8E4M3FN, FLOAT8E5M2.
#ifndef RONDO_COMPILER_IMPORT_NARROW_WEIGHT_H_
#define RONDO_COMPILER_IMPORT_NARROW_WEIGHT_H_

#include "compiler/ir/builder.h"
#include "core/packed_weights.h"
#include "core/status.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// Bits of a number of such a TensorProto.DataType; 0 for all other types.
int NarrowBits(int data_type);

struct PackedTensor {
  onnx::TensorProto bytes;  // the same data as UINT8, one dimension
  Shape shape;              // of the numbers
  int bits = 0;
  bool is_signed = false;
  PackedType type = PackedType::kNone;
};

// kCorrupt or kUnsupported for shapes that are none.
Result<PackedTensor> PackedBytesOf(const onnx::TensorProto& tensor);

// `bytes` (u8, those of `packed`) as i8, u8 or (of float types) f32 numbers of packed.shape.
ir::NodeId Widened(ir::Builder& b, ir::NodeId bytes, const PackedTensor& packed);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_NARROW_WEIGHT_H_
