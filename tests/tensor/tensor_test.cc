#include "formats/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "core/files.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

Tensor Floats(std::vector<float> values) {
  Tensor tensor;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

TEST(Compare, CountsAsNumpyAllcloseDoes) {
  Result<Comparison> result =
      Compare(Floats({1.0f, 100.09f, 0.0f}), Floats({1.0f, 100.0f, 1e-6f}), 1e-3, 1e-5);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->mismatches, 0);
  EXPECT_NEAR(result->greatest_error, 0.09, 1e-4);

  result = Compare(Floats({1.0f, 100.2f, 2e-5f}), Floats({1.0f, 100.0f, 0.0f}), 1e-3, 1e-5);
  EXPECT_EQ(result->mismatches, 2);
  EXPECT_EQ(result->at, 1);
}

TEST(Compare, NanAndInfinityOnlyEqualThemselves) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Compare(Floats({nan, inf, -inf}), Floats({nan, inf, -inf}), 1e-3, 1e-5)->mismatches, 0);
  EXPECT_EQ(Compare(Floats({nan, inf, 1}), Floats({1, -inf, inf}), 1e-3, 1e-5)->mismatches, 3);
}

TEST(Compare, LargeIntegersAreComparedExactly) {
  Tensor a, b;
  a.dtype = b.dtype = DType::kI64;
  a.shape = b.shape = {1};
  const int64_t x = (int64_t{1} << 53), y = x + 1;
  a.bytes.resize(8);
  b.bytes.resize(8);
  std::memcpy(a.bytes.data(), &x, 8);
  std::memcpy(b.bytes.data(), &y, 8);
  EXPECT_EQ(Compare(a, a, 0, 0)->at, -1);
  EXPECT_EQ(Compare(a, b, 0, 0)->mismatches, 1);
}

TEST(Compare, OtherShapesAreAnError) {
  Result<Comparison> result = Compare(Floats({1}), Floats({1, 2}), 1e-3, 1e-5);
  ASSERT_FALSE(result.ok());
  EXPECT_STREQ(result.status().message(), "got f32[1] where f32[2] was expected");
}

TEST(TensorFiles, TheExtensionDecides) {
  const TemporaryFolder temporary;
  const std::string folder = temporary.string();
  for (const char* name : {"rondo_tensor_test.npy", "rondo_tensor_test.pb"}) {
    const std::string path = folder + "/" + name;
    ASSERT_TRUE(WriteTensor(Floats({1, 2, 3}), path).ok());
    Result<Tensor> read = ReadTensor(path);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->bytes, Floats({1, 2, 3}).bytes);
  }
  EXPECT_EQ(ReadTensor(folder + "/x.txt").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadTensor(folder + "/rondo_is_not_there.npy").status().code(), Code::kNotFound);
  EXPECT_EQ(ReadInputFile(folder).status().code(), Code::kIo);
}

}  // namespace
}  // namespace rondo
