#include "compiler/codegen/cuda/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace rondo {

namespace {

namespace fs = std::filesystem;

constexpr char kEnding[] = ".cubin";
constexpr uint64_t kMostCodeBytes = uint64_t{64} << 20;  // of one kernel

// The head of a file. The signature (what else the code depends on), the function's name and the code follow.
struct Head {
  char magic[8] = {'R', 'N', 'D', 'O', 'C', 'O', 'D', '2'};
  uint64_t key[2] = {};   // of text and signature: the file's name
  uint64_t text[2] = {};  // xxh3-128 of the text
  uint64_t text_bytes = 0;
  uint64_t hash = 0;  // xxh3-64 of all that follows
  uint32_t signature_bytes = 0, name_bytes = 0;
};
static_assert(sizeof(Head) == 64);

struct Entry {
  fs::path path;
  uint64_t bytes = 0;
  fs::file_time_type used;
};

// The key of a code in the cache, and what its file must say.
struct Key {
  Head head;         // without the hash
  std::string name;  // of the file
  std::string_view function;
};

// The name of the last function of the text: the one that is launched.
std::string_view FunctionOf(std::string_view text) {
  constexpr std::string_view kGlobal = "__global__";
  const size_t global = text.rfind(kGlobal);
  if (global == text.npos) return {};
  size_t end = text.find('{', global);
  // The parameter list holds no parentheses: it starts at the last "(" before the body.
  end = text.rfind('(', end);
  if (end == text.npos || end < global) return {};
  size_t begin = end;
  while (begin > 0 &&
         (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_'))
    --begin;
  return text.substr(begin, end - begin);
}

Key KeyOf(const std::string& text, const std::string& signature) {
  Key key;
  const uint64_t seed = XXH3_64bits(signature.data(), signature.size());
  const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), seed);
  const XXH128_hash_t plain = XXH3_128bits(text.data(), text.size());
  key.function = FunctionOf(text);
  key.head.key[0] = hash.high64;
  key.head.key[1] = hash.low64;
  key.head.text[0] = plain.high64;
  key.head.text[1] = plain.low64;
  key.head.text_bytes = text.size();
  key.head.signature_bytes = static_cast<uint32_t>(signature.size());
  key.head.name_bytes = static_cast<uint32_t>(key.function.size());
  char name[33];
  std::snprintf(name, sizeof(name), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  key.name = std::string(name) + kEnding;
  return key;
}

// Why a file or folder is not used; "" if the caller owns it and nobody else may write to it.
std::string NotOurs(const struct stat& info) {
  if (info.st_uid != geteuid())
    return "it belongs to user " + std::to_string(info.st_uid) + ", not to " + std::to_string(geteuid());
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to it (chmod go-w)";
  return "";
}

// Also removes half-written files of processes that died.
void MakeRoom(const std::string& folder, uint64_t most_bytes) {
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    const Entry entry = {at->path(), at->file_size(unreadable), at->last_write_time(unreadable)};
    if (unreadable) continue;
    const bool part =
        at->path().filename().string().find(std::string(kEnding) + ".part") != std::string::npos;
    if (part && now - entry.used > std::chrono::hours(1)) fs::remove(entry.path, unreadable);
    if (at->path().extension() != kEnding) continue;
    bytes += entry.bytes;
    entries.push_back(entry);
  }
  if (bytes <= most_bytes) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (bytes <= most_bytes / 4 * 3) return;
    if (fs::remove(entry.path, error)) bytes -= entry.bytes;
  }
}

bool WriteAll(int file, const void* bytes, size_t size) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  while (size > 0) {
    const ssize_t n = write(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Result<KernelCache> KernelCache::Open(const std::string& folder, uint64_t most_bytes) {
  std::error_code error;
  const fs::path parent = fs::path(folder).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  const bool made = mkdir(folder.c_str(), 0755) == 0;
  // Takes away others' write permission, whatever the umask allows.
  if (made)
    fs::permissions(folder, fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove,
                    error);
  Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info = {};
  if (opened.get() < 0 || fstat(opened.get(), &info) != 0) {
    return Status::Error(Code::kIo, "the kernel cache \"%s\" cannot be made: %s", folder.c_str(),
                         errno == ENOTDIR ? "there is a file of that name" : std::strerror(errno));
  }
  if (const std::string why = NotOurs(info); !why.empty())
    return Status::Error(Code::kIo, "the kernel cache \"%s\" is not used: %s", folder.c_str(), why.c_str());
  MakeRoom(folder, most_bytes);
  KernelCache cache;
  cache.folder_ = std::make_shared<const Descriptor>(std::move(opened));
  return cache;
}

std::optional<std::vector<uint8_t>> KernelCache::Find(const std::string& text,
                                                      const std::string& signature) const {
  if (folder_ == nullptr) return std::nullopt;
  const Key key = KeyOf(text, signature);
  const Result<InputFile> file = OpenInputFile(key.name, folder_->get(), O_NOFOLLOW);
  struct stat info = {};
  const uint64_t words = signature.size() + key.function.size(), least = sizeof(Head) + words;
  if (!file.ok() || file->bytes <= least || file->bytes > least + kMostCodeBytes) return std::nullopt;
  if (fstat(file->descriptor.get(), &info) != 0 || !NotOurs(info).empty()) return std::nullopt;
  std::vector<uint8_t> bytes(file->bytes);
  if (pread(file->descriptor.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return std::nullopt;
  Head expected = key.head;
  expected.hash = XXH3_64bits(bytes.data() + sizeof(Head), bytes.size() - sizeof(Head));
  const auto* said = reinterpret_cast<const char*>(bytes.data() + sizeof(Head));
  if (std::memcmp(bytes.data(), &expected, sizeof(Head)) != 0 ||
      std::string_view(said, signature.size()) != signature ||
      std::string_view(said + signature.size(), key.function.size()) != key.function) {
    return std::nullopt;
  }
  utimensat(folder_->get(), key.name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);  // used now
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(least));
  return bytes;
}

void KernelCache::Keep(const std::string& text, const std::string& signature,
                       const std::vector<uint8_t>& code) const {
  if (folder_ == nullptr || code.empty() || code.size() > kMostCodeBytes) return;
  static std::atomic<uint64_t> number{0};
  Key key = KeyOf(text, signature);
  std::vector<uint8_t> rest(signature.begin(), signature.end());
  rest.insert(rest.end(), key.function.begin(), key.function.end());
  rest.insert(rest.end(), code.begin(), code.end());
  key.head.hash = XXH3_64bits(rest.data(), rest.size());
  const std::string part = key.name + ".part" + std::to_string(getpid()) + "-" + std::to_string(++number);
  const int folder = folder_->get();
  Descriptor file(openat(folder, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.get() < 0) return;
  const bool whole = fchmod(file.get(), 0644) == 0 && WriteAll(file.get(), &key.head, sizeof(Head)) &&
                     WriteAll(file.get(), rest.data(), rest.size());
  const bool closed = file.Close();
  if (!whole || !closed || renameat(folder, part.c_str(), folder, key.name.c_str()) != 0)
    unlinkat(folder, part.c_str(), 0);
}

}  // namespace rondo
