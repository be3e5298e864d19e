#include "formats/tensor/safetensors.h"

#include <gtest/gtest.h>

#include <string>

namespace rondo {
namespace {

std::vector<uint8_t> File(const std::string& header, const std::string& data) {
  std::vector<uint8_t> out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<uint8_t>(uint64_t{header.size()} >> (8 * i)));
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

TEST(Safetensors, ReadsAllTensorsInTheOrderOfTheirData) {
  auto read = ParseSafetensors(
      File(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
           R"("a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})",
           "abcd\x80\x3f"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].name, "a");
  EXPECT_TRUE((*read)[0].shape == Shape({2, 2}));
  EXPECT_EQ((*read)[1].name, "b");
  EXPECT_EQ(ElementAsDouble((*read)[1], 0), 1.0);
}

TEST(Safetensors, RefusesWithASentence) {
  struct Case {
    std::vector<uint8_t> file;
    const char* says;
  };
  const Case cases[] = {
      {{1, 2, 3}, "fewer than"},
      {{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}, "exceeds the file's"},
      {File("[1]", ""), "not a JSON object"},
      {File("{", ""), "not a JSON object"},
      {File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}})", "abc"),
       "3 bytes where its shape needs 2"},
      {File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abc"), "outside of the data's 3"},
      {File(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", ""), "negative"},
      {File(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "a"),
       "F8_E4M3 is not supported"},
      {File(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", "a"), "shape is not"},
      {File(R"({"a":{"dtype":"U8","shape":[1]}})", "a"), "lacks"},
      {File(R"({"a":3})", "a"), "lacks"},
      {File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
            "abc"),
       "\"b\" overlaps"},
  };
  for (const Case& c : cases) {
    auto read = ParseSafetensors(c.file);
    ASSERT_FALSE(read.ok()) << c.says;
    EXPECT_NE(std::string(read.status().message()).find(c.says), std::string::npos)
        << read.status().message();
  }
}

}  // namespace
}  // namespace rondo
