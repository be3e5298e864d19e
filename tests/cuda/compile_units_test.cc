// Machine code by units: each different text once, at once, out of the cache where it is there and whole.
#include "compiler/codegen/cuda/compile_units.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/codegen/cuda/kernel_cache.h"
#include "compiler/codegen/cuda/nvrtc.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

std::string KernelNamed(const std::string& name) { return "extern \"C\" __global__ void " + name + "() {}"; }

class CompileUnitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<Nvrtc> nvrtc = Nvrtc::Open("");
    if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status().message();
    folder_ = fs::path(::testing::TempDir()) / ("units" + std::to_string(getpid()));
    fs::remove_all(folder_);
    options_.architecture = "sm_90a";
    options_.cache_folder = (folder_ / "a" / "b").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  CompiledUnits Compile(const std::vector<std::string>& texts) {
    Result<CompiledUnits> units = CompileUnits(texts, options_);
    EXPECT_TRUE(units.ok()) << units.status().message();
    return units.ok() ? std::move(*units) : CompiledUnits();
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(options_.cache_folder)) files.push_back(entry.path());
    return files;
  }

  fs::path folder_;
  UnitOptions options_;
  const std::vector<std::string> texts_ = {KernelNamed("a"), KernelNamed("b"), KernelNamed("a")};
};

TEST_F(CompileUnitsTest, EqualTextsShareACodeAndTheCacheHasIt) {
  const CompiledUnits first = Compile(texts_);
  EXPECT_EQ(first.code_of, (std::vector<uint32_t>{0, 1, 0}));
  ASSERT_EQ(first.codes.size(), 2u);
  EXPECT_EQ(first.cached, 0u);
  EXPECT_EQ(Files().size(), 2u);
  const CompiledUnits again = Compile(texts_);
  EXPECT_EQ(again.cached, 2u);
  EXPECT_EQ(again.codes, first.codes);
}

TEST_F(CompileUnitsTest, ThreadsAndCacheChangeNothing) {
  options_.threads = 1;
  const CompiledUnits one = Compile(texts_);
  options_.threads = 3;
  options_.cache_folder = "";
  EXPECT_EQ(Compile(texts_).codes, one.codes);
}

TEST_F(CompileUnitsTest, WhatIsDamagedOrOfAnotherArchitectureIsCompiledAgain) {
  const CompiledUnits first = Compile(texts_);
  const std::vector<fs::path> files = Files();
  ASSERT_EQ(files.size(), 2u);
  fs::resize_file(files[0], fs::file_size(files[0]) - 1);
  std::fstream file(files[1], std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('x');
  file.close();
  const CompiledUnits again = Compile(texts_);
  EXPECT_EQ(again.cached, 0u);
  EXPECT_EQ(again.codes, first.codes);
  EXPECT_EQ(Compile(texts_).cached, 2u);
  options_.architecture = "sm_80";
  EXPECT_EQ(Compile(texts_).cached, 0u);
}

TEST_F(CompileUnitsTest, TheFirstTextThatDoesNotCompileIsTheError) {
  const Result<CompiledUnits> units = CompileUnits({texts_[0], "no CUDA", "nor this"}, options_);
  ASSERT_FALSE(units.ok());
  EXPECT_NE(std::string(units.status().message()).find("no CUDA"), std::string::npos)
      << units.status().message();
}

TEST_F(CompileUnitsTest, AFileInTheFoldersPlaceIsAnError) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  options_.cache_folder = (folder_ / "file").string();
  const Result<CompiledUnits> units = CompileUnits(texts_, options_);
  ASSERT_FALSE(units.ok());
  EXPECT_EQ(units.status().code(), Code::kIo);
  EXPECT_NE(std::string(units.status().message()).find("kernel cache"), std::string::npos);
}

TEST_F(CompileUnitsTest, AFullCacheLosesWhatWasNotUsedForLongest) {
  const std::string folder = (folder_ / "small").string();
  const std::vector<uint8_t> code(1000, 7);
  Result<KernelCache> cache = KernelCache::Open(folder);
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  for (int i = 0; i < 10; ++i) cache->Keep("text" + std::to_string(i), "s", code);
  for (const auto& entry : fs::directory_iterator(folder))
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_TRUE(cache->Find("text4", "s").has_value());  // used just now
  EXPECT_FALSE(cache->Find("text4", "t").has_value());
  cache = KernelCache::Open(folder, 8000);
  ASSERT_TRUE(cache.ok());
  size_t left = 0;
  for (int i = 0; i < 10; ++i) left += cache->Find("text" + std::to_string(i), "s").has_value();
  EXPECT_EQ(left, 5u);  // 1016 bytes each: at most three quarters of 8000
  EXPECT_TRUE(cache->Find("text4", "s").has_value());
}

}  // namespace
}  // namespace rondo
