#include "tools/rondo/loaded.h"

#include <gtest/gtest.h>

#include <string>

namespace rondo::tools {
namespace {

TEST(ParseDevices, TakesACountOrAList) {
  using List = std::vector<uint32_t>;
  EXPECT_EQ(*ParseDevices(""), List());
  EXPECT_EQ(*ParseDevices("1"), List({0}));
  EXPECT_EQ(*ParseDevices("3"), List({0, 1, 2}));
  EXPECT_EQ(*ParseDevices("2,0"), List({2, 0}));
  EXPECT_EQ(ParseDevices("64")->size(), 64u);
}

TEST(ParseDevices, NamesThePartThatIsWrong) {
  for (const auto& [text, part] :
       {std::pair<const char*, const char*>{"0", "\"0\" is not a count from 1 to 64"},
        {"65", "\"65\" is not a count"},
        {"x", "\"x\" is not a count"},
        {"1,x", "\"x\" is not a device from 0 to 63"},
        {"0,64", "\"64\" is not a device"},
        {"0,", "\"\" is not a device"},
        {"-1,2", "\"-1\" is not a device"},
        {"4294967297", "\"4294967297\" is not a count"}}) {
    Result<std::vector<uint32_t>> devices = ParseDevices(text);
    ASSERT_FALSE(devices.ok()) << text;
    EXPECT_NE(std::string(devices.status().message()).find(part), std::string::npos)
        << devices.status().message();
  }
}

}  // namespace
}  // namespace rondo::tools
