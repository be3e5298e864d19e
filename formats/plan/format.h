// The container of a plan file, byte by byte. Numbers are little-endian.
//
//   0     FileHeader
//   64    SectionEntry * num_sections
//   ...   flatbuffers section (plan.fbs), at a multiple of 64
//   ...   machine code section, at a multiple of 4096, of plans that have any: codes, each at a multiple of
//   64
//   ...   weights section, at a multiple of 4096, unless the weights have a file of their own:
//         WeightsHeader, zeros up to 4096, weights
//
// A minor version adds sections and fields that older readers may ignore; a major version changes existing
// ones. Sections of unknown kinds are skipped. A field that older readers must not ignore comes with an enum
// value that they refuse (kSyntheticRuns in decode.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/status.h"

namespace rondo {

static_assert(std::endian::native == std::endian::little, "plan files are read as little-endian structs");

inline constexpr char kPlanMagic[4] = {'R', 'N', 'D', 'O'};
inline constexpr char kWeightsMagic[4] = {'R', 'N', 'D', 'W'};
inline constexpr uint16_t kPlanMajor = 2;
inline constexpr uint16_t kPlanMinor = 0;
inline constexpr uint64_t kPlanPage = 4096;
inline constexpr uint32_t kMaxSections = 16;
inline constexpr uint64_t kMaxFlatbufferBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxCodeBytes = uint64_t{1} << 30;

enum class SectionKind : uint32_t {
  kFlatbuffer = 1,
  kWeights = 2,      // in this file
  kWeightsFile = 3,  // in a separate file, at `offset`
  kMachineCode = 4,
};

struct FileHeader {
  char magic[4] = {};
  uint16_t major = 0;
  uint16_t minor = 0;
  uint32_t num_sections = 0;
  uint32_t reserved0 = 0;
  uint64_t file_bytes = 0;
  uint64_t header_hash = 0;  // of this header, with 0 here, and the section table
  uint64_t reserved[4] = {};
};
static_assert(sizeof(FileHeader) == 64);

struct SectionEntry {
  SectionKind kind = SectionKind::kFlatbuffer;
  uint32_t reserved = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(SectionEntry) == 32);

struct WeightsHeader {
  char magic[4] = {};
  uint16_t major = 0;
  uint16_t minor = 0;
  uint64_t bytes = 0;  // of the weights, which begin at kPlanPage
  uint64_t hash = 0;
};
static_assert(sizeof(WeightsHeader) == 24);

// xxh3-64.
uint64_t HashBytes(const void* bytes, size_t size, uint64_t seed = 0);
// HashBytes of `size` bytes that `read(user, offset, count, to)` gives, some KiB at a time; its first error.
Result<uint64_t> HashRead(uint64_t size,
                          Status (*read)(void* user, uint64_t offset, uint64_t count, void* to), void* user);
// FileHeader::header_hash; `header` itself may hold any hash.
uint64_t HeaderHash(FileHeader header, const SectionEntry* sections);

// A weights file is named by its base name alone, so that a plan cannot reach outside its folder.
bool IsBaseName(std::string_view name);

constexpr uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace rondo
