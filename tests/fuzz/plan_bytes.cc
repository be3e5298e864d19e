#include "tests/fuzz/plan_bytes.h"

#include <cstring>

#include "formats/plan/format.h"

namespace rondo::fuzz {
namespace {

// The header and the section table; false when they do not fit.
bool ReadTable(Span<const uint8_t> file, FileHeader* header, SectionEntry* sections) {
  if (file.size() < sizeof(*header)) return false;
  std::memcpy(header, file.data(), sizeof(*header));
  if (header->num_sections > kMaxSections) return false;
  const size_t bytes = header->num_sections * sizeof(SectionEntry);
  if (file.size() - sizeof(*header) < bytes) return false;
  std::memcpy(sections, file.data() + sizeof(*header), bytes);
  return true;
}

bool Inside(const SectionEntry& section, size_t file) {
  return section.offset <= file && section.bytes <= file - section.offset;
}

}  // namespace

bool TakeApart(Span<const uint8_t> file, PlanParts* parts) {
  FileHeader header;
  SectionEntry sections[kMaxSections];
  if (!ReadTable(file, &header, sections)) return false;
  bool found = false;
  for (uint32_t i = 0; i < header.num_sections; ++i) {
    const SectionEntry& section = sections[i];
    if (section.kind == SectionKind::kWeightsFile || !Inside(section, file.size())) return false;
    const uint8_t* first = file.data() + section.offset;
    if (section.kind == SectionKind::kFlatbuffer) {
      parts->flatbuffer.assign(first, first + section.bytes);
      found = true;
    }
    if (section.kind == SectionKind::kWeights) parts->weights.assign(first, first + section.bytes);
  }
  return found;
}

Bytes Seal(const PlanParts& parts) {
  const bool weights = !parts.weights.empty();
  SectionEntry sections[2];
  FileHeader header;
  std::memcpy(header.magic, kPlanMagic, sizeof(kPlanMagic));
  header.major = kPlanMajor;
  header.minor = kPlanMinor;
  header.num_sections = weights ? 2 : 1;
  sections[0].kind = SectionKind::kFlatbuffer;
  sections[0].offset = RoundUp(sizeof(header) + header.num_sections * sizeof(SectionEntry), 64);
  sections[0].bytes = parts.flatbuffer.size();
  uint64_t end = sections[0].offset + sections[0].bytes;
  if (weights) {
    sections[1].kind = SectionKind::kWeights;
    sections[1].offset = RoundUp(end, kPlanPage);
    sections[1].bytes = parts.weights.size();
    end = sections[1].offset + sections[1].bytes;
  }
  header.file_bytes = end;
  Bytes file(end);
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + sizeof(header), sections, header.num_sections * sizeof(SectionEntry));
  std::memcpy(file.data() + sections[0].offset, parts.flatbuffer.data(), parts.flatbuffer.size());
  if (weights) std::memcpy(file.data() + sections[1].offset, parts.weights.data(), parts.weights.size());
  Reseal(&file);
  return file;
}

void Reseal(Bytes* file) {
  FileHeader header;
  SectionEntry sections[kMaxSections];
  if (!ReadTable(*file, &header, sections)) return;
  for (uint32_t i = 0; i < header.num_sections; ++i) {
    SectionEntry& section = sections[i];
    if (Inside(section, file->size())) section.hash = HashBytes(file->data() + section.offset, section.bytes);
  }
  std::memcpy(file->data() + sizeof(header), sections, header.num_sections * sizeof(SectionEntry));
  header.header_hash = HeaderHash(header, sections);
  std::memcpy(file->data(), &header, sizeof(header));
}

}  // namespace rondo::fuzz
