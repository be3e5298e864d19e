#include "core/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/lfs_pointer.h"

namespace rondo {
namespace {

// "a FIFO": what a path leads to that is no regular file.
const char* WhatIs(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "something else";
}

Status OpenError(const std::string& path) {
  return Status::Error(errno == ENOENT ? Code::kNotFound : Code::kIo, "%.500s: cannot open: %s", path.c_str(),
                       std::strerror(errno));
}

Status Read(const InputFile& file, const std::string& path, uint8_t* to, uint64_t bytes) {
  for (uint64_t have = 0; have < bytes;) {
    const ssize_t n = pread(file.descriptor.get(), to + have, bytes - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::Error(Code::kIo, "%.500s: cannot read: %s", path.c_str(), std::strerror(errno));
    if (n == 0) return Status::Error(Code::kIo, "%.500s: ended while being read", path.c_str());
    have += static_cast<uint64_t>(n);
  }
  return Status::Ok();
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() { Close(); }

bool Descriptor::Close() {
  const int number = std::exchange(number_, -1);
  return number < 0 || close(number) == 0;
}

Result<InputFile> OpenInputFile(const std::string& path, int folder, int flags) {
  InputFile file;
  file.descriptor = Descriptor(
      openat(folder < 0 ? AT_FDCWD : folder, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (file.descriptor.get() < 0) return OpenError(path);
  struct stat info = {};
  if (fstat(file.descriptor.get(), &info) != 0)
    return Status::Error(Code::kIo, "%.500s: cannot stat: %s", path.c_str(), std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return Status::Error(Code::kIo, "%.500s: not a regular file, but %s", path.c_str(), WhatIs(info.st_mode));
  file.bytes = static_cast<uint64_t>(info.st_size);
  return file;
}

Result<std::vector<uint8_t>> ReadInputFile(const std::string& path, uint64_t most_bytes) {
  RONDO_ASSIGN_OR_RETURN(const InputFile file, OpenInputFile(path));
  if (file.bytes > most_bytes) {
    return Status::Error(Code::kOutOfMemory, "%.500s: %llu bytes exceed the limit of %llu", path.c_str(),
                         static_cast<unsigned long long>(file.bytes),
                         static_cast<unsigned long long>(most_bytes));
  }
  std::vector<uint8_t> bytes(file.bytes);
  RONDO_RETURN_IF_ERROR(Read(file, path, bytes.data(), file.bytes));
  if (IsLfsPointer(bytes.data(), bytes.size()))
    return Status::Error(Code::kCorrupt, "%.500s %s", path.c_str(), kLfsPointerText);
  return bytes;
}

// Renaming takes the place of whatever is there: a model, its weights, a device.
Status MayBeReplaced(const std::string& path, const FileKind& kind) {
  struct stat there = {};
  if (stat(path.c_str(), &there) != 0) return Status::Ok();
  if (!S_ISREG(there.st_mode)) {
    return Status::Error(Code::kIo, "%.500s is there and not a regular file, but %s; it is not replaced",
                         path.c_str(), WhatIs(there.st_mode));
  }
  if (there.st_size == 0) return Status::Ok();
  RONDO_ASSIGN_OR_RETURN(const InputFile file, OpenInputFile(path));
  const bool whole = kind.begins.empty();
  constexpr uint64_t kMost = uint64_t{16} << 30;
  std::vector<uint8_t> bytes(std::min<uint64_t>(file.bytes, whole ? kMost : kind.begins.size()));
  RONDO_RETURN_IF_ERROR(Read(file, path, bytes.data(), bytes.size()));
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (whole ? kind.is(bytes) : begin == kind.begins) return Status::Ok();
  return Status::Error(Code::kIo, "%.500s is there and is not %s; it is not replaced", path.c_str(),
                       kind.name);
}

Result<OutputFile> OutputFile::Create(const std::string& path, const FileKind& kind) {
  RONDO_RETURN_IF_ERROR(MayBeReplaced(path, kind));
  OutputFile file;
  file.path_ = path;
  for (int attempt = 0; attempt < 100 && file.file_.get() < 0; ++attempt) {
    file.temporary_ = path + ".part" + std::to_string(getpid()) + "-" + std::to_string(attempt);
    file.file_ = Descriptor(open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.file_.get() < 0 && errno != EEXIST) break;
  }
  if (file.file_.get() >= 0) return file;
  file.temporary_.clear();  // not ours to remove
  return Status::Error(Code::kIo, "creating %.500s: %s%s", path.c_str(), std::strerror(errno),
                       errno == ENOENT ? " (its folder must be there)" : "");
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      file_(std::move(other.file_)),
      end_(other.end_) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::Append(const void* bytes, size_t size) {
  RONDO_RETURN_IF_ERROR(WriteAt(end_, bytes, size));
  end_ += size;
  return Status::Ok();
}

Status OutputFile::WriteAt(uint64_t offset, const void* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = pwrite(file_.get(), static_cast<const uint8_t*>(bytes) + done, size - done,
                             static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Fail("writing");
    done += static_cast<size_t>(n);
  }
  return Status::Ok();
}

Status OutputFile::Commit() {
  if (fdatasync(file_.get()) != 0 || !file_.Close()) return Fail("writing");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return Fail("renaming");
  temporary_.clear();
  return Status::Ok();
}

Status OutputFile::Fail(const char* doing) const {
  return Status::Error(Code::kIo, "%s %.500s: %s", doing, temporary_.c_str(), std::strerror(errno));
}

Status ReplaceFile(const std::string& path, const FileKind& kind, const void* data, size_t size) {
  RONDO_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path, kind));
  RONDO_RETURN_IF_ERROR(file.Append(data, size));
  return file.Commit();
}

}  // namespace rondo
