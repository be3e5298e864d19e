// Files of tools and compiler: inputs that are regular files, outputs that replace only files of their kind.
//
// A target of its own, `rondo_files`: the runtime reads plans by itself and writes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/span.h"
#include "core/status.h"

namespace rondo {

// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return number_; }
  // Closes it and says whether that worked.
  bool Close();

 private:
  int number_;
};

struct InputFile {
  Descriptor descriptor;
  uint64_t bytes = 0;
};

// Opens a regular file for reading, without ever waiting: a FIFO, a device or a folder is refused by what it
// is. `folder`: what a relative path is relative to, a descriptor; -1: the current one. `flags`: of open,
// besides. Errors: kNotFound, kIo, with the path.
Result<InputFile> OpenInputFile(const std::string& path, int folder = -1, int flags = 0);

// The whole file. Errors as OpenInputFile; kOutOfMemory beyond `most_bytes`; kCorrupt for a Git LFS pointer.
Result<std::vector<uint8_t>> ReadInputFile(const std::string& path, uint64_t most_bytes = uint64_t{16} << 30);

// What an output is: the files that it may replace.
struct FileKind {
  const char* name;         // "a plan"
  std::string_view begins;  // with what such a file begins; empty: see `is`
  // Whether these bytes, the whole file, are such a file. Asked where `begins` is empty.
  bool (*is)(Span<const uint8_t> bytes) = nullptr;
};

// A file in the making: written beside its place under another name, renamed when it is complete, removed if
// it never is. Movable; one thread at a time.
class OutputFile {
 public:
  // Error kIo: something is there that is no regular file of that kind (an empty one is of every kind), or
  // nothing can be made.
  static Result<OutputFile> Create(const std::string& path, const FileKind& kind);
  OutputFile(OutputFile&& other) noexcept;
  ~OutputFile();

  Status Append(const void* bytes, size_t size);
  Status WriteAt(uint64_t offset, const void* bytes, size_t size);
  // The file is complete and in its place.
  Status Commit();

 private:
  OutputFile() = default;
  Status Fail(const char* doing) const;

  std::string path_, temporary_;  // temporary_: "" once it is nobody's
  Descriptor file_;
  uint64_t end_ = 0;
};

// Whether OutputFile::Create would refuse, without making anything.
Status MayBeReplaced(const std::string& path, const FileKind& kind);

// Writes the whole file.
Status ReplaceFile(const std::string& path, const FileKind& kind, const void* data, size_t size);

}  // namespace rondo
