#include "formats/onnx/external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
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
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

// The components of a relative path; an error if the path could leave its folder.
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

// The error of opening an external file; `is_link`: a symbolic link of that name exists.
Status OpenError(int error, const std::string& location, const std::string& folder, bool is_link) {
  if (error == ENOENT && !is_link) {
    return Status::Error(Code::kNotFound, "external data file \"%.200s\" does not exist in \"%.500s\"",
                         location.c_str(), folder.c_str());
  }
  if (error == ENOENT) {
    return Status::Error(
        Code::kInvalidArgument,
        "external data location \"%.200s\" in \"%.500s\" is a symbolic link to a file that does "
        "not exist; download it again",
        location.c_str(), folder.c_str());
  }
  if (error == ELOOP || error == ENOTDIR) {
    return Status::Error(
        Code::kInvalidArgument,
        "external data location \"%.200s\" in \"%.500s\" passes through a file, or through links "
        "that lead nowhere",
        location.c_str(), folder.c_str());
  }
  return Status::Error(Code::kIo, "external data file \"%.200s\" in \"%.500s\" cannot be opened: %s",
                       location.c_str(), folder.c_str(), std::strerror(error));
}

// Opens `path` below the folder `at` as a path only, following links. Links of /proc are refused, because
// they lead to any file that a process has open.
int OpenPath(int at, const std::string& path) {
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, at, path.c_str(), &how, sizeof(how));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);
  return openat(at, path.c_str(),
                O_PATH | O_CLOEXEC);  // an old kernel; the real path is checked in any case
}

// The path in /proc of the file that `fd` refers to.
std::string OpenFile(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Result<std::string> RealPath(const std::string& path, const char* what) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) {
    return Status::Error(errno == ENOENT ? Code::kNotFound : Code::kIo,
                         "%s \"%.500s\" cannot be resolved: %s", what, path.c_str(), std::strerror(errno));
  }
  std::string text = real;
  std::free(real);
  return text;
}

bool LiesBelow(const std::string& path, const std::string& folder) {
  const std::string below = folder == "/" ? folder : folder + "/";
  return path.size() > below.size() && path.compare(0, below.size(), below) == 0;
}

// For .../models--ORG--NAME/snapshots/REVISION or a folder in it: .../models--ORG--NAME/blobs. "" for other
// folders.
std::string BlobsOf(const std::string& folder) {
  constexpr char kSnapshots[] = "/snapshots/", kModels[] = "models--";
  for (size_t at = folder.find(kSnapshots); at != std::string::npos; at = folder.find(kSnapshots, at + 1)) {
    const size_t name = folder.rfind('/', at - 1) + 1;
    const bool revision = at + sizeof(kSnapshots) - 1 < folder.size();
    if (at > 0 && revision && folder.compare(name, sizeof(kModels) - 1, kModels) == 0 &&
        at > name + sizeof(kModels) - 1)
      return folder.substr(0, at) + "/blobs";
  }
  return "";
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

Status ExternalFiles::FindRoots() {
  if (!roots_.empty()) return Status::Ok();
  RONDO_ASSIGN_OR_RETURN(const std::string own, RealPath(folder_, "the model's folder"));
  std::vector<std::string> roots = {own};
  if (std::string blobs = BlobsOf(own); !blobs.empty()) roots.push_back(std::move(blobs));
  for (const std::string& folder : allowed_) {
    RONDO_ASSIGN_OR_RETURN(std::string real, RealPath(folder, "the folder of external data"));
    roots.push_back(std::move(real));
  }
  roots_ = std::move(roots);
  return Status::Ok();
}

Result<std::shared_ptr<const MappedFile>> ExternalFiles::Open(const std::string& location) {
  if (auto found = files_.find(location); found != files_.end()) return found->second;
  RONDO_ASSIGN_OR_RETURN(const std::vector<std::string> names, PlainNames(location));
  RONDO_RETURN_IF_ERROR(FindRoots());
  std::string path;
  for (const std::string& name : names) path += (path.empty() ? "" : "/") + name;
  const Descriptor folder(open(roots_[0].c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return OpenError(errno, location, folder_, false);
  const Descriptor found(OpenPath(folder.get(), path));
  if (found.get() < 0) {
    const int error = errno;
    struct stat link;
    const bool is_link = fstatat(folder.get(), path.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0;
    return OpenError(error, location, folder_, is_link);
  }
  char real[PATH_MAX];
  const ssize_t length = readlink(OpenFile(found.get()).c_str(), real, sizeof(real));
  if (length < 0 || length >= static_cast<ssize_t>(sizeof(real))) {
    return Status::Error(Code::kIo, "where external data file \"%.200s\" lies cannot be read from /proc: %s",
                         location.c_str(), std::strerror(errno));
  }
  const std::string lies(real, static_cast<size_t>(length));
  bool allowed = false;
  for (const std::string& root : roots_) allowed = allowed || LiesBelow(lies, root);
  if (!allowed) {
    return Status::Error(Code::kInvalidArgument,
                         "external data location \"%.200s\" in \"%.500s\" leads to \"%.500s\". It may be a "
                         "hard link, or a symbolic "
                         "link to a file below the model's folder, below \"blobs\" of the same repository in "
                         "Hugging Face's cache, or "
                         "below a folder given by --external-data DIR; else copy it to the model's folder",
                         location.c_str(), folder_.c_str(), lies.c_str());
  }
  struct stat info;
  if (fstat(found.get(), &info) != 0) return OpenError(errno, location, folder_, false);
  if (!S_ISREG(info.st_mode)) {
    return Status::Error(Code::kInvalidArgument,
                         "external data location \"%.200s\" in \"%.500s\" is no regular file",
                         location.c_str(), folder_.c_str());
  }
  // Opens the same file for reading, not by its path, which may now lead to another file.
  const Descriptor file(open(OpenFile(found.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return OpenError(errno, location, folder_, false);
  auto mapped = MappedFile::Map(file.get(), location);
  if (!mapped.ok()) return mapped.status().At("external data");
  files_[location] = *mapped;
  return *mapped;
}

}  // namespace rondo::onnx
