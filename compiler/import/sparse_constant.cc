#include "compiler/import/sparse_constant.h"

#include <algorithm>

#include "compiler/import/decompose.h"
#include "core/scalar.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {

namespace {

Status Wrong(const onnx::SparseTensorProto& tensor, const char* what) {
  return Status::Error(Code::kCorrupt, "sparse tensor \"%.200s\": %s", tensor.values().name().c_str(), what);
}

// The place of each number in row-major order. `indices` holds those places, or a row of indices per number.
Result<std::vector<int64_t>> PlacesOf(const onnx::SparseTensorProto& tensor, const onnx::TensorValue& indices,
                                      const Shape& shape, int64_t numbers) {
  const bool rows = indices.shape.rank == 2;
  const Shape wanted = rows ? Shape{numbers, shape.rank} : Shape{numbers};
  if (indices.dtype != DType::kI64 || !(indices.shape == wanted))
    return Wrong(tensor, "its indices are not i64 [numbers] or [numbers, dimensions]");
  std::vector<int64_t> places;
  for (int64_t i = 0; i < numbers; ++i) {
    int64_t place = 0;
    for (int d = 0; d < (rows ? shape.rank : 1); ++d) {
      const int64_t extent = rows ? shape[d] : shape.elements();
      const auto index =
          scalar::Load<int64_t>(DType::kI64, indices.bytes.data(), rows ? i * shape.rank + d : i);
      if (index < 0 || index >= extent) return Wrong(tensor, "an index lies outside of its dimensions");
      place = place * (rows ? extent : 1) + index;
    }
    places.push_back(place);
  }
  std::vector<int64_t> sorted = places;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return Wrong(tensor, "two numbers have one place");
  return places;
}

}  // namespace

Result<ir::NodeId> SparseConstant(ir::Builder& b, Host& host, const onnx::SparseTensorProto& tensor) {
  RONDO_ASSIGN_OR_RETURN(const onnx::TensorValue values, host.LoadTensor(tensor.values()));
  RONDO_ASSIGN_OR_RETURN(const onnx::TensorValue indices, host.LoadTensor(tensor.indices()));
  if (values.shape.rank != 1) return Wrong(tensor, "its numbers are no list");
  onnx::TensorProto dense;  // its shape, checked like that of others
  *dense.mutable_dims() = tensor.dims();
  RONDO_ASSIGN_OR_RETURN(const Shape shape, onnx::ShapeOf(dense, values.dtype));
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> places,
                         PlacesOf(tensor, indices, shape, values.shape[0]));
  const auto data = std::make_shared<ir::ConstantData>();
  data->dtype = values.dtype;
  data->shape = values.shape;
  data->bytes = {values.bytes.data(), values.bytes.size()};
  data->keep = values.owner;
  data->name = tensor.values().name();
  const ir::NodeId zeros = b.Expand(b.Scalar(values.dtype, 0), {shape.elements()});
  if (places.empty()) return b.Reshape(zeros, shape);
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(values.shape);
  attrs.map.steps[0].strides[0] = 0;
  attrs.dims = {{1, shape.elements(), false}};
  attrs.may_collide = false;
  return b.Reshape(b.IndexedWrite(zeros, b.Constant(data), {b.I64(places)}, attrs), shape);
}

}  // namespace rondo::importer
