// Git LFS pointers: the few lines of text that stand in a checkout for a large file that was not fetched.
#pragma once

#include <cstddef>
#include <cstring>

namespace rondo {

// Whether a file that begins with these bytes is such a pointer (git-lfs, docs/spec.md).
inline bool IsLfsPointer(const void* begin, size_t bytes) {
  constexpr char kFirstLine[] = "version https://git-lfs.github.com/spec/";
  return bytes >= sizeof(kFirstLine) && std::memcmp(begin, kFirstLine, sizeof(kFirstLine) - 1) == 0;
}

// The rest of an error, after the file's name.
inline constexpr char kLfsPointerText[] =
    "is a Git LFS pointer, not the file itself; \"git lfs pull\" fetches that";

}  // namespace rondo
