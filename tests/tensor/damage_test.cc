// Every reader gives an error or a consistent tensor for thousands of damaged files, and never crashes. The
// asan preset finds faults that a plain run does not.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "formats/tensor/npy.h"
#include "formats/tensor/safetensors.h"
#include "formats/tensor/tensor_proto.h"

namespace rondo {
namespace {

Tensor Sample() {
  Tensor tensor;
  tensor.name = "sample";
  tensor.shape = {2, 3};
  tensor.bytes.resize(24, 7);
  return tensor;
}

void ExpectConsistent(const Tensor& tensor) {
  EXPECT_EQ(static_cast<int64_t>(tensor.bytes.size()), tensor.shape.elements() * ByteSize(tensor.dtype));
}

template <typename Parse>
void Damage(const std::vector<uint8_t>& good, Parse parse) {
  for (size_t cut = 0; cut < good.size(); ++cut)
    parse(std::vector<uint8_t>(good.begin(), good.begin() + cut));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bad = good;
    for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n) {
      bad[random() % bad.size()] = static_cast<uint8_t>(random());
    }
    parse(bad);
  }
}

TEST(DamagedTensorFile, NpyNeverCrashes) {
  const std::string text = SerializeNpy(Sample());
  Damage({text.begin(), text.end()}, [](const std::vector<uint8_t>& file) {
    Result<Tensor> read = ParseNpy(file);
    if (read.ok()) ExpectConsistent(*read);
  });
}

TEST(DamagedTensorFile, TensorProtoNeverCrashes) {
  const std::string text = SerializeTensorProto(Sample());
  Damage({text.begin(), text.end()}, [](const std::vector<uint8_t>& file) {
    Result<Tensor> read = ParseTensorProto(file);
    if (read.ok()) ExpectConsistent(*read);
  });
}

TEST(DamagedTensorFile, SafetensorsNeverCrashes) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})";
  std::string text(8, 0);
  text[0] = static_cast<char>(header.size());
  text += header + "abcd";
  const std::vector<uint8_t> file(text.begin(), text.end());
  Damage(file, [](const std::vector<uint8_t>& bad) {
    Result<std::vector<Tensor>> read = ParseSafetensors(bad);
    if (!read.ok()) return;
    for (const Tensor& tensor : *read) ExpectConsistent(tensor);
  });
}

}  // namespace
}  // namespace rondo
