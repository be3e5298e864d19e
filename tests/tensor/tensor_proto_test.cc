#include "formats/tensor/tensor_proto.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/onnx/onnx.pb.h"

namespace rondo {
namespace {

using onnx::TensorProto;

Result<Tensor> Parse(const TensorProto& proto) {
  const std::string text = proto.SerializeAsString();
  return ParseTensorProto({text.begin(), text.end()});
}

TensorProto Proto(int type, std::vector<int64_t> dims) {
  TensorProto proto;
  proto.set_data_type(type);
  for (int64_t d : dims) proto.add_dims(d);
  return proto;
}

TEST(TensorProtoFile, ReadsWhatItWritesForEveryType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    Tensor tensor;
    tensor.name = "x";
    tensor.dtype = static_cast<DType>(d);
    tensor.shape = {3, 1, 2};
    tensor.bytes.resize(static_cast<size_t>(6 * ByteSize(tensor.dtype)));
    for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<uint8_t>(i % 2);
    const std::string text = SerializeTensorProto(tensor);
    Result<Tensor> read = ParseTensorProto({text.begin(), text.end()});
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->name, "x");
    EXPECT_EQ(read->dtype, tensor.dtype);
    EXPECT_TRUE(read->shape == tensor.shape);
    EXPECT_EQ(read->bytes, tensor.bytes);
  }
}

TEST(TensorProtoFile, TypedFieldsAreRead) {
  TensorProto half = Proto(TensorProto::FLOAT16, {2});
  half.add_int32_data(0x3c00);
  half.add_int32_data(0xc000);
  Result<Tensor> read = Parse(half);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(ElementAsDouble(*read, 0), 1.0);
  EXPECT_EQ(ElementAsDouble(*read, 1), -2.0);

  TensorProto brain = Proto(TensorProto::BFLOAT16, {1});
  brain.add_int32_data(0x3f80);
  EXPECT_EQ(ElementAsDouble(*Parse(brain), 0), 1.0);

  TensorProto flag = Proto(TensorProto::BOOL, {2});
  flag.add_int32_data(1);
  flag.add_int32_data(0);
  EXPECT_EQ(Parse(flag)->bytes, (std::vector<uint8_t>{1, 0}));

  TensorProto small = Proto(TensorProto::INT8, {1});
  small.add_int32_data(-3);
  EXPECT_EQ(ElementAsDouble(*Parse(small), 0), -3.0);

  TensorProto wide = Proto(TensorProto::UINT32, {1});
  wide.add_uint64_data(7);
  EXPECT_EQ(ElementAsDouble(*Parse(wide), 0), 7.0);
}

TEST(TensorProtoFile, RefusesWhatDoesNotFit) {
  TensorProto few = Proto(TensorProto::FLOAT, {3});
  few.add_float_data(1);
  EXPECT_EQ(Parse(few).status().code(), Code::kCorrupt);
  TensorProto negative = Proto(TensorProto::FLOAT, {-3});
  EXPECT_EQ(Parse(negative).status().code(), Code::kCorrupt);
  TensorProto huge = Proto(TensorProto::FLOAT, {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(Parse(huge).status().code(), Code::kCorrupt);
  TensorProto text = Proto(TensorProto::STRING, {1});
  EXPECT_EQ(Parse(text).status().code(), Code::kUnsupported);
  TensorProto outside = Proto(TensorProto::FLOAT, {1});
  outside.set_data_location(TensorProto::EXTERNAL);
  EXPECT_EQ(Parse(outside).status().code(), Code::kUnsupported);
  EXPECT_EQ(ParseTensorProto({1, 2, 3}).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace rondo
