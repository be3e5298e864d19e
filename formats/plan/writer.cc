#include "formats/plan/writer.h"

#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/files.h"
#include "formats/plan/encode.h"
#include "formats/plan/format.h"

namespace rondo {
namespace {

using ULL = unsigned long long;
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// The xxh3-64 hash of bytes that arrive in pieces.
class StreamHash {
 public:
  StreamHash() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~StreamHash() { XXH3_freeState(state_); }
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void Add(const void* bytes, size_t size) { XXH3_64bits_update(state_, bytes, size); }
  uint64_t Digest() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

// The destination of a file's bytes. Bytes are appended in order; at the end the first ones are replaced,
// when the hashes in them are known.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status Append(const void* bytes, size_t size) = 0;
  virtual Status Replace(uint64_t offset, const void* bytes, size_t size) = 0;
  // Makes the file appear under its name.
  virtual Status Commit() = 0;
};

class MemorySink : public Sink {
 public:
  explicit MemorySink(std::vector<uint8_t>* out) : out_(out) { out_->clear(); }
  Status Append(const void* bytes, size_t size) override {
    const uint8_t* first = static_cast<const uint8_t*>(bytes);
    out_->insert(out_->end(), first, first + size);
    return Status::Ok();
  }
  Status Replace(uint64_t offset, const void* bytes, size_t size) override {
    std::memcpy(out_->data() + offset, bytes, size);
    return Status::Ok();
  }
  Status Commit() override { return Status::Ok(); }

 private:
  std::vector<uint8_t>* out_;
};

constexpr FileKind kPlanFile = {"a plan", {kPlanMagic, sizeof(kPlanMagic)}};
constexpr FileKind kWeightsFile = {"a weights file", {kWeightsMagic, sizeof(kWeightsMagic)}};

class FileSink : public Sink {
 public:
  FileSink(std::string path, const FileKind& kind) : path_(std::move(path)), kind_(kind) {}

  Status Open() {
    RONDO_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path_, kind_));
    file_ = std::make_unique<OutputFile>(std::move(file));
    return Status::Ok();
  }
  Status Append(const void* bytes, size_t size) override { return file_->Append(bytes, size); }
  Status Replace(uint64_t offset, const void* bytes, size_t size) override {
    return file_->WriteAt(offset, bytes, size);
  }
  Status Commit() override { return file_->Commit(); }

 private:
  std::string path_;
  FileKind kind_;
  std::unique_ptr<OutputFile> file_;
};

Status AppendZeros(Sink& sink, uint64_t count, StreamHash* hash) {
  const std::vector<uint8_t> zeros(std::min(count, kPieceBytes));
  while (count > 0) {
    const uint64_t piece = std::min<uint64_t>(count, zeros.size());
    if (hash != nullptr) hash->Add(zeros.data(), piece);
    RONDO_RETURN_IF_ERROR(sink.Append(zeros.data(), piece));
    count -= piece;
  }
  return Status::Ok();
}

// The constants with their own bytes, in file order; of two at one place, the longer first.
std::vector<uint32_t> StoredConstants(const PlanData& plan) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.kind == BufferKind::kConstant && buffer.weight == WeightSource::kBytes) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Buffer &x = plan.buffers[a], &y = plan.buffers[b];
    return x.file_offset != y.file_offset ? x.file_offset < y.file_offset : x.bytes > y.bytes;
  });
  return order;
}

// Appends the whole weights section to `sink`.
Status AppendWeights(const PlanData& plan, const FillWeight& fill, Sink& sink, uint64_t* hash) {
  StreamHash stream;
  std::vector<uint8_t> piece(std::min(kPieceBytes, plan.weights_bytes));
  uint64_t at = 0;
  for (uint32_t index : StoredConstants(plan)) {
    const Buffer& buffer = plan.buffers[index];
    if (buffer.file_offset > plan.weights_bytes || buffer.bytes > plan.weights_bytes - buffer.file_offset) {
      return Status::Error(Code::kInvalidArgument,
                           "constant \"%.*s\": bytes [%llu, +%llu) are outside the %llu bytes of weights",
                           static_cast<int>(buffer.name.size()), buffer.name.data(),
                           static_cast<ULL>(buffer.file_offset), static_cast<ULL>(buffer.bytes),
                           static_cast<ULL>(plan.weights_bytes));
    }
    const uint64_t end = buffer.file_offset + buffer.bytes;
    if (end <= at) continue;
    if (buffer.file_offset > at) {
      RONDO_RETURN_IF_ERROR(AppendZeros(sink, buffer.file_offset - at, &stream));
      at = buffer.file_offset;
    }
    while (at < end) {
      const uint64_t count = std::min(end - at, kPieceBytes);
      RONDO_RETURN_IF_ERROR(fill(index, at - buffer.file_offset, count, piece.data()));
      stream.Add(piece.data(), count);
      RONDO_RETURN_IF_ERROR(sink.Append(piece.data(), count));
      at += count;
    }
  }
  RONDO_RETURN_IF_ERROR(AppendZeros(sink, plan.weights_bytes - at, &stream));
  *hash = stream.Digest();
  return Status::Ok();
}

std::string WeightsPath(const PlanData& plan, const std::string& path) {
  const size_t slash = path.rfind('/');
  return (slash == path.npos ? "" : path.substr(0, slash + 1)) + std::string(plan.weights_file);
}

WeightsHeader MakeWeightsHeader(uint64_t bytes, uint64_t hash) {
  WeightsHeader header;
  std::memcpy(header.magic, kWeightsMagic, sizeof(header.magic));
  header.major = kPlanMajor;
  header.minor = kPlanMinor;
  header.bytes = bytes;
  header.hash = hash;
  return header;
}

Status WriteWeightsFile(const PlanData& plan, const FillWeight& fill, FileSink& sink, uint64_t* hash) {
  RONDO_RETURN_IF_ERROR(sink.Open());
  RONDO_RETURN_IF_ERROR(AppendZeros(sink, kPlanPage, nullptr));
  RONDO_RETURN_IF_ERROR(AppendWeights(plan, fill, sink, hash));
  const WeightsHeader header = MakeWeightsHeader(plan.weights_bytes, *hash);
  return sink.Replace(0, &header, sizeof(header));
}

// Reads the hash in an existing weights file.
Status ReadWeightsHash(const PlanData& plan, const std::string& path, uint64_t* hash) {
  RONDO_ASSIGN_OR_RETURN(const InputFile file, OpenInputFile(path));
  WeightsHeader header;
  if (pread(file.descriptor.get(), &header, sizeof(header), 0) != sizeof(header) ||
      std::memcmp(header.magic, kWeightsMagic, sizeof(kWeightsMagic)) != 0 || header.major != kPlanMajor) {
    return Status::Error(Code::kInvalidArgument, "%s: not a weights file of format %u", path.c_str(),
                         kPlanMajor);
  }
  if (header.bytes != plan.weights_bytes) {
    return Status::Error(Code::kInvalidArgument, "%s: holds %llu bytes of weights, but the plan needs %llu",
                         path.c_str(), static_cast<ULL>(header.bytes), static_cast<ULL>(plan.weights_bytes));
  }
  *hash = header.hash;
  return Status::Ok();
}

// The codes of all modules, in the order of EncodePlan.
std::vector<uint8_t> MachineCode(const PlanData& plan) {
  std::vector<uint8_t> bytes;
  for (const CodeModule& module : plan.modules) {
    for (Span<const uint8_t> code : module.codes) {
      bytes.resize(NextCode(bytes.size()));
      bytes.insert(bytes.end(), code.begin(), code.end());
    }
  }
  return bytes;
}

// Header, section table, flatbuffer, machine code and, with `inside`, weights.
Status WriteContainer(const PlanData& plan, const FillWeight& fill, bool inside, uint64_t weights_hash,
                      Sink& sink) {
  std::vector<uint8_t> flatbuffer;
  RONDO_RETURN_IF_ERROR(EncodePlan(plan, &flatbuffer));

  const std::vector<uint8_t> code = MachineCode(plan);

  SectionEntry table[3];
  uint32_t count = 0;
  uint64_t end = RoundUp(sizeof(FileHeader) + (code.empty() ? 2 : 3) * sizeof(SectionEntry), 64);
  RONDO_RETURN_IF_ERROR(AppendZeros(sink, end, nullptr));
  // Appends a section at the next multiple of `place`.
  auto append = [&](SectionKind kind, uint64_t place, const std::vector<uint8_t>& bytes) {
    RONDO_RETURN_IF_ERROR(AppendZeros(sink, RoundUp(end, place) - end, nullptr));
    end = RoundUp(end, place);
    table[count++] = {kind, 0, end, bytes.size(), HashBytes(bytes.data(), bytes.size())};
    end += bytes.size();
    return sink.Append(bytes.data(), bytes.size());
  };
  RONDO_RETURN_IF_ERROR(append(SectionKind::kFlatbuffer, 64, flatbuffer));
  if (!code.empty()) RONDO_RETURN_IF_ERROR(append(SectionKind::kMachineCode, kPlanPage, code));
  SectionEntry& weights = table[count++];
  weights = {inside ? SectionKind::kWeights : SectionKind::kWeightsFile, 0, kPlanPage, plan.weights_bytes,
             weights_hash};
  if (inside) {
    weights.offset = RoundUp(end, kPlanPage);
    RONDO_RETURN_IF_ERROR(AppendZeros(sink, weights.offset - end, nullptr));
    RONDO_RETURN_IF_ERROR(AppendWeights(plan, fill, sink, &weights.hash));
    end = weights.offset + weights.bytes;
  }

  FileHeader header;
  std::memcpy(header.magic, kPlanMagic, sizeof(header.magic));
  header.major = kPlanMajor;
  header.minor = kPlanMinor;
  header.num_sections = count;
  header.file_bytes = end;
  header.header_hash = HeaderHash(header, table);
  RONDO_RETURN_IF_ERROR(sink.Replace(0, &header, sizeof(header)));
  return sink.Replace(sizeof(header), table, count * sizeof(SectionEntry));
}

}  // namespace

Status MayWritePlan(const std::string& path) { return MayBeReplaced(path, kPlanFile); }

Status WritePlan(const PlanData& plan, const FillWeight& fill, const WriteOptions& options) {
  const bool inside = plan.weights_file.empty();
  uint64_t weights_hash = 0;
  FileSink file(options.path, kPlanFile);
  RONDO_RETURN_IF_ERROR(file.Open());
  if (inside) {
    RONDO_RETURN_IF_ERROR(WriteContainer(plan, fill, true, 0, file));
    return file.Commit();
  }
  if (!IsBaseName(plan.weights_file)) {
    return Status::Error(Code::kInvalidArgument, "weights file \"%s\" is not the plain name of a file",
                         std::string(plan.weights_file).c_str());
  }
  const std::string weights_path = WeightsPath(plan, options.path);
  if (weights_path == options.path) {
    return Status::Error(Code::kInvalidArgument, "%s cannot be both the plan and its weights file",
                         options.path.c_str());
  }
  FileSink weights(weights_path, kWeightsFile);
  if (options.write_weights) {
    RONDO_RETURN_IF_ERROR(WriteWeightsFile(plan, fill, weights, &weights_hash));
  } else {
    RONDO_RETURN_IF_ERROR(ReadWeightsHash(plan, weights_path, &weights_hash));
  }
  RONDO_RETURN_IF_ERROR(WriteContainer(plan, fill, false, weights_hash, file));
  if (options.write_weights) RONDO_RETURN_IF_ERROR(weights.Commit());
  return file.Commit();
}

Status WritePlanBytes(const PlanData& plan, const FillWeight& fill, std::vector<uint8_t>* out) {
  if (!plan.weights_file.empty()) {
    return Status::Error(Code::kInvalidArgument, "a plan in memory cannot have a weights file");
  }
  MemorySink sink(out);
  return WriteContainer(plan, fill, true, 0, sink);
}

uint64_t LayOutWeights(Span<Buffer> buffers, Span<const uint32_t> same_as) {
  uint64_t end = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    Buffer& buffer = buffers[i];
    if (buffer.kind != BufferKind::kConstant || buffer.weight != WeightSource::kBytes) continue;
    if (i < same_as.size() && same_as[i] != kNone) continue;
    const uint64_t place = buffer.bytes >= kPlanPage ? kPlanPage : 64;
    buffer.file_offset = RoundUp(end, std::max<uint64_t>(place, buffer.alignment));
    end = buffer.file_offset + buffer.bytes;
  }
  for (size_t i = 0; i < buffers.size() && i < same_as.size(); ++i) {
    if (same_as[i] != kNone) buffers[i].file_offset = buffers[same_as[i]].file_offset;
  }
  return end;
}

}  // namespace rondo
