#include "tests/fuzz/plan_bytes.h"

#include <cstring>

#include "formats/plan/format.h"

namespace rondo::fuzz {
namespace {

// Reads the header and the section table. False if the file is too short.
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
    if (section.kind == SectionKind::kMachineCode) parts->code.assign(first, first + section.bytes);
    if (section.kind == SectionKind::kWeights) parts->weights.assign(first, first + section.bytes);
  }
  return found;
}

Bytes Seal(const PlanParts& parts) {
  const struct {
    SectionKind kind;
    uint64_t place;
    const Bytes* bytes;
  } kSections[] = {{SectionKind::kFlatbuffer, 64, &parts.flatbuffer},
                   {SectionKind::kMachineCode, kPlanPage, &parts.code},
                   {SectionKind::kWeights, kPlanPage, &parts.weights}};
  SectionEntry table[3];
  FileHeader header;
  std::memcpy(header.magic, kPlanMagic, sizeof(kPlanMagic));
  header.major = kPlanMajor;
  header.minor = kPlanMinor;
  Bytes file(sizeof(header) + sizeof(table));
  for (const auto& section : kSections) {
    if (section.bytes->empty()) continue;
    file.resize(RoundUp(file.size(), section.place));
    table[header.num_sections++] = {section.kind, 0, file.size(), section.bytes->size(), 0};
    file.insert(file.end(), section.bytes->begin(), section.bytes->end());
  }
  header.file_bytes = file.size();
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + sizeof(header), table, sizeof(table));
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
