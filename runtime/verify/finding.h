// Finding: one broken promise of a plan's memory, as the lifecycle verifier met it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/span.h"

namespace rondo {

// What can be found. The README of this folder says of each how it is found; tests/verify plants each.
enum class LifecycleRule : uint8_t {
  kLifetime,       // a buffer begins or ends elsewhere than the plan says
  kOverlap,        // a step writes over a buffer that is alive
  kReadUnwritten,  // a step, or whoever takes an output, reads bytes that nothing has written
  kReadForeign,    // a step reads bytes that hold another buffer
  kNotWritable,    // a step writes a constant or an input
  kInsideStep,     // two operands of one step share bytes, not element by element
  kUnordered,      // two steps use the same bytes, one of them writes, and nothing orders them
  kStrayWrite,     // bytes changed that no running step writes
  kStateChanged,   // the same, in state
  kGuard,          // bytes changed before or behind memory taken from the driver
  kNotWritten,     // a step left bytes that it writes as they were
  kPoisonSeen,     // results depend on memory that nothing has written
  kReplayDiffers,  // results of graph replay are not those of the steps one by one
  kReloadDiffers,  // results after opening again are not those of before
  kWeights,        // weights are not as the plan says, or have changed
  kGivenTwice,     // the driver gave memory that it had given already
  kFreedWrongly,   // memory was given back that was not taken, or not as it was taken
  kNotGivenBack,   // memory or objects of the driver, or host memory, left when all is closed
  kNotFlat,        // memory in use grows from opening to opening
  kRunFailed,      // a run ended with an error
};
// "read unwritten", as --json says it.
const char* Name(LifecycleRule rule);

struct Finding {
  LifecycleRule rule = LifecycleRule::kRunFailed;
  std::string program;      // "" where none is running
  uint32_t step = kNone;    // of it
  uint32_t round = 0;       // of the step's loop
  std::string step_source;  // the ONNX nodes of the step
  uint32_t device = 0;      // of the plan
  uint32_t buffer = kNone;  // into PlanData::buffers
  std::string buffer_name, buffer_source;
  uint64_t offset = 0, bytes = 0;  // from the buffer's start, or as `expected` says
  std::string expected, found;

  // One sentence with all of it.
  std::string Text() const;
};

// Findings in the order they were met, the first kMost. Of one rule, step and buffer only the first is kept.
class FindingList {
 public:
  static constexpr size_t kMost = 1000;
  explicit FindingList(const PlanData& plan) : plan_(plan) {}
  // Fills in the names of `finding`'s buffer, and of its step's source.
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
