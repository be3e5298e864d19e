// The images that link the emulated libnvrtc to the emulated libcuda: an ELF image made by hand, which
// compiler and loader check like any other, followed by the path of the shared library with the translated
// kernels.
#pragma once

#include <cstdint>
#include <cstring>

namespace rondo::emulated {

// Stands before the path; a zero byte ends the path.
inline constexpr char kPathMark[] = "rondo emulated kernel: ";

// The path behind an ELF image whose section headers are last. At least one byte must follow the image. Null
// if there is no path.
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
