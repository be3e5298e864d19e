// ShadowRegion: the expected contents of one region of device memory, byte by byte, and the buffers that own
// them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "core/driver.h"
#include "core/status.h"
#include "formats/plan/check/boxes.h"
#include "runtime/session.h"
#include "runtime/verify/poison.h"

namespace rondo::verify {

// Bytes [first, end) of a region.
struct ByteRange {
  uint64_t first = 0, end = 0;
};

// Copies between the host and one device, and waits for each. Owns a stream. Not copyable.
class DeviceIo {
 public:
  static Result<DeviceIo> Create(Device* device, bool host_memory);
  DeviceIo(DeviceIo&& other) noexcept;
  DeviceIo& operator=(DeviceIo&&) = delete;
  ~DeviceIo();

  Status Read(DeviceAddress from, uint64_t bytes, uint8_t* to) const;
  Status Write(DeviceAddress to, uint64_t bytes, const uint8_t* from) const;

 private:
  DeviceIo(Device* device, Stream* stream, bool host) : device_(device), stream_(stream), host_(host) {}
  Status Finish(Status status) const;
  Device* device_;
  Stream* stream_;
  bool host_;  // device addresses are host pointers
};

// `io` must outlive it. Offsets count from the region's start. Takes host memory: the region's bytes, and
// four bytes for each granule.
class ShadowRegion {
 public:
  // Everything bound into the region lies at multiples of `granule` bytes.
  ShadowRegion(const DeviceIo* io, DeviceRegion at, uint64_t granule);

  uint64_t bytes() const { return mirror_.size(); }
  uint64_t granule() const { return uint64_t{1} << shift_; }
  const uint8_t* mirror() const { return mirror_.data(); }
  uint32_t owner(uint64_t byte) const { return owners_[byte >> shift_]; }
  void SetOwner(ByteRange range, uint32_t buffer);
  // Fills the region with poison and clears all owners.
  Status PoisonAll(const Poison& poison);
  Status PoisonRange(ByteRange range, const Poison& poison);
  // Updates the mirror from memory.
  Status Accept(ByteRange range);
  // Updates the mirror only; memory is not read.
  void Expect(ByteRange range, const uint8_t* bytes);
  // Calls changed(range, was, is) for each run of bytes that differ from the mirror, outside of `except`
  // (ascending), and updates the mirror. `is` are the run's bytes in memory.
  template <typename Changed>
  Status Scan(const std::vector<ByteRange>& except, const Changed& changed);

 private:
  const DeviceIo* io_;
  DeviceAddress address_;
  int shift_;  // of a granule
  std::vector<uint8_t> mirror_;
  std::vector<uint32_t> owners_;  // of each granule: a buffer of the plan, or kNone
  std::vector<uint8_t> chunk_;
};

template <typename Changed>
Status ShadowRegion::Scan(const std::vector<ByteRange>& except, const Changed& changed) {
  constexpr uint64_t kChunk = uint64_t{1} << 20;
  uint64_t at = 0;
  for (size_t i = 0; at < bytes();) {
    while (i < except.size() && except[i].end <= at) ++i;
    if (i < except.size() && except[i].first <= at) {
      at = except[i].end;
      continue;
    }
    uint64_t end = at + kChunk < bytes() ? at + kChunk : bytes();
    if (i < except.size() && except[i].first < end) end = except[i].first;
    chunk_.resize(end - at);
    RONDO_RETURN_IF_ERROR(io_->Read(address_ + at, end - at, chunk_.data()));
    if (std::memcmp(chunk_.data(), mirror_.data() + at, end - at) != 0) {
      for (uint64_t b = at; b < end; ++b) {
        if (chunk_[b - at] == mirror_[b]) continue;
        uint64_t last = b + 1;
        while (last < end && chunk_[last - at] != mirror_[last] && owner(last) == owner(b)) ++last;
        changed(ByteRange{b, last}, mirror_.data() + b, chunk_.data() + (b - at));
        std::memcpy(mirror_.data() + b, chunk_.data() + (b - at), last - b);
        b = last - 1;
      }
    }
    at = end;
  }
  return Status::Ok();
}

// Calls run(range) for each run of contiguous bytes of `box`, which must be exact and not empty.
template <typename Run>
void ForRuns(const check::Box& box, const Run& run) {
  int64_t counters[check::kMaxBoxRank] = {};
  const int64_t length = box.rank == 0 ? 1 : box.dims[0].extent;
  for (;;) {
    int64_t at = box.base;
    for (int d = 1; d < box.rank; ++d) at += counters[d] * box.dims[d].stride;
    run(ByteRange{static_cast<uint64_t>(at), static_cast<uint64_t>(at + length)});
    int d = 1;
    while (d < box.rank && ++counters[d] == box.dims[d].extent) counters[d++] = 0;
    if (d >= box.rank) return;
  }
}

}  // namespace rondo::verify
