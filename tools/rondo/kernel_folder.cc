#include "tools/rondo/kernel_folder.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "compiler/codegen/cuda/kernel_cache.h"

namespace rondo::tools {

std::string DefaultKernelFolder(const char* command) {
  std::filesystem::path folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    folder = cache;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return "";
  }
  folder /= "rondo/kernels";
  const Status usable = KernelCache::Open(folder.string()).status();
  if (usable.ok()) return folder.string();
  std::fprintf(stderr, "rondo %s: %s; every kernel is compiled\n", command, usable.message());
  return "";
}

}  // namespace rondo::tools
