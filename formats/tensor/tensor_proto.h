// ONNX TensorProto files (.pb), as the ONNX backend suite stores inputs and outputs.
#pragma once

#include <string>
#include <vector>

#include "formats/tensor/tensor.h"

namespace rondo {

// Reads raw_data and the typed fields (f16, bf16, bool and small integers are in int32_data). kCorrupt when
// the data does not fit the shape. Types that plans do not have become bytes of codes (onnx::PortTypeOf).
// kUnsupported for other element types and for external data.
Result<Tensor> ParseTensorProto(const std::vector<uint8_t>& file);

// Always raw_data, with name and dims.
std::string SerializeTensorProto(const Tensor& tensor);

}  // namespace rondo
