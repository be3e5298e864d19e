#include "formats/plan/weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "formats/plan/format.h"

namespace rondo {

PlanWeights::PlanWeights(PlanWeights&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      offset_(other.offset_),
      bytes_(std::exchange(other.bytes_, 0)),
      hash_(other.hash_),
      data_(std::exchange(other.data_, nullptr)),
      mapped_(std::exchange(other.mapped_, false)) {}

PlanWeights& PlanWeights::operator=(PlanWeights&& other) noexcept {
  if (this != &other) {
    Close();
    new (this) PlanWeights(std::move(other));
  }
  return *this;
}

PlanWeights::~PlanWeights() { Close(); }

void PlanWeights::Close() {
  if (mapped_) munmap(const_cast<uint8_t*>(data_), bytes_);
  if (file_ >= 0) close(file_);
}

PlanWeights PlanWeights::FromFile(int file, uint64_t offset, uint64_t bytes, uint64_t hash) {
  PlanWeights weights;
  weights.file_ = file;
  weights.offset_ = offset;
  weights.bytes_ = bytes;
  weights.hash_ = hash;
  return weights;
}

PlanWeights PlanWeights::FromMemory(Span<const uint8_t> bytes, uint64_t hash) {
  PlanWeights weights;
  weights.data_ = bytes.data();
  weights.bytes_ = bytes.size();
  weights.hash_ = hash;
  return weights;
}

Result<Span<const uint8_t>> PlanWeights::Map() {
  if (data_ == nullptr && bytes_ != 0) {
    void* data = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_, static_cast<off_t>(offset_));
    if (data == MAP_FAILED) {
      return Status::Error(Code::kIo, "mapping %" PRIu64 " bytes of weights: %s", bytes_,
                           std::strerror(errno));
    }
    data_ = static_cast<const uint8_t*>(data);
    mapped_ = true;
  }
  return Span<const uint8_t>(data_, bytes_);
}

Status ReadFile(int file, uint64_t offset, uint64_t count, void* to) {
  for (uint64_t done = 0; done < count;) {
    ssize_t n =
        pread(file, static_cast<uint8_t*>(to) + done, count - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Status::Error(Code::kIo, "reading at byte %" PRIu64 ": %s", offset, std::strerror(errno));
    }
    if (n == 0) {
      return Status::Error(Code::kCorrupt, "the file ended at byte %" PRIu64 " while it was read",
                           offset + done);
    }
    done += static_cast<uint64_t>(n);
  }
  return Status::Ok();
}

// Files are read, not looked at through a mapping, whose end may go away.
Status PlanWeights::Read(uint64_t offset, uint64_t count, void* to) const {
  if (file_ >= 0) return ReadFile(file_, offset_ + offset, count, to);
  std::memcpy(to, data_ + offset, count);
  return Status::Ok();
}

Status PlanWeights::ReadTo(void* memory) {
  RONDO_RETURN_IF_ERROR(Read(0, bytes_, memory));
  Close();
  file_ = -1;
  mapped_ = false;
  data_ = static_cast<const uint8_t*>(memory);
  return Status::Ok();
}

Status PlanWeights::CheckHash() {
  const auto read = [](void* self, uint64_t offset, uint64_t count, void* to) {
    return static_cast<PlanWeights*>(self)->Read(offset, count, to);
  };
  RONDO_ASSIGN_OR_RETURN(const uint64_t hash, HashRead(bytes_, read, this));
  if (hash != hash_) {
    return Status::Error(Code::kCorrupt,
                         "weights: their %" PRIu64 " bytes have hash %016" PRIx64
                         ", but the plan was written for weights with hash %016" PRIx64,
                         bytes_, hash, hash_);
  }
  return Status::Ok();
}

}  // namespace rondo
