// PlanWeights: the bytes of a plan's weights, mapped at first use, or read into memory.
#pragma once

#include <cstdint>

#include "core/span.h"
#include "core/status.h"

namespace rondo {

// Changes when a file is written to. Times are in nanoseconds since 1970.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t modified = 0;  // when its contents were last written (mtime)
  int64_t changed = 0;   // the same, or its name, links or permissions (ctime)
};

// Owns an open file and, after the first Map, its read-only mapping. Both end with the object, and so do the
// Spans it gave out. Movable. Map and CheckHash must not race on one object; any thread may read the bytes.
// The file must not be shortened while it is mapped: an access to the missing part gets SIGBUS. What is
// written into the file shows in the mapping. Nothing here reads mapped bytes.
class PlanWeights {
 public:
  PlanWeights() = default;  // no weights: zero bytes
  PlanWeights(PlanWeights&& other) noexcept;
  PlanWeights& operator=(PlanWeights&& other) noexcept;
  ~PlanWeights();

  // For an object without weights. Takes over `file` (a descriptor), which had this `stamp` when it was
  // opened. The weights are its bytes [offset, offset + bytes).
  void UseFile(int file, const FileStamp& stamp, uint64_t offset, uint64_t bytes, uint64_t hash);
  // Uses weights in memory, which must outlive this object.
  void UseMemory(Span<const uint8_t> bytes, uint64_t hash);

  // PlanData::weights_bytes: Buffer::file_offset of kBytes constants counts from the start of these.
  uint64_t bytes() const { return bytes_; }
  // xxh3-64 of all bytes, as recorded in the plan.
  uint64_t hash() const { return hash_; }

  // All of the weights. Costs address space only; pages are read when touched.
  Result<Span<const uint8_t>> Map();
  // Reads all weights into the bytes() at `memory`, which must outlive this object. After that, the file is
  // no longer needed.
  Status ReadTo(void* memory);
  // Reads every byte once and compares with hash(): about 0.1 s per GB that is in the page cache.
  Status CheckHash() const;
  // OK, or kFailedPrecondition if the mapped file has another size or time than when it was opened. A file
  // that was renamed, unlinked, or replaced by renaming another over it is the same file. If the times are
  // not conclusive (the file was opened within milliseconds of a write, or its name or permissions have
  // changed), its contents are compared with hash() once (kCorrupt), unless `ignore_hash`. Any thread.
  Status CheckUnchanged(bool ignore_hash) const;

 private:
  void Close();
  Status Read(uint64_t offset, uint64_t count, void* to) const;
  int file_ = -1;
  // `changed` is the time of the last check that found the contents unchanged; 0: not checked yet.
  mutable FileStamp stamp_;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
  uint64_t hash_ = 0;
  const uint8_t* data_ = nullptr;  // of the weights, once mapped
  bool mapped_ = false;            // data_ is this object's own mapping
};

// The stamp of an open file. kIo if the system does not give one, or if it is not a regular file.
Status StampOf(int file, FileStamp* stamp);

// Reads the bytes [offset, offset + count) of a file. kIo, or kCorrupt if the file ends before them.
Status ReadFile(int file, uint64_t offset, uint64_t count, void* to);

}  // namespace rondo
