#include "formats/plan/weights.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <ctime>
#include <utility>

#include "formats/plan/format.h"

namespace rondo {
namespace {

// Systems record file times in steps of up to 10 ms: a write so soon after another may leave the time
// unchanged.
constexpr int64_t kTimeStep = 20'000'000;

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

PlanWeights::PlanWeights(PlanWeights&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      stamp_(other.stamp_),
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

void PlanWeights::UseFile(int file, const FileStamp& stamp, uint64_t offset, uint64_t bytes, uint64_t hash) {
  file_ = file;
  stamp_ = stamp;
  offset_ = offset;
  bytes_ = bytes;
  hash_ = hash;
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  if (Nanoseconds(now) - stamp.modified < kTimeStep) stamp_.changed = 0;
}

void PlanWeights::UseMemory(Span<const uint8_t> bytes, uint64_t hash) {
  data_ = bytes.data();
  bytes_ = bytes.size();
  hash_ = hash;
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

Status StampOf(int file, FileStamp* stamp) {
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
    return Status::Error(Code::kIo, "not a regular file");
  *stamp = {static_cast<uint64_t>(info.st_size), Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim)};
  return Status::Ok();
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

// Files are read instead of mapped, because a mapped file may be truncated.
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

Status PlanWeights::CheckHash() const {
  const auto read = [](void* self, uint64_t offset, uint64_t count, void* to) {
    return static_cast<const PlanWeights*>(self)->Read(offset, count, to);
  };
  RONDO_ASSIGN_OR_RETURN(const uint64_t hash, HashRead(bytes_, read, const_cast<PlanWeights*>(this)));
  if (hash != hash_) {
    return Status::Error(Code::kCorrupt,
                         "weights: %" PRIu64 " bytes with hash %016" PRIx64
                         "; the plan was written for hash %016" PRIx64,
                         bytes_, hash, hash_);
  }
  return Status::Ok();
}

Status PlanWeights::CheckUnchanged(bool ignore_hash) const {
  if (!mapped_) return Status::Ok();
  FileStamp now;
  RONDO_RETURN_IF_ERROR(StampOf(file_, &now));
  if (now.bytes != stamp_.bytes || now.modified != stamp_.modified) {
    return Status::Error(
        Code::kFailedPrecondition,
        "the file has changed since the plan was opened (%" PRIu64 " bytes, now %" PRIu64 "; written %" PRId64
        " ms later), and weights are mapped from it: open the plan again. To replace a plan in use, "
        "rename a file over it, or use read_weights",
        stamp_.bytes, now.bytes, (now.modified - stamp_.modified) / 1'000'000);
  }
  const std::atomic_ref<int64_t> same_until(stamp_.changed);
  if (same_until.load(std::memory_order_relaxed) == now.changed || ignore_hash) return Status::Ok();
  RONDO_RETURN_IF_ERROR(CheckHash());
  same_until.store(now.changed, std::memory_order_relaxed);
  return Status::Ok();
}

}  // namespace rondo
