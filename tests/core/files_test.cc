// Files: inputs are regular files and never block; an output replaces only a file of its own kind, and is
// complete or absent.
#include "core/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "core/lfs_pointer.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr FileKind kText = {"a text", "TEXT"};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void Put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
size_t FilesIn(const TemporaryFolder& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}
void ExpectSays(const Status& status, Code code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status.message();
}

TEST(InputFiles, AreRegularFiles) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.File("fifo").c_str(), 0600), 0);
  ExpectSays(ReadInputFile(folder.File("fifo")).status(), Code::kIo, "fifo: not a regular file, but a FIFO");
  ExpectSays(ReadInputFile(folder.string()).status(), Code::kIo, "not a regular file, but a folder");
  ExpectSays(ReadInputFile("/dev/null").status(), Code::kIo, "/dev/null: not a regular file, but a device");
  ExpectSays(ReadInputFile(folder.File("none")).status(), Code::kNotFound, "none: cannot open: No such file");
  Put(folder.File("file"), "abc");
  ExpectSays(ReadInputFile(folder.File("file/below")).status(), Code::kIo, "cannot open: Not a directory");
}

TEST(InputFiles, AreReadWholeUpToALimit) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("a"), std::string(100'000, 'x')}) {
    Put(folder.File("file"), text);
    auto bytes = ReadInputFile(folder.File("file"), text.size());
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ(std::string(bytes->begin(), bytes->end()), text);
    auto opened = OpenInputFile(folder.File("file"));
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->bytes, text.size());
    if (text.empty()) continue;
    ExpectSays(ReadInputFile(folder.File("file"), text.size() - 1).status(), Code::kOutOfMemory,
               std::to_string(text.size()) + " bytes exceed the limit of " + std::to_string(text.size() - 1));
  }
  Put(folder.File("file"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  ExpectSays(ReadInputFile(folder.File("file")).status(), Code::kCorrupt, kLfsPointerText);
}

TEST(InputFiles, ARelativePathBeginsAtTheFolder) {
  const TemporaryFolder folder;
  Put(folder.File("file"), "abc");
  const Descriptor at(open(folder.string().c_str(), O_RDONLY | O_DIRECTORY));
  EXPECT_TRUE(OpenInputFile("file", at.get()).ok());
  EXPECT_EQ(OpenInputFile("file").status().code(), Code::kNotFound);
  ASSERT_EQ(symlink("file", folder.File("link").c_str()), 0);
  EXPECT_TRUE(OpenInputFile("link", at.get()).ok());
  EXPECT_FALSE(OpenInputFile("link", at.get(), O_NOFOLLOW).ok());
}

TEST(OutputFiles, ReplaceTheirOwnKindAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.File("out");
  const auto replace = [&] { return ReplaceFile(path, kText, "TEXT new", 8); };
  EXPECT_TRUE(replace().ok());
  EXPECT_EQ(Contents(path), "TEXT new");
  for (const char* before : {"", "TEXT", "TEXT of before"}) {
    Put(path, before);
    EXPECT_TRUE(MayBeReplaced(path, kText).ok()) << before;
    EXPECT_TRUE(replace().ok()) << before;
    EXPECT_EQ(Contents(path), "TEXT new");
  }
  for (const char* before : {"TEX", "text", "a model"}) {
    Put(path, before);
    ExpectSays(MayBeReplaced(path, kText), Code::kIo, "out is there and is not a text; it is not replaced");
    ExpectSays(replace(), Code::kIo, "is not a text; it is not replaced");
    EXPECT_EQ(Contents(path), before);
  }
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ExpectSays(replace(), Code::kIo, "out is there and not a regular file, but a FIFO; it is not replaced");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  ExpectSays(replace(), Code::kIo, "out is there and not a regular file, but a folder; it is not replaced");
  EXPECT_EQ(FilesIn(folder), 1u);
}

TEST(OutputFiles, AKindMayAskForAllBytes) {
  const TemporaryFolder folder;
  const FileKind even = {"an even file", "", [](Span<const uint8_t> bytes) { return bytes.size() % 2 == 0; }};
  Put(folder.File("out"), "1234");
  EXPECT_TRUE(MayBeReplaced(folder.File("out"), even).ok());
  Put(folder.File("out"), "12345");
  ExpectSays(MayBeReplaced(folder.File("out"), even), Code::kIo, "is not an even file");
}

TEST(OutputFiles, AreThereWhenTheyAreCompleteAndNotBefore) {
  const TemporaryFolder folder;
  const std::string path = folder.File("out");
  Put(path, "TEXT old");
  {
    auto file = OutputFile::Create(path, kText);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->Append("TEXT", 4).ok());
    EXPECT_EQ(Contents(path), "TEXT old");
    EXPECT_EQ(FilesIn(folder), 2u);
  }
  EXPECT_EQ(Contents(path), "TEXT old");
  EXPECT_EQ(FilesIn(folder), 1u);  // incomplete files are gone
  auto made = OutputFile::Create(path, kText), second = OutputFile::Create(path, kText);
  ASSERT_TRUE(made.ok() && second.ok());  // two at once write to different files
  OutputFile file = std::move(*made);
  EXPECT_TRUE(file.Append("TEXT ", 5).ok());
  EXPECT_TRUE(file.WriteAt(9, "end", 3).ok());
  EXPECT_TRUE(file.Append("of ", 3).ok());  // continues after the last Append
  EXPECT_TRUE(file.WriteAt(8, "-", 1).ok());
  EXPECT_TRUE(file.Commit().ok());
  EXPECT_EQ(Contents(path), "TEXT of -end");
  EXPECT_TRUE(second->Append("TEXT 2", 6).ok());
  EXPECT_TRUE(second->Commit().ok());
  EXPECT_EQ(Contents(path), "TEXT 2");
  EXPECT_EQ(FilesIn(folder), 1u);
}

TEST(OutputFiles, RemoveNothingOfAnotherOnceTheyAreInTheirPlace) {
  const TemporaryFolder folder;
  const std::string path = folder.File("out");
  std::optional<OutputFile> first(OutputFile::Create(path, kText).Take());
  EXPECT_TRUE(first->Append("TEXT 1", 6).ok());
  EXPECT_TRUE(first->Commit().ok());
  auto second = OutputFile::Create(path, kText);
  ASSERT_TRUE(second.ok());
  first.reset();
  EXPECT_TRUE(second->Append("TEXT 2", 6).ok());
  EXPECT_TRUE(second->Commit().ok());
  EXPECT_EQ(Contents(path), "TEXT 2");
}

TEST(OutputFiles, SayWhatFailed) {
  const TemporaryFolder folder;
  ExpectSays(OutputFile::Create(folder.File("none/out"), kText).status(), Code::kIo,
             "none/out: No such file or directory (its folder must be there)");
  auto file = OutputFile::Create(folder.File("out"), kText);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->Append("TEXT", 4).ok());
  std::filesystem::create_directory(folder.File("out"));
  Put(folder.File("out/inside"), "");
  ExpectSays(file->Commit(), Code::kIo, "renaming ");
}

TEST(Descriptors, AreClosedOnce) {
  Descriptor a(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = a.get();
  ASSERT_GE(number, 0);
  Descriptor b(std::move(a));
  EXPECT_EQ(a.get(), -1);  // NOLINT
  EXPECT_EQ(b.get(), number);
  EXPECT_TRUE(b.Close());
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  EXPECT_TRUE(b.Close());  // nothing is open
  EXPECT_FALSE(Descriptor(number).Close());
}

// If a process has closed its standard input, the next file gets its descriptor number, 0.
TEST(Descriptors, ZeroIsOneLikeOthers) {
  const TemporaryFolder folder;
  const int kept = dup(0);
  close(0);
  {
    auto file = OutputFile::Create(folder.File("out"), kText);
    EXPECT_TRUE(file.ok());
    EXPECT_TRUE(file.ok() && file->Append("TEXT", 4).ok() && file->Commit().ok());
    EXPECT_EQ(fcntl(0, F_GETFD), -1);
    EXPECT_TRUE(ReadInputFile(folder.File("out")).ok());
    EXPECT_EQ(fcntl(0, F_GETFD), -1);
  }
  if (kept >= 0) {
    dup2(kept, 0);
    close(kept);
  }
}

}  // namespace
}  // namespace rondo
