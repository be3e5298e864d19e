#include "formats/onnx/external_data.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/lfs_pointer.h"

namespace rondo::onnx {
namespace {

// Closes a file descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Reset(-1); }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// The names of a relative path, or an error when it could leave its folder.
Result<std::vector<std::string>> PlainNames(const std::string& location) {
  auto refuse = [&](const char* why) {
    return Status::Error(Code::kInvalidArgument, "external data location \"%.200s\" %s", location.c_str(),
                         why);
  };
  if (location.empty()) return refuse("is empty");
  if (location[0] == '/') return refuse("is an absolute path; it must lie in the model's folder");
  if (location.find('\0') != std::string::npos) return refuse("contains a zero byte");
  std::vector<std::string> names;
  size_t begin = 0;
  while (begin <= location.size()) {
    size_t end = location.find('/', begin);
    if (end == std::string::npos) end = location.size();
    std::string name = location.substr(begin, end - begin);
    if (name == "..") return refuse("contains \"..\"; it must lie in the model's folder");
    if (!name.empty() && name != ".") names.push_back(std::move(name));
    begin = end + 1;
  }
  if (names.empty()) return refuse("names no file");
  return names;
}

Status OpenError(int error, const std::string& location, const std::string& folder) {
  if (error == ENOENT) {
    return Status::Error(Code::kNotFound, "external data file \"%.200s\" does not exist in \"%.500s\"",
                         location.c_str(), folder.c_str());
  }
  if (error == ELOOP || error == ENOTDIR) {
    return Status::Error(
        Code::kInvalidArgument,
        "external data location \"%.200s\" passes through a symbolic link or a file; it must be "
        "a plain file in \"%.500s\"",
        location.c_str(), folder.c_str());
  }
  return Status::Error(Code::kIo, "external data file \"%.200s\" in \"%.500s\" cannot be opened: %s",
                       location.c_str(), folder.c_str(), std::strerror(error));
}

}  // namespace

MappedFile::~MappedFile() {
  if (size_ != 0) munmap(const_cast<uint8_t*>(data_), size_);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::Map(int descriptor, const std::string& name) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) {
    return Status::Error(Code::kIo, "\"%.500s\" cannot be examined: %s", name.c_str(), std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::Error(Code::kInvalidArgument, "\"%.500s\" is not a regular file", name.c_str());
  }
  uint64_t size = static_cast<uint64_t>(info.st_size);
  void* data = nullptr;
  if (size != 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
      return Status::Error(Code::kIo, "\"%.500s\" (%llu bytes) cannot be mapped: %s", name.c_str(),
                           static_cast<unsigned long long>(size), std::strerror(errno));
    }
  }
  auto mapped = std::make_shared<MappedFile>(static_cast<const uint8_t*>(data), size);
  if (IsLfsPointer(data, size))
    return Status::Error(Code::kCorrupt, "\"%.500s\" %s", name.c_str(), kLfsPointerText);
  return std::shared_ptr<const MappedFile>(std::move(mapped));
}

Result<std::shared_ptr<const MappedFile>> ExternalFiles::Open(const std::string& location) {
  if (auto found = files_.find(location); found != files_.end()) return found->second;
  RONDO_ASSIGN_OR_RETURN(std::vector<std::string> names, PlainNames(location));
  Descriptor at(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return OpenError(errno, location, folder_);
  for (size_t i = 0; i < names.size(); ++i) {
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
    // O_NONBLOCK: a pipe or device in place of the file must not stop us before it is refused.
    flags |= i + 1 < names.size() ? O_DIRECTORY : O_NONBLOCK;
    int next = openat(at.get(), names[i].c_str(), flags);
    if (next < 0) return OpenError(errno, location, folder_);
    at.Reset(next);
  }
  struct stat info;
  if (fstat(at.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink > 1) {
    return Status::Error(Code::kInvalidArgument,
                         "external data file \"%.200s\" has %llu hard links, so it may be a file outside the "
                         "model's folder; copy it",
                         location.c_str(), static_cast<unsigned long long>(info.st_nlink));
  }
  auto mapped = MappedFile::Map(at.get(), location);
  if (!mapped.ok()) return mapped.status().At("external data");
  files_[location] = *mapped;
  return *mapped;
}

}  // namespace rondo::onnx
