#include "tools/rondo/loaded.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tools/rondo/gpu_environment.h"

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

// Sets the environment variable for the length of a test; null unsets it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* was = std::getenv(name);
    has_ = was != nullptr;
    if (has_) was_ = was;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { has_ ? setenv(name_, was_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  std::string Get() const {
    const char* text = std::getenv(name_);
    return text == nullptr ? "not there" : text;
  }

 private:
  const char* const name_;
  bool has_ = false;
  std::string was_;
};

TEST(GpuEnvironment, OfSharedGpusIsSetUnlessItIsThere) {
  const Variable ranks("NCCL_MULTI_RANK_GPU_ENABLE", nullptr),
      connections("CUDA_DEVICE_MAX_CONNECTIONS", "16");
  AllowSharedGpus({});
  AllowSharedGpus({0, 2, 1});
  EXPECT_EQ(ranks.Get(), "not there");
  AllowSharedGpus({1, 0, 1});
  EXPECT_EQ(ranks.Get(), "1");
  EXPECT_EQ(connections.Get(), "16");
}

TEST(GpuEnvironment, TellsOnlyAnNcclThatCannotBeToldOtherwise) {
  const Variable mixing("NCCL_GRAPH_MIXING_SUPPORT", nullptr);
  TellNccl(0);
  TellNccl(23102);
  TellNccl(22900);
  EXPECT_EQ(mixing.Get(), "not there");
  TellNccl(22809);
  EXPECT_EQ(mixing.Get(), "0");
}

}  // namespace
}  // namespace rondo::tools
