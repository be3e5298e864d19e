#include "formats/plan/reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "core/lfs_pointer.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/decode.h"
#include "formats/plan/format.h"
#include "formats/plan/verifier.h"

namespace rondo {
namespace {

// An open file. The destructor closes it unless it is released.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// Where the bytes of a plan come from: memory or a file.
struct Source {
  const uint8_t* memory = nullptr;
  int file = -1;
  uint64_t bytes = 0;

  Status Read(uint64_t offset, uint64_t count, void* out) const {
    if (memory != nullptr) {
      std::memcpy(out, memory + offset, count);
      return Status::Ok();
    }
    return ReadFile(file, offset, count, out);
  }
};

// Opens a regular file and reads its stamp.
Status OpenFile(const char* path, int* file, FileStamp* stamp) {
  *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*file < 0) {
    return Status::Error(errno == ENOENT ? Code::kNotFound : Code::kIo, "%s: %s", path, std::strerror(errno));
  }
  const Status status = StampOf(*file, stamp).At("%s", path);
  if (!status.ok()) close(*file);
  return status;
}

struct Container {
  FileHeader header;
  SectionEntry sections[kMaxSections];
  const SectionEntry* flatbuffer = nullptr;
  const SectionEntry* code = nullptr;     // null if absent
  const SectionEntry* weights = nullptr;  // of either kind; null if absent
};

Status VersionError(const char* what, uint16_t major, uint16_t minor) {
  return Status::Error(
      Code::kUnsupported,
      "%s has format %u.%u, this build of Rondo reads %u.x: compile again with its `rondo compile`", what,
      major, minor, kPlanMajor);
}

Status CheckSections(const Source& source, Container* out) {
  const uint64_t table_end = sizeof(FileHeader) + out->header.num_sections * sizeof(SectionEntry);
  for (uint32_t i = 0; i < out->header.num_sections; ++i) {
    const SectionEntry& section = out->sections[i];
    const bool external = section.kind == SectionKind::kWeightsFile;
    if (!external && (section.offset < table_end || section.offset > source.bytes ||
                      section.bytes > source.bytes - section.offset)) {
      return Status::Error(Code::kCorrupt,
                           "plan: section %u is at byte %" PRIu64 " with %" PRIu64
                           " bytes, outside the file's %" PRIu64,
                           i, section.offset, section.bytes, source.bytes);
    }
    const SectionEntry** slot = nullptr;
    if (section.kind == SectionKind::kFlatbuffer) slot = &out->flatbuffer;
    if (section.kind == SectionKind::kMachineCode) slot = &out->code;
    if (section.kind == SectionKind::kWeights || external) slot = &out->weights;
    if (slot == nullptr) continue;
    if (*slot != nullptr)
      return Status::Error(Code::kCorrupt, "plan: section %u is the second of its kind", i);
    if (slot == &out->weights && section.offset % kPlanPage != 0) {
      return Status::Error(Code::kCorrupt,
                           "plan: weights begin at byte %" PRIu64 ", which is not a multiple of %" PRIu64,
                           section.offset, kPlanPage);
    }
    *slot = &section;
  }
  if (out->flatbuffer == nullptr) return Status::Error(Code::kCorrupt, "plan: it has no flatbuffers section");
  return Status::Ok();
}

Status ReadContainer(const Source& source, const ReadOptions& options, Container* out) {
  FileHeader& header = out->header;
  if (source.bytes < sizeof(kPlanMagic)) {
    return Status::Error(Code::kCorrupt, "not a Rondo plan: only %" PRIu64 " bytes", source.bytes);
  }
  RONDO_RETURN_IF_ERROR(
      source.Read(0, source.bytes < sizeof(header) ? source.bytes : sizeof(header), &header));
  if (std::memcmp(header.magic, kPlanMagic, sizeof(kPlanMagic)) != 0) {
    if (IsLfsPointer(&header, source.bytes)) return Status::Error(Code::kCorrupt, "it %s", kLfsPointerText);
    return Status::Error(Code::kCorrupt, "not a Rondo plan: it does not begin with \"RNDO\"");
  }
  if (source.bytes < sizeof(header)) {
    return Status::Error(Code::kCorrupt, "plan: cut short at %" PRIu64 " bytes, inside its header",
                         source.bytes);
  }
  if (header.major != kPlanMajor) return VersionError("this plan", header.major, header.minor);
  if (header.file_bytes != source.bytes) {
    return Status::Error(Code::kCorrupt, "plan: the file has %" PRIu64 " bytes, but its header says %" PRIu64,
                         source.bytes, header.file_bytes);
  }
  if (header.num_sections > kMaxSections ||
      source.bytes < sizeof(header) + header.num_sections * sizeof(SectionEntry)) {
    return Status::Error(Code::kCorrupt,
                         "plan: a table of %u sections does not fit (%u at most, %" PRIu64 " bytes)",
                         header.num_sections, kMaxSections, source.bytes);
  }
  RONDO_RETURN_IF_ERROR(
      source.Read(sizeof(header), header.num_sections * sizeof(SectionEntry), out->sections));
  if (!options.ignore_hashes && HeaderHash(header, out->sections) != header.header_hash) {
    return Status::Error(Code::kCorrupt, "plan: the hash of its %s does not match: the file is damaged",
                         "header");
  }
  return CheckSections(source, out);
}

// Reads a whole section into memory of `arena`, aligned for its reader. `name`: for errors.
Status ReadSection(const Source& source, const SectionEntry& section, const char* name, uint64_t most,
                   const ReadOptions& options, Arena& arena, Span<const uint8_t>* out) {
  if (section.bytes > most) {
    return Status::Error(Code::kCorrupt, "plan: %s section of %" PRIu64 " bytes exceeds %" PRIu64, name,
                         section.bytes, most);
  }
  uint8_t* bytes = static_cast<uint8_t*>(arena.Allocate(section.bytes, 64));
  if (bytes == nullptr) {
    return Status::Error(Code::kOutOfMemory, "plan: no memory for its %s section of %" PRIu64 " bytes", name,
                         section.bytes);
  }
  RONDO_RETURN_IF_ERROR(source.Read(section.offset, section.bytes, bytes));
  if (!options.ignore_hashes && HashBytes(bytes, section.bytes) != section.hash) {
    return Status::Error(Code::kCorrupt, "plan: the hash of its %s does not match: the file is damaged",
                         name);
  }
  *out = {bytes, section.bytes};
  return Status::Ok();
}

Status ReadProgramsAndCode(const Source& source, const Container& container, const ReadOptions& options,
                           Arena& arena, PlanData* plan) {
  Arena scratch(options.allocator);
  Span<const uint8_t> flatbuffer, code;
  RONDO_RETURN_IF_ERROR(ReadSection(source, *container.flatbuffer, "flatbuffers", kMaxFlatbufferBytes,
                                    options, scratch, &flatbuffer));
  if (container.code != nullptr) {
    RONDO_RETURN_IF_ERROR(
        ReadSection(source, *container.code, "machine code", kMaxCodeBytes, options, arena, &code));
  }
  return DecodePlan(flatbuffer, code, arena, plan);
}

// Checks that the section table and the flatbuffer agree about the weights.
Status CheckWeightsEntry(const PlanData& plan, const SectionEntry* section) {
  const uint64_t stored = section == nullptr ? 0 : section->bytes;
  if (stored != plan.weights_bytes) {
    return Status::Error(Code::kCorrupt,
                         "plan: %" PRIu64 " bytes of weights; its section table says %" PRIu64,
                         plan.weights_bytes, stored);
  }
  const bool external = section != nullptr && section->kind == SectionKind::kWeightsFile;
  if (external == plan.weights_file.empty()) {
    return Status::Error(Code::kCorrupt,
                         external ? "plan: its weights are in a separate file that it does not name"
                                  : "plan: it names a weights file, but its section table has none");
  }
  if (external && !IsBaseName(plan.weights_file)) {
    return Status::Error(Code::kCorrupt, "the weights file \"%.*s\" is not the plain name of a file",
                         static_cast<int>(plan.weights_file.size()), plan.weights_file.data());
  }
  return Status::Ok();
}

Status CheckWeightsHash(const ReadOptions& options, const PlanWeights& weights) {
  if (options.ignore_hashes || weights.bytes() > options.hash_weights_up_to) return Status::Ok();
  return weights.CheckHash();
}

// Opens the weights file beside `path`. Its header must have the size and hash that the plan records.
Status OpenWeightsFile(const char* path, std::string_view name, const SectionEntry& section,
                       const ReadOptions& options, PlanWeights* weights) {
  const char* slash = std::strrchr(path, '/');
  const size_t folder = slash == nullptr ? 0 : static_cast<size_t>(slash - path) + 1;
  Arena scratch(options.allocator);
  char* full = static_cast<char*>(scratch.Allocate(folder + name.size() + 1, 1));
  if (full == nullptr)
    return Status::Error(Code::kOutOfMemory, "plan: no memory for the path of its weights file");
  std::memcpy(full, path, folder);
  std::memcpy(full + folder, name.data(), name.size());
  full[folder + name.size()] = '\0';

  Source source;
  FileStamp stamp;
  RONDO_RETURN_IF_ERROR(OpenFile(full, &source.file, &stamp).At("weights of the plan"));
  File file(source.file);
  source.bytes = stamp.bytes;
  if (section.offset != kPlanPage || source.bytes < kPlanPage || source.bytes - kPlanPage != section.bytes) {
    return Status::Error(Code::kCorrupt,
                         "%s: %" PRIu64 " bytes, but the plan's %" PRIu64 " bytes of weights need %" PRIu64,
                         full, source.bytes, section.bytes, section.bytes + kPlanPage);
  }
  WeightsHeader header;
  RONDO_RETURN_IF_ERROR(source.Read(0, sizeof(header), &header));
  if (std::memcmp(header.magic, kWeightsMagic, sizeof(kWeightsMagic)) != 0) {
    return Status::Error(Code::kCorrupt, "%s: not a Rondo weights file: it does not begin with \"RNDW\"",
                         full);
  }
  if (header.major != kPlanMajor) return VersionError(full, header.major, header.minor);
  if (header.bytes != section.bytes || (!options.ignore_hashes && header.hash != section.hash)) {
    return Status::Error(Code::kCorrupt,
                         "%s: %" PRIu64 " bytes with hash %016" PRIx64 "; the plan was written for %" PRIu64
                         " with hash %016" PRIx64,
                         full, header.bytes, header.hash, section.bytes, section.hash);
  }
  weights->UseFile(file.Release(), stamp, kPlanPage, section.bytes, section.hash);
  return CheckWeightsHash(options, *weights).At("%s", full);
}

Status ReadDescription(const Source& source, const ReadOptions& options, Arena& arena, Container* container,
                       PlanFile* out) {
  RONDO_RETURN_IF_ERROR(ReadContainer(source, options, container));
  RONDO_RETURN_IF_ERROR(ReadProgramsAndCode(source, *container, options, arena, &out->data));
  out->file_bytes = source.bytes;
  out->flatbuffer_bytes = container->flatbuffer->bytes;
  out->contents_hash = container->flatbuffer->hash ^ (container->code == nullptr ? 0 : container->code->hash);
  return CheckWeightsEntry(out->data, container->weights);
}

}  // namespace

Status ReadPlan(Span<const uint8_t> bytes, const ReadOptions& options, Arena& arena, PlanFile* plan) {
  static constexpr uint8_t kNothing = 0;
  const Source source = {bytes.data() == nullptr ? &kNothing : bytes.data(), -1, bytes.size()};
  Container container;
  RONDO_RETURN_IF_ERROR(ReadDescription(source, options, arena, &container, plan));
  if (!plan->data.weights_file.empty()) {
    return Status::Error(Code::kUnsupported, "plan: its weights are in the file \"%s\": open it by its path",
                         plan->data.weights_file.data());
  }
  const SectionEntry* section = container.weights;
  if (section == nullptr) return Status::Ok();
  plan->weights.UseMemory({bytes.data() + section->offset, section->bytes}, section->hash);
  return CheckWeightsHash(options, plan->weights);
}

Status OpenPlanFile(const char* path, const ReadOptions& options, Arena& arena, PlanFile* plan) {
  Source source;
  FileStamp stamp;
  RONDO_RETURN_IF_ERROR(OpenFile(path, &source.file, &stamp).At("plan"));
  File file(source.file);
  source.bytes = stamp.bytes;
  Container container;
  RONDO_RETURN_IF_ERROR(ReadDescription(source, options, arena, &container, plan).At("%s", path));
  const SectionEntry* section = container.weights;
  if (!plan->data.weights_file.empty()) {
    return OpenWeightsFile(path, plan->data.weights_file, *section, options, &plan->weights);
  }
  if (section == nullptr) return Status::Ok();
  plan->weights.UseFile(file.Release(), stamp, section->offset, section->bytes, section->hash);
  return CheckWeightsHash(options, plan->weights).At("%s", path);
}

Status LoadPlanFile(const char* path, const ReadOptions& options, Arena& arena, PlanFile* plan) {
  RONDO_RETURN_IF_ERROR(OpenPlanFile(path, options, arena, plan));
  RONDO_RETURN_IF_ERROR(VerifyPlan(plan->data, options.allocator).At("%s", path));
  return CheckPlan(plan->data, options.allocator).At("%s", path);
}

}  // namespace rondo
