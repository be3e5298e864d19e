// Allowed places for external data: hard links, and symbolic links that end below the model's folder, below
// its repository in Hugging Face's cache, or below a folder that the user names; no others.
#include "formats/onnx/external_data.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/says.h"
#include "tests/temporary_folder.h"

namespace rondo::onnx {
namespace {

namespace fs = std::filesystem;

// hub/models--org--name/{blobs, snapshots/abc/onnx} like the cache, beside files that do not belong to the
// model.
class ExternalDataTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(model_);
    fs::create_directories(repository_ / "blobs");
    fs::create_directories(hub_ / "models--org--other" / "blobs");
    fs::create_directories(outside_ / "deep");
    for (const fs::path& file : {outside_ / "w.bin", outside_ / "deep" / "w.bin", model_ / "own.bin",
                                 repository_ / "blobs" / "sha", hub_ / "models--org--other" / "blobs" / "sha",
                                 repository_ / "refs.bin", repository_ / "snapshots" / "abc" / "upper.bin"})
      Write(file);
  }

  static void Write(const fs::path& path) { std::ofstream(path, std::ios::binary) << path.string(); }

  // Opens `location` in `folder`. Returns what it reads, or the error.
  Result<std::string> Read(const std::string& location, const fs::path& folder,
                           std::vector<std::string> allowed = {}) {
    ExternalFiles files(folder.string(), std::move(allowed));
    const auto file = files.Open(location);
    if (!file.ok()) return file.status();
    const auto bytes = (*file)->bytes();
    return std::string(bytes.begin(), bytes.end());
  }
  void ExpectReads(const std::string& location, const fs::path& what, std::vector<std::string> allowed = {}) {
    const Result<std::string> read = Read(location, model_, std::move(allowed));
    ASSERT_TRUE(read.ok()) << location << ": " << read.status().message();
    EXPECT_EQ(*read, what.string());
  }

  TemporaryFolder folder_;
  const fs::path hub_ = fs::path(folder_ / "hub"), repository_ = hub_ / "models--org--name",
                 model_ = repository_ / "snapshots" / "abc" / "onnx",
                 outside_ = fs::path(folder_ / "outside");
};

TEST_F(ExternalDataTest, LinksOfTheCacheAreFollowed) {
  fs::create_symlink("../../../blobs/sha", model_ / "w.bin");
  ExpectReads("w.bin", repository_ / "blobs" / "sha");
  // A link to the whole cache, and one to the model's folder.
  fs::create_directory_symlink(hub_, folder_ / "cache");
  fs::create_directory_symlink(model_, folder_ / "short");
  EXPECT_TRUE(Read("w.bin", folder_ / "cache" / "models--org--name" / "snapshots" / "abc" / "onnx").ok());
  EXPECT_TRUE(Read("w.bin", folder_ / "short").ok());
}

TEST_F(ExternalDataTest, HardLinksAndLinksWithinTheFolderAreRead) {
  fs::create_hard_link(outside_ / "w.bin", model_ / "hard.bin");
  ExpectReads("hard.bin", outside_ / "w.bin");
  fs::create_directories(model_ / "parts");
  Write(model_ / "parts" / "p.bin");
  fs::create_symlink("parts/p.bin", model_ / "link.bin");
  fs::create_symlink("link.bin", model_ / "chain.bin");
  fs::create_directory_symlink("parts", model_ / "same");
  for (const char* location : {"link.bin", "chain.bin", "same/p.bin", "parts/p.bin", "./parts//p.bin"})
    ExpectReads(location, model_ / "parts" / "p.bin");
}

TEST_F(ExternalDataTest, FoldersThatTheUserNamesAreAllowed) {
  fs::create_symlink(outside_ / "deep" / "w.bin", model_ / "w.bin");
  EXPECT_FALSE(Read("w.bin", model_).ok());
  ExpectReads("w.bin", outside_ / "deep" / "w.bin", {(folder_ / "hub"), (outside_ / "deep").string()});
  ExpectReads("w.bin", outside_ / "deep" / "w.bin", {outside_.string()});
  // Folders are compared by their real paths.
  fs::create_directory_symlink(outside_, folder_ / "by_link");
  ExpectReads("w.bin", outside_ / "deep" / "w.bin", {(folder_ / "by_link")});
  // A folder whose name only begins the same is not allowed.
  fs::create_directories(folder_ / "out");
  EXPECT_FALSE(Read("w.bin", model_, {(folder_ / "out")}).ok());
  EXPECT_SAYS(Read("w.bin", model_, {(folder_ / "nowhere")}).status(), "nowhere");
}

// Ways to reach files that the model may not read.
struct WayOut {
  const char* name;
  const char* location;
  // Makes the way; gets the model's folder, its repository, and a folder outside.
  std::function<void(const fs::path&, const fs::path&, const fs::path&)> make = {};
};
const WayOut kWaysOut[] = {
    {"dots", "../../../../../outside/w.bin"},
    {"dots that stay", "../onnx/own.bin"},
    {"dots behind a folder", "a/../../upper.bin"},
    {"an absolute path", "/etc/passwd"},
    {"a link to a file outside", "w.bin",
     [](auto& m, auto&, auto& o) { fs::create_symlink(o / "w.bin", m / "w.bin"); }},
    {"a link by dots", "w.bin",
     [](auto& m, auto&, auto&) { fs::create_symlink("../../../../../outside/w.bin", m / "w.bin"); }},
    {"a linked folder on the way", "up/w.bin",
     [](auto& m, auto&, auto& o) { fs::create_directory_symlink(o, m / "up"); }},
    {"a folder within a linked one", "up/deep/w.bin",
     [](auto& m, auto&, auto& o) { fs::create_directory_symlink(o, m / "up"); }},
    {"a link to a link", "a.bin",
     [](auto& m, auto&, auto& o) {
       fs::create_symlink("b.bin", m / "a.bin");
       fs::create_symlink(o / "w.bin", m / "b.bin");
     }},
    {"a link by way of the cache", "a.bin",
     [](auto& m, auto& r, auto& o) {
       fs::create_symlink("../../../blobs/there", m / "a.bin");
       fs::create_symlink(o / "w.bin", r / "blobs" / "there");
     }},
    {"blobs of another repository", "w.bin",
     [](auto& m, auto&, auto&) {
       fs::create_symlink("../../../../models--org--other/blobs/sha", m / "w.bin");
     }},
    {"another folder of the repository", "w.bin",
     [](auto& m, auto&, auto&) { fs::create_symlink("../../../refs.bin", m / "w.bin"); }},
    {"the folder above the model's", "w.bin",
     [](auto& m, auto&, auto&) { fs::create_symlink("../upper.bin", m / "w.bin"); }},
    {"blobs that lead elsewhere", "w.bin",
     [](auto& m, auto& r, auto& o) {
       fs::remove_all(r / "blobs");
       fs::create_directory_symlink(o, r / "blobs");
       fs::create_symlink("../../../blobs/w.bin", m / "w.bin");
     }},
    {"an open file of the process", "w.bin",
     [](auto& m, auto&, auto&) { fs::create_symlink("/proc/self/fd/0", m / "w.bin"); }},
    {"the process itself", "w.bin",
     [](auto& m, auto&, auto&) { fs::create_symlink("/proc/self/exe", m / "w.bin"); }},
    {"a file of the kernel", "w.bin",
     [](auto& m, auto&, auto&) { fs::create_symlink("/proc/self/environ", m / "w.bin"); }},
    {"a device", "w.bin", [](auto& m, auto&, auto&) { fs::create_symlink("/dev/zero", m / "w.bin"); }},
    {"a pipe", "w.bin", [](auto& m, auto&, auto&) { ASSERT_EQ(mkfifo((m / "w.bin").c_str(), 0600), 0); }},
    {"a link to a pipe", "w.bin",
     [](auto& m, auto&, auto&) {
       ASSERT_EQ(mkfifo((m / "p").c_str(), 0600), 0);
       fs::create_symlink("p", m / "w.bin");
     }},
    {"a folder", "w.bin", [](auto& m, auto&, auto&) { fs::create_directories(m / "w.bin"); }},
    {"the model's folder", "w.bin",
     [](auto& m, auto&, auto&) { fs::create_directory_symlink(".", m / "w.bin"); }},
    {"a link to nothing", "w.bin", [](auto& m, auto&, auto&) { fs::create_symlink("gone", m / "w.bin"); }},
    {"a link to itself", "w.bin", [](auto& m, auto&, auto&) { fs::create_symlink("w.bin", m / "w.bin"); }},
    {"a file as a folder", "own.bin/w.bin"},
    {"no name", ""},
};

class WaysOut : public ExternalDataTest, public testing::WithParamInterface<size_t> {};

TEST_P(WaysOut, AreRefused) {
  const WayOut& way = kWaysOut[GetParam()];
  if (way.make) way.make(model_, repository_, outside_);
  const Result<std::string> read = Read(way.location, model_);
  ASSERT_FALSE(read.ok()) << way.name << ": " << read->substr(0, 200);
  EXPECT_EQ(read.status().code(), Code::kInvalidArgument) << way.name << ": " << read.status().message();
}
INSTANTIATE_TEST_SUITE_P(Each, WaysOut, testing::Range(size_t{0}, std::size(kWaysOut)), [](const auto& info) {
  std::string name = kWaysOut[info.param].name;
  for (char& c : name) c = c == ' ' || c == '\'' ? '_' : c;
  return name;
});

TEST_F(ExternalDataTest, ARefusalNamesWhatIsAllowed) {
  fs::create_symlink(outside_ / "w.bin", model_ / "w.bin");
  for (const char* words : {"\"w.bin\"", "outside/w.bin", "hard link", "model's folder",
                            "\"blobs\" of the same repository", "--external-data DIR"})
    EXPECT_SAYS(Read("w.bin", model_).status(), words);
}

// Folders that only look like the cache.
TEST_F(ExternalDataTest, BlobsBesideOtherFoldersAreNotTheCaches) {
  for (const char* folder : {"name/snapshots/abc", "models--org--name/snapshot/abc",
                             "models--org--name/snapshots", "models--/snapshots/abc"}) {
    const fs::path top = fs::path(folder_ / "else") / folder;
    fs::create_directories(top);
    const fs::path blobs = fs::path(folder_ / "else") / fs::path(folder).begin()->string() / "blobs";
    fs::create_directories(blobs);
    Write(blobs / "sha");
    fs::create_symlink(blobs / "sha", top / "w.bin");
    EXPECT_FALSE(Read("w.bin", top).ok()) << folder;
  }
}

}  // namespace
}  // namespace rondo::onnx
