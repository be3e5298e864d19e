#include "formats/machine_code/cubin.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace rondo {
namespace {

#define RONDO_NOT_ELF(...) Status::Error(Code::kCorrupt, __VA_ARGS__)

// The ELF header as in the standard.
struct Header {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, segments, sections;
  uint32_t flags;
  uint16_t header_bytes, segment_bytes, num_segments, section_bytes, num_sections, names;
};
static_assert(sizeof(Header) == 64);

struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, bytes;
  uint32_t link, info;
  uint64_t alignment, entry_bytes;
};
static_assert(sizeof(SectionHeader) == 64);

struct SymbolEntry {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, bytes;
};
static_assert(sizeof(SymbolEntry) == 24);

constexpr uint16_t kMachineCuda = 190;
constexpr uint8_t kAbi12 = 0x33, kAbi13 = 0x41;  // EI_OSABI of CUDA up to 12, and of 13
constexpr uint32_t kSymbolTable = 2, kNoBytes = 8;
constexpr uint8_t kFunction = 2;      // a symbol's type
constexpr uint8_t kEntryMark = 0x10;  // in a symbol's `other`

// Attributes of .nv.info: their formats, and the kinds that are read.
enum Format : uint8_t { kNoValue = 1, kByteValue = 2, kNumberValue = 3, kSizedValue = 4 };
enum Kind : uint8_t {
  kMostThreads = 0x05,
  kExactThreads = 0x10,
  kParam = 0x17,
  kParamBytes = 0x19,
  kRegisters = 0x2f,
  kCluster = 0x3d,
  kLongParam = 0x45,
};

uint32_t Word(Span<const uint8_t> bytes, size_t number) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + 4 * number, 4);
  return word;
}

// The product of up to three extents: the threads of a block, or the blocks of a cluster.
Status Extents(const char* what, Span<const uint8_t> value, uint32_t* product) {
  if (value.size() < 12) return RONDO_NOT_ELF("%s has %zu bytes", what, value.size());
  uint64_t all = 1;
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t extent = Word(value, i);
    if (extent == 0 || extent > 0xffff) return RONDO_NOT_ELF("%s is %u along axis %zu", what, extent, i);
    all *= extent;
  }
  *product = static_cast<uint32_t>(std::min<uint64_t>(all, UINT32_MAX));
  return Status::Ok();
}

struct ParamPlace {
  uint32_t number, offset, bytes;
};

ParamPlace PlaceOf(uint8_t kind, Span<const uint8_t> value) {
  const uint32_t place = Word(value, 1), size = Word(value, 2);
  return {place & 0xffff, place >> 16, kind == kParam ? size >> 18 : size & 0xffff};
}

// Parameters must follow each other, numbered from 0, in `total` bytes.
Status TakeParams(std::vector<ParamPlace> places, uint32_t total, FunctionNeeds* needs) {
  std::sort(places.begin(), places.end(),
            [](const ParamPlace& a, const ParamPlace& b) { return a.number < b.number; });
  uint32_t end = 0;
  for (uint32_t i = 0; i < places.size(); ++i) {
    const ParamPlace& place = places[i];
    if (place.number != i || place.offset < end || place.bytes == 0)
      return RONDO_NOT_ELF("parameter %u of %zu is %u bytes at %u, behind %u", place.number, places.size(),
                           place.bytes, place.offset, end);
    end = place.offset + place.bytes;
    needs->params.push_back(place.bytes);
  }
  if (end != total) return RONDO_NOT_ELF("its parameters end at byte %u of %u", end, total);
  return Status::Ok();
}

}  // namespace

Result<Cubin> Cubin::Read(Span<const uint8_t> binary) {
  Header header;
  if (binary.size() < sizeof(header)) return RONDO_NOT_ELF("%zu bytes are no ELF image", binary.size());
  std::memcpy(&header, binary.data(), sizeof(header));
  constexpr uint8_t kIdent[] = {0x7f, 'E', 'L', 'F', 2, 1, 1};  // 64-bit, little-endian
  if (std::memcmp(header.ident, kIdent, sizeof(kIdent)) != 0) return RONDO_NOT_ELF("it is no ELF image");
  if (header.machine != kMachineCuda)
    return RONDO_NOT_ELF("it is an ELF image for machine %u, not for GPUs", header.machine);
  const uint8_t abi = header.ident[7];
  if (abi != kAbi12 && abi != kAbi13)
    return RONDO_NOT_ELF("it is machine code of ABI %u, which is not that of CUDA 12 or 13", abi);
  Cubin cubin;
  cubin.binary_ = binary;
  cubin.architecture_ = static_cast<int>(abi == kAbi13 ? header.flags >> 8 & 0xff : header.flags & 0xff);
  RONDO_RETURN_IF_ERROR(cubin.ReadSections());
  RONDO_RETURN_IF_ERROR(cubin.ReadSymbols());
  return cubin;
}

Status Cubin::ReadSections() {
  Header header;
  std::memcpy(&header, binary_.data(), sizeof(header));
  const uint64_t table = uint64_t{header.num_sections} * sizeof(SectionHeader);
  if (header.section_bytes != sizeof(SectionHeader) || header.sections > binary_.size() ||
      table > binary_.size() - header.sections) {
    return RONDO_NOT_ELF("%u sections of %u bytes at %" PRIu64 " are outside its %zu bytes",
                         header.num_sections, header.section_bytes, header.sections, binary_.size());
  }
  const uint64_t segments = uint64_t{header.num_segments} * header.segment_bytes;
  if (header.segments > binary_.size() || segments > binary_.size() - header.segments)
    return RONDO_NOT_ELF("%u segments at %" PRIu64 " are outside its %zu bytes", header.num_segments,
                         header.segments, binary_.size());
  if (header.names >= header.num_sections)
    return RONDO_NOT_ELF("names of sections are in section %u of %u", header.names, header.num_sections);
  std::vector<uint32_t> names;
  for (uint32_t i = 0; i < header.num_sections; ++i) {
    SectionHeader in;
    std::memcpy(&in, binary_.data() + header.sections + i * sizeof(in), sizeof(in));
    const uint64_t bytes = in.type == kNoBytes ? 0 : in.bytes;
    if (in.offset > binary_.size() || bytes > binary_.size() - in.offset)
      return RONDO_NOT_ELF("section %u, %" PRIu64 " bytes at %" PRIu64 ", is outside its %zu bytes", i,
                           in.bytes, in.offset, binary_.size());
    sections_.push_back({{}, in.type, in.link, in.info, in.offset, in.bytes, in.entry_bytes});
    names.push_back(in.name);
  }
  const Section& texts = sections_[header.names];
  for (uint32_t i = 1; i < sections_.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(sections_[i].name, TextAt(texts, names[i]));
  }
  return Status::Ok();
}

Status Cubin::ReadSymbols() {
  for (const Section& section : sections_) {
    if (section.type != kSymbolTable) continue;
    if (section.entry_bytes != sizeof(SymbolEntry) || section.bytes % sizeof(SymbolEntry) != 0 ||
        section.link >= sections_.size() || !symbols_.empty()) {
      return RONDO_NOT_ELF("its table of symbols has %" PRIu64 " bytes in entries of %" PRIu64
                           ", names in section %u",
                           section.bytes, section.entry_bytes, section.link);
    }
    for (uint32_t i = 0; i < section.bytes / sizeof(SymbolEntry); ++i) {
      SymbolEntry in;
      std::memcpy(&in, binary_.data() + section.offset + i * sizeof(in), sizeof(in));
      RONDO_ASSIGN_OR_RETURN(const std::string_view name, TextAt(sections_[section.link], in.name));
      symbols_.push_back({name, i, in.info, in.other, in.section, in.value, in.bytes});
    }
  }
  return Status::Ok();
}

Result<std::string_view> Cubin::TextAt(const Section& names, uint32_t offset) const {
  if (names.type == kNoBytes || offset >= names.bytes)
    return RONDO_NOT_ELF("a name at byte %u of %" PRIu64, offset, names.bytes);
  const char* begin = reinterpret_cast<const char*>(binary_.data() + names.offset + offset);
  const size_t room = names.bytes - offset;
  const void* end = std::memchr(begin, 0, room);
  if (end == nullptr) return RONDO_NOT_ELF("a name at byte %u has no end", offset);
  return std::string_view(begin, static_cast<size_t>(static_cast<const char*>(end) - begin));
}

const Cubin::Section* Cubin::Find(std::string_view prefix, std::string_view entry) const {
  for (const Section& section : sections_) {
    if (section.name.size() == prefix.size() + entry.size() &&
        section.name.substr(0, prefix.size()) == prefix && section.name.substr(prefix.size()) == entry) {
      return &section;
    }
  }
  return nullptr;
}

bool Cubin::IsEntry(const Symbol& symbol) const {
  return (symbol.info & 0xf) == kFunction && (symbol.other & kEntryMark) != 0;
}

std::vector<std::string_view> Cubin::Entries() const {
  std::vector<std::string_view> names;
  for (const Symbol& symbol : symbols_) {
    if (IsEntry(symbol)) names.push_back(symbol.name);
  }
  return names;
}

Result<std::vector<Cubin::Attribute>> Cubin::AttributesOf(const Section& section) const {
  std::vector<Attribute> out;
  const Span<const uint8_t> bytes(binary_.data() + section.offset,
                                  section.type == kNoBytes ? 0 : section.bytes);
  for (size_t at = 0; at < bytes.size();) {
    if (bytes.size() - at < 4) return RONDO_NOT_ELF("an attribute is cut off at byte %zu", at);
    Attribute attribute;
    attribute.format = bytes[at];
    attribute.kind = bytes[at + 1];
    std::memcpy(&attribute.number, bytes.data() + at + 2, 2);
    at += 4;
    if (attribute.format < kNoValue || attribute.format > kSizedValue)
      return RONDO_NOT_ELF("attribute %u has format %u", attribute.kind, attribute.format);
    if (attribute.format == kSizedValue) {
      if (attribute.number > bytes.size() - at)
        return RONDO_NOT_ELF("attribute %u has %u bytes of %zu", attribute.kind, attribute.number,
                             bytes.size() - at);
      attribute.value = bytes.subspan(at, attribute.number);
      at += attribute.number;
    }
    out.push_back(attribute);
  }
  return out;
}

Status Cubin::ReadAttributes(const Section& section, FunctionNeeds* needs) const {
  RONDO_ASSIGN_OR_RETURN(const std::vector<Attribute> attributes, AttributesOf(section));
  std::vector<ParamPlace> params;
  uint32_t total = 0;
  for (const Attribute& a : attributes) {
    if (a.format == kNumberValue && a.kind == kParamBytes) total = a.number;
    if (a.format != kSizedValue) continue;
    if (a.kind == kMostThreads)
      RONDO_RETURN_IF_ERROR(Extents("its most threads", a.value, &needs->most_threads));
    if (a.kind == kExactThreads)
      RONDO_RETURN_IF_ERROR(Extents("its number of threads", a.value, &needs->exact_threads));
    if (a.kind == kCluster) RONDO_RETURN_IF_ERROR(Extents("its cluster", a.value, &needs->cluster));
    if (a.kind != kParam && a.kind != kLongParam) continue;
    if (a.value.size() < 12 || params.size() == kMostFunctionParams)
      return RONDO_NOT_ELF("parameter %zu is described in %zu bytes", params.size(), a.value.size());
    params.push_back(PlaceOf(a.kind, a.value));
  }
  return TakeParams(std::move(params), total, needs);
}

Status Cubin::ReadRegisters(const Symbol& symbol, const Section& text, FunctionNeeds* needs) const {
  needs->registers = text.info >> 24;  // CUDA 12 stores them here too
  const Section* all = Find(".nv.info", "");
  if (all == nullptr) return Status::Ok();
  RONDO_ASSIGN_OR_RETURN(const std::vector<Attribute> attributes, AttributesOf(*all));
  for (const Attribute& a : attributes) {
    if (a.format != kSizedValue || a.kind != kRegisters || a.value.size() < 8) continue;
    if (Word(a.value, 0) == symbol.index) needs->registers = Word(a.value, 1);
  }
  return Status::Ok();
}

Result<FunctionNeeds> Cubin::Function(std::string_view entry) const {
  const auto symbol = std::find_if(symbols_.begin(), symbols_.end(),
                                   [&](const Symbol& s) { return IsEntry(s) && s.name == entry; });
  const Section* text = Find(".text.", entry);
  const Section* info = Find(".nv.info.", entry);
  if (symbol == symbols_.end() || text == nullptr || info == nullptr)
    return Status::Error(Code::kCorrupt, "it has no function of that name");
  constexpr uint64_t kInstruction = 16;
  if (symbol->section != text - sections_.data() || text->type == kNoBytes || symbol->value > text->bytes ||
      symbol->bytes > text->bytes - symbol->value || symbol->bytes == 0 ||
      symbol->bytes % kInstruction != 0) {
    return RONDO_NOT_ELF("its %" PRIu64 " bytes of code at %" PRIu64
                         " are not inside its section of %" PRIu64,
                         symbol->bytes, symbol->value, text->bytes);
  }
  FunctionNeeds needs;
  RONDO_RETURN_IF_ERROR(ReadAttributes(*info, &needs));
  RONDO_RETURN_IF_ERROR(ReadRegisters(*symbol, *text, &needs));
  if (const Section* shared = Find(".nv.shared.", entry); shared != nullptr) {
    if (shared->bytes > UINT32_MAX) return RONDO_NOT_ELF("%" PRIu64 " bytes of shared memory", shared->bytes);
    needs.shared = static_cast<uint32_t>(shared->bytes);
  }
  return needs;
}

}  // namespace rondo
