// PlanWeights: the bytes of a plan's weights, mapped when first asked for, or read into memory.
#pragma once

#include <cstdint>

#include "core/span.h"
#include "core/status.h"

namespace rondo {

// What changes when a file is written to. Times are in nanoseconds since 1970.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t modified = 0;  // when its contents were last written (mtime)
  int64_t changed = 0;   // the same, or its name, links or permissions (ctime)
};

// Owns an open file and, after the first Map, its read-only mapping; both end with the object, and so
// do the Spans it gave out. Movable. Map and CheckHash must not race with one another on one object;
// the bytes themselves may be read from any thread. The file must not be shortened while it is
// mapped: the operating system answers a look at what is gone with SIGBUS. What is written into it shows.
// Nothing here looks at mapped bytes.
class PlanWeights {
 public:
  PlanWeights() = default;  // no weights: zero bytes
  PlanWeights(PlanWeights&& other) noexcept;
  PlanWeights& operator=(PlanWeights&& other) noexcept;
  ~PlanWeights();

  // For an object without weights yet. Takes over `file` (a descriptor), which had this `stamp` when it was
  // opened. The weights are its bytes [offset, offset + bytes).
  void UseFile(int file, const FileStamp& stamp, uint64_t offset, uint64_t bytes, uint64_t hash);
  // Weights that lie in memory already, which must outlive this object.
  void UseMemory(Span<const uint8_t> bytes, uint64_t hash);

  // PlanData::weights_bytes: Buffer::file_offset of kBytes constants counts from the start of these.
  uint64_t bytes() const { return bytes_; }
  // xxh3-64 of all bytes, as recorded in the plan.
  uint64_t hash() const { return hash_; }

  // All of the weights. Costs address space only; pages are read when touched.
  Result<Span<const uint8_t>> Map();
  // Reads all of them into the bytes() at `memory`, which must outlive this object: from then on they are
  // there, and what becomes of the file does not matter.
  Status ReadTo(void* memory);
  // Reads every byte once and compares with hash(): about 0.1 s per GB that is in the page cache.
  Status CheckHash() const;
  // OK, or kFailedPrecondition if the file under a mapping has another size or time than when it was opened.
  // A file that was renamed, replaced by renaming another over it, or unlinked is the same file. Where times
  // leave open whether it was written to (it was opened within milliseconds of a write, or its name or
  // permissions have changed), its contents are compared with hash() (kCorrupt), once, unless `ignore_hash`.
  // Any thread.
  Status CheckUnchanged(bool ignore_hash) const;

 private:
  void Close();
  Status Read(uint64_t offset, uint64_t count, void* to) const;
  int file_ = -1;
  // Of the file; `changed` becomes that of the last time at which the contents were found the same, 0 when
  // not yet.
  mutable FileStamp stamp_;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
  uint64_t hash_ = 0;
  const uint8_t* data_ = nullptr;  // of the weights, once mapped
  bool mapped_ = false;            // data_ belongs to a mapping of ours
};

// The stamp of an open file. kIo if the system does not say, or it is no regular file.
Status StampOf(int file, FileStamp* stamp);

// Reads the bytes [offset, offset + count) of a file. kIo, or kCorrupt if it has come to end before them.
Status ReadFile(int file, uint64_t offset, uint64_t count, void* to);

}  // namespace rondo
