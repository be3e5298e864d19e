// PlanWeights: the bytes of a plan's weights, mapped when first asked for, or read into memory.
#ifndef RONDO_FORMATS_PLAN_WEIGHTS_H_
#define RONDO_FORMATS_PLAN_WEIGHTS_H_

#include <cstdint>

#include "core/span.h"
#include "core/status.h"

namespace rondo {

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

  // Takes over `file` (a descriptor). The weights are its bytes [offset, offset + bytes).
  static PlanWeights FromFile(int file, uint64_t offset, uint64_t bytes, uint64_t hash);
  // Weights that lie in memory already, which must outlive this object.
  static PlanWeights FromMemory(Span<const uint8_t> bytes, uint64_t hash);

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
  Status CheckHash();

 private:
  void Close();
  Status Read(uint64_t offset, uint64_t count, void* to) const;
  int file_ = -1;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
  uint64_t hash_ = 0;
  const uint8_t* data_ = nullptr;  // of the weights, once mapped
  bool mapped_ = false;            // data_ belongs to a mapping of ours
};

// Reads the bytes [offset, offset + count) of a file. kIo, or kCorrupt if it has come to end before them.
Status ReadFile(int file, uint64_t offset, uint64_t count, void* to);

}  // namespace rondo

#endif  // RONDO_FORMATS_PLAN_WEIGHTS_H_
