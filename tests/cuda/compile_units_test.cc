// Machine code by units: each distinct text is compiled once, in parallel, or taken from the cache if its
// entry is complete.
#include "compiler/codegen/cuda/compile_units.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/codegen/cuda/kernel_cache.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

std::string KernelNamed(const std::string& name) { return "extern \"C\" __global__ void " + name + "() {}"; }

class CompileUnitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<Nvrtc> nvrtc = Nvrtc::Open("");
    if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status().message();
    options_.architecture = "sm_90a";
    options_.cache_folder = (folder_ / "a" / "b").string();
  }

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

  TemporaryFolder folder_;
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
  std::ofstream(folder_ / "file") << "x";
  options_.cache_folder = (folder_ / "file").string();
  const Result<CompiledUnits> units = CompileUnits(texts_, options_);
  ASSERT_FALSE(units.ok());
  EXPECT_EQ(units.status().code(), Code::kIo);
  EXPECT_NE(std::string(units.status().message()).find("kernel cache"), std::string::npos);
}

// The cache needs no compiler, so these tests run everywhere.
class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<KernelCache> cache = KernelCache::Open(folder_.string());
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    cache_ = *cache;
    cache_.Keep(a_, "s", code_);
    cache_.Keep(b_, "s", std::vector<uint8_t>(500, 8));
    ASSERT_TRUE(cache_.Find(a_, "s").has_value());
  }
  // The file of the entry of `text`, found by removing files until the entry is missing.
  fs::path FileOf(const std::string& text) {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const fs::path aside = folder_ / "aside";
      fs::rename(entry.path(), aside);
      const bool found = cache_.Find(text, "s").has_value();
      fs::rename(aside, entry.path());
      if (!found) return entry.path();
    }
    return {};
  }

  TemporaryFolder folder_;
  KernelCache cache_;
  const std::string a_ = KernelNamed("a"), b_ = KernelNamed("b");
  const std::vector<uint8_t> code_ = std::vector<uint8_t>(1000, 7);
};

TEST_F(KernelCacheTest, AnotherKernelsEntryUnderItsNameIsNotTaken) {
  fs::copy_file(FileOf(b_), FileOf(a_), fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache_.Find(a_, "s").has_value());
  EXPECT_TRUE(cache_.Find(b_, "s").has_value());
}

TEST_F(KernelCacheTest, WhatOthersMayWriteToIsNotUsed) {
  const fs::path file = FileOf(a_);
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(cache_.Find(a_, "s").has_value());
  fs::permissions(file, fs::perms::group_write, fs::perm_options::remove);
  EXPECT_TRUE(cache_.Find(a_, "s").has_value());
  fs::permissions(folder_, fs::perms::others_write, fs::perm_options::add);
  const Result<KernelCache> opened = KernelCache::Open(folder_.string());
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(std::string(opened.status().message()).find("others may write to it"), std::string::npos);
  fs::permissions(folder_, fs::perms::others_write, fs::perm_options::remove);
  if (geteuid() != 0) return;  // only root can make files of other users
  ASSERT_EQ(chown(file.c_str(), 12345, getegid()), 0);
  EXPECT_FALSE(cache_.Find(a_, "s").has_value());
  ASSERT_EQ(chown(folder_.string().c_str(), 12345, getegid()), 0);
  EXPECT_NE(std::string(KernelCache::Open(folder_.string()).status().message()).find("belongs to user 12345"),
            std::string::npos);
}

TEST_F(KernelCacheTest, OnlyRegularFilesOfPlausibleSizeAreRead) {
  const fs::path file = FileOf(a_);
  const fs::path aside = folder_.string() + ".aside";
  fs::rename(file, aside);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(cache_.Find(a_, "s").has_value());  // and does not wait for a writer
  fs::remove(file);
  for (const fs::path& to : {fs::path("/dev/zero"), aside}) {
    fs::create_symlink(to, file);
    EXPECT_FALSE(cache_.Find(a_, "s").has_value()) << to;
    fs::remove(file);
  }
  fs::rename(aside, file);
  EXPECT_TRUE(cache_.Find(a_, "s").has_value());
  fs::resize_file(file, uint64_t{1} << 40);  // sparse
  EXPECT_FALSE(cache_.Find(a_, "s").has_value());
}

TEST_F(KernelCacheTest, AFolderThatItMakesIsItsOwners) {
  const mode_t before = umask(0);
  const Result<KernelCache> opened = KernelCache::Open((folder_ / "new").string());
  umask(before);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
}

TEST_F(CompileUnitsTest, AFullCacheLosesWhatWasNotUsedForLongest) {
  const std::string folder = (folder_ / "small").string();
  const std::vector<uint8_t> code(1000, 7);
  Result<KernelCache> cache = KernelCache::Open(folder);
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  for (int i = 0; i < 10; ++i) cache->Keep("text" + std::to_string(i), "s", code);
  for (const auto& entry : fs::directory_iterator(folder))
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_TRUE(cache->Find("text4", "s").has_value());  // used last
  EXPECT_FALSE(cache->Find("text4", "t").has_value());
  cache = KernelCache::Open(folder, 8000);
  ASSERT_TRUE(cache.ok());
  size_t left = 0;
  for (int i = 0; i < 10; ++i) left += cache->Find("text" + std::to_string(i), "s").has_value();
  EXPECT_EQ(left, 5u);  // 1065 bytes each: at most three quarters of 8000
  EXPECT_TRUE(cache->Find("text4", "s").has_value());
}

}  // namespace
}  // namespace rondo
