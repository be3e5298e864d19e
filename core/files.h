// Files of tools and the compiler: inputs must be regular files, outputs replace only files of their kind.
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

// Owns a file descriptor and closes it.
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

// Opens a regular file for reading and never blocks. FIFOs, devices and folders are refused, and the error
// says what they are. `folder`: the descriptor of the folder that a relative path starts from; -1: the
// current one. `flags`: more flags for open. Errors: kNotFound, kIo, with the path.
Result<InputFile> OpenInputFile(const std::string& path, int folder = -1, int flags = 0);

// The whole file. Errors as OpenInputFile; kOutOfMemory beyond `most_bytes`; kCorrupt for a Git LFS pointer.
Result<std::vector<uint8_t>> ReadInputFile(const std::string& path, uint64_t most_bytes = uint64_t{16} << 30);

// A kind of output file: an output replaces only files of its own kind.
struct FileKind {
  const char* name;         // "a plan"
  std::string_view begins;  // the first bytes of such a file; empty: see `is`
  // Whether these bytes, the whole file, are of this kind. Called where `begins` is empty.
  bool (*is)(Span<const uint8_t> bytes) = nullptr;
};

// A file that is being written: beside its place under a temporary name, renamed when complete, otherwise
// removed. Movable; one thread at a time.
class OutputFile {
 public:
  // kIo: the place holds something other than a regular file of that kind (an empty file is of every kind),
  // or the file cannot be created.
  static Result<OutputFile> Create(const std::string& path, const FileKind& kind);
  OutputFile(OutputFile&& other) noexcept;
  ~OutputFile();

  Status Append(const void* bytes, size_t size);
  Status WriteAt(uint64_t offset, const void* bytes, size_t size);
  // Completes the file and puts it in its place.
  Status Commit();

 private:
  OutputFile() = default;
  Status Fail(const char* doing) const;

  std::string path_, temporary_;  // temporary_: "" when there is none to remove
  Descriptor file_;
  uint64_t end_ = 0;
};

// OK if OutputFile::Create would accept the path. Creates nothing.
Status MayBeReplaced(const std::string& path, const FileKind& kind);

// Writes the whole file.
Status ReplaceFile(const std::string& path, const FileKind& kind, const void* data, size_t size);

}  // namespace rondo
