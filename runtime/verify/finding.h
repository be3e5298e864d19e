// Finding: one broken promise about a plan's memory that the lifecycle verifier has found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/span.h"

namespace rondo {

// The README of this folder says how each is found; tests/verify plants each.
enum class LifecycleRule : uint8_t {
  kLifetime,       // a buffer begins or ends at another step than the plan says
  kOverlap,        // a step writes over a buffer that is alive
  kReadUnwritten,  // a step, or the reader of an output, reads bytes that nothing has written
  kReadForeign,    // a step reads bytes that hold another buffer
  kNotWritable,    // a step writes a constant or an input
  kInsideStep,     // two operands of one step share bytes, other than element by element
  kUnordered,      // two unordered steps use the same bytes, and one of them writes
  kStrayWrite,     // bytes changed that no running step writes
  kStateChanged,   // the same, in state
  kGuard,          // bytes changed before or after memory allocated from the driver
  kNotWritten,     // a step did not change bytes that it should write
  kPoisonSeen,     // results depend on memory that nothing has written
  kReplayDiffers,  // results of graph replay differ from those of single steps
  kReloadDiffers,  // results after reopening differ from those before
  kWeights,        // weights differ from the plan, or have changed
  kGivenTwice,     // the driver returned memory that was already allocated
  kFreedWrongly,   // memory was freed that was not allocated, or with another size
  kNotGivenBack,   // driver memory or objects, or host memory, left after everything was closed
  kNotFlat,        // memory in use grows each time the plan is opened
  kRunFailed,      // a run ended with an error
};
// "read unwritten", as --json says it.
const char* Name(LifecycleRule rule);

struct Finding {
  LifecycleRule rule = LifecycleRule::kRunFailed;
  std::string program;      // "" if none is running
  uint32_t step = kNone;    // of it
  uint32_t round = 0;       // of the step's loop
  std::string step_source;  // the ONNX nodes of the step
  uint32_t device = 0;      // of the plan
  uint32_t buffer = kNone;  // into PlanData::buffers
  std::string buffer_name, buffer_source;
  uint64_t offset = 0, bytes = 0;  // from the buffer's start, unless `expected` says otherwise
  std::string expected, found;

  // One sentence with all of it.
  std::string Text() const;
};

// The first kMost findings, in the order they were met. Only the first of the same rule, step and buffer is
// kept.
class FindingList {
 public:
  static constexpr size_t kMost = 1000;
  explicit FindingList(const PlanData& plan) : plan_(plan) {}
  // Adds `finding`, and fills in the names of its buffer and the source of its step.
  void Add(Finding finding, uint32_t program = kNone);
  const std::vector<Finding>& list() const { return list_; }
  bool empty() const { return list_.empty(); }

 private:
  const PlanData& plan_;
  std::vector<Finding> list_;
};

// "byte 12", "bytes 12 to 15".
std::string BytesText(uint64_t offset, uint64_t bytes);
// `buffer "NAME" (KIND, of NODES)`.
std::string BufferText(const PlanData& plan, uint32_t buffer);
// At most the first 8 bytes, in hexadecimal.
std::string HexText(Span<const uint8_t> bytes);

}  // namespace rondo
