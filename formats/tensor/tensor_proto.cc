#include "formats/tensor/tensor_proto.h"

#include <climits>

#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/tensor.h"

namespace rondo {

Result<Tensor> ParseTensorProto(const std::vector<uint8_t>& file) {
  onnx::TensorProto proto;
  if (file.size() > INT_MAX || !proto.ParseFromArray(file.data(), static_cast<int>(file.size()))) {
    return Status::Error(Code::kCorrupt, "not a TensorProto of at most 2 GiB");
  }
  Tensor tensor;
  tensor.name = proto.name();
  RONDO_ASSIGN_OR_RETURN(const Shape shape, onnx::ShapeOf(proto, DType::kU8));
  RONDO_ASSIGN_OR_RETURN(const onnx::PortType port, onnx::PortTypeOf(proto.data_type(), shape));
  tensor.dtype = port.dtype;
  RONDO_RETURN_IF_ERROR(onnx::ShapeOf(proto, tensor.dtype).status());
  tensor.shape = port.shape;
  std::vector<uint8_t> storage;
  RONDO_ASSIGN_OR_RETURN(const Span<const uint8_t> bytes,
                         onnx::InlineBytes(proto, tensor.dtype, tensor.shape, &storage));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

std::string SerializeTensorProto(const Tensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(tensor.name);
  for (int64_t d : tensor.shape) proto.add_dims(d);
  proto.set_data_type(onnx::DataTypeOf(tensor.dtype));
  proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
  return proto.SerializeAsString();
}

}  // namespace rondo
