#include "compiler/codegen/cuda/kernel_cache.h"

#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace rondo {

namespace {

namespace fs = std::filesystem;

constexpr char kEnding[] = ".cubin";

// What a file begins with.
struct Head {
  char magic[8] = {'R', 'N', 'D', 'O', 'C', 'O', 'D', '1'};
  uint64_t hash = 0;  // xxh3-64 of the code, which follows
};

struct Entry {
  fs::path path;
  uint64_t bytes = 0;
  fs::file_time_type used;
};

void MakeRoom(const std::string& folder, uint64_t most_bytes) {
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != kEnding) continue;
    std::error_code unreadable;
    const Entry entry = {at->path(), at->file_size(unreadable), at->last_write_time(unreadable)};
    if (unreadable) continue;
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

}  // namespace

Result<KernelCache> KernelCache::Open(const std::string& folder, uint64_t most_bytes) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) {
    return Status::Error(Code::kIo, "the kernel cache \"%s\" cannot be made: %s", folder.c_str(),
                         error ? error.message().c_str() : "there is a file of that name");
  }
  MakeRoom(folder, most_bytes);
  KernelCache cache;
  cache.folder_ = folder;
  return cache;
}

std::string KernelCache::PathOf(const std::string& text, const std::string& signature) const {
  const uint64_t seed = XXH3_64bits(signature.data(), signature.size());
  const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), seed);
  char name[33];
  std::snprintf(name, sizeof(name), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return folder_ + "/" + name + kEnding;
}

std::optional<std::vector<uint8_t>> KernelCache::Find(const std::string& text,
                                                      const std::string& signature) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = PathOf(text, signature);
  std::ifstream file(path, std::ios::binary);
  const Head expected;
  Head head;
  if (!file.read(reinterpret_cast<char*>(&head), sizeof(head))) return std::nullopt;
  std::vector<uint8_t> code{std::istreambuf_iterator<char>(file), {}};
  if (std::memcmp(head.magic, expected.magic, sizeof(head.magic)) != 0 || code.empty() ||
      XXH3_64bits(code.data(), code.size()) != head.hash)
    return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return code;
}

void KernelCache::Keep(const std::string& text, const std::string& signature,
                       const std::vector<uint8_t>& code) const {
  if (folder_.empty()) return;
  static std::atomic<uint64_t> number{0};
  const std::string path = PathOf(text, signature),
                    part = path + ".part" + std::to_string(getpid()) + "-" + std::to_string(++number);
  Head head;
  head.hash = XXH3_64bits(code.data(), code.size());
  std::ofstream file(part, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&head), sizeof(head));
  file.write(reinterpret_cast<const char*>(code.data()), static_cast<std::streamsize>(code.size()));
  file.close();
  std::error_code error;
  if (file.good()) fs::rename(part, path, error);
  if (!file.good() || error) fs::remove(part, error);
}

}  // namespace rondo
