#include "compiler/import/narrow_weight.h"

#include "compiler/import/packed_bits.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {

namespace {

struct NarrowType {
  int data_type, bits;
  bool is_signed;
};
constexpr NarrowType kNarrow[] = {{21, 4, false}, {22, 4, true}, {25, 2, false}, {26, 2, true}};

const NarrowType* Find(int data_type) {
  for (const NarrowType& type : kNarrow) {
    if (type.data_type == data_type) return &type;
  }
  return nullptr;
}

}  // namespace

int NarrowBits(int data_type) {
  const NarrowType* type = Find(data_type);
  return type == nullptr ? 0 : type->bits;
}

Result<PackedTensor> PackedBytesOf(const onnx::TensorProto& tensor) {
  const NarrowType& type = *Find(tensor.data_type());
  PackedTensor packed;
  packed.bytes = tensor;
  packed.bits = type.bits;
  packed.is_signed = type.is_signed;
  RONDO_ASSIGN_OR_RETURN(packed.shape, onnx::ShapeOf(tensor, DType::kU8));
  packed.bytes.set_data_type(onnx::TensorProto::UINT8);
  packed.bytes.clear_dims();
  packed.bytes.add_dims((packed.shape.elements() * type.bits + 7) / 8);
  return packed;
}

ir::NodeId Widened(ir::Builder& b, ir::NodeId bytes, const PackedTensor& packed) {
  const int64_t count = packed.shape.elements();
  if (count == 0) {
    const DType dtype = packed.is_signed ? DType::kI8 : DType::kU8;
    return b.Constant(ir::ConstantData::Own(dtype, packed.shape, {}));
  }
  ir::NodeId x = b.Reshape(b.Slice(UnpackBits(b, bytes, packed.bits), 0, 0, 1, count), packed.shape);
  if (!packed.is_signed) return x;
  // The sign bit counts negative.
  const double sign = static_cast<double>(1 << (packed.bits - 1));
  x = b.BinaryScalar(TapeOp::kBitXor, b.Cast(x, DType::kI32), sign);
  return b.Cast(b.BinaryScalar(TapeOp::kSub, x, sign), DType::kI8);
}

}  // namespace rondo::importer
