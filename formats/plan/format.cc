#include "formats/plan/format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace rondo {

uint64_t HashBytes(const void* bytes, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

uint64_t HeaderHash(FileHeader header, const SectionEntry* sections) {
  header.header_hash = 0;
  uint64_t hash = HashBytes(&header, sizeof(header));
  return HashBytes(sections, header.num_sections * sizeof(SectionEntry), hash);
}

bool IsBaseName(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return name.find('/') == name.npos && name.find('\0') == name.npos;
}

}  // namespace rondo
