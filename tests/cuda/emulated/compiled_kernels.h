// Where the emulated libnvrtc leaves translated kernels, and how the emulated libcuda finds them: an image is
// an ELF image made by hand, which the compiler and loader check as any other, with the path of a shared
// library behind it.
#pragma once

#include <cstdint>
#include <cstring>

namespace rondo::emulated {

// Before the path; a zero behind it.
inline constexpr char kPathMark[] = "rondo emulated kernel: ";

// The path behind an ELF image whose section headers are last and that has a byte behind it; null if none is
// there.
inline const char* PathBehind(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, "\177ELF", 4) != 0) return nullptr;
  uint64_t headers;
  uint16_t size, count;
  std::memcpy(&headers, bytes + 40, sizeof headers);
  std::memcpy(&size, bytes + 58, sizeof size);
  std::memcpy(&count, bytes + 60, sizeof count);
  const char* behind = bytes + headers + uint64_t{size} * count;
  return std::strncmp(behind, kPathMark, sizeof kPathMark - 1) == 0 ? behind + sizeof kPathMark - 1 : nullptr;
}

}  // namespace rondo::emulated
