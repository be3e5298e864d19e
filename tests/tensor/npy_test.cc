#include "formats/tensor/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace rondo {
namespace {

std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

// A file of the given version, header dictionary and data.
std::vector<uint8_t> File(int major, const std::string& header, const std::string& data) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(major);
  out += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i));
  return Bytes(out + header + data);
}

TEST(Npy, ReadsWhatItWritesForEveryType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    Tensor tensor;
    tensor.dtype = static_cast<DType>(d);
    tensor.shape = {2, 3};
    tensor.bytes.resize(static_cast<size_t>(6 * ByteSize(tensor.dtype)));
    for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<uint8_t>(i % 2);
    Result<Tensor> read = ParseNpy(Bytes(SerializeNpy(tensor)));
    ASSERT_TRUE(read.ok()) << read.status().message();
    const DType expected = tensor.dtype == DType::kBF16 ? DType::kU16
                           : IsFp8(tensor.dtype)        ? DType::kU8
                                                        : tensor.dtype;
    EXPECT_EQ(read->dtype, expected);
    EXPECT_TRUE(read->shape == tensor.shape);
    EXPECT_EQ(read->bytes, tensor.bytes);
  }
}

TEST(Npy, DataIsAlignedTo64Bytes) {
  Tensor tensor;
  tensor.shape = {1};
  tensor.bytes.resize(4);
  EXPECT_EQ(SerializeNpy(tensor).size() % 64, 4u);
}

TEST(Npy, ReadsAllVersionsAndScalars) {
  for (int major : {1, 2, 3}) {
    Result<Tensor> read =
        ParseNpy(File(major, "{'descr': '<i2', 'fortran_order': False, 'shape': (), }\n", "ab"));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->shape.rank, 0);
    EXPECT_EQ(ElementAsDouble(*read, 0), 'a' + 256 * 'b');
  }
}

TEST(Npy, FortranOrderBecomesRowMajor) {
  Result<Tensor> read =
      ParseNpy(File(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "adbecf"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(std::string(read->bytes.begin(), read->bytes.end()), "abcdef");
}

TEST(Npy, RefusesWithASentence) {
  struct Case {
    std::vector<uint8_t> file;
    Code code;
    const char* says;
  };
  const std::string good = "'fortran_order': False, 'shape': (4,)}";
  const Case cases[] = {
      {Bytes("PK\3\4 something else"), Code::kCorrupt, "not an npy file"},
      {File(9, "{}", ""), Code::kUnsupported, "version 9"},
      {File(1, "{'descr': '>f4', " + good, std::string(16, 0)), Code::kUnsupported, "'>f4'"},
      {File(1, "{'descr': '<f4', " + good, std::string(15, 0)), Code::kCorrupt, "15 bytes of data"},
      {File(1, "{'descr': '<f4', " + good, std::string(17, 0)), Code::kCorrupt, "17 bytes of data"},
      {File(1, "{'descr': '<f4'}", ""), Code::kCorrupt, "lacks fortran_order"},
      {File(1, "{'descr': [('a', '<f4')], " + good, ""), Code::kUnsupported, "one simple type"},
      {File(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", ""),
       Code::kCorrupt, "exceeds 2^63"},
      {File(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}", ""),
       Code::kCorrupt, "exceeds 2^63"},
      {File(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1)}", "a"),
       Code::kCorrupt, "13 dimensions"},
      {File(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,)}", "a"), Code::kCorrupt,
       "a dimension"},
  };
  for (const Case& c : cases) {
    Result<Tensor> read = ParseNpy(c.file);
    ASSERT_FALSE(read.ok()) << c.says;
    EXPECT_EQ(read.status().code(), c.code) << read.status().message();
    EXPECT_NE(std::string(read.status().message()).find(c.says), std::string::npos)
        << read.status().message();
  }
}

}  // namespace
}  // namespace rondo
