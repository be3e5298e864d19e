// MemoryExpectation: an expectation about a plan's memory, in the model's own names, and whether it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/span.h"

namespace rondo {

enum class ExpectationKind : uint32_t {
  kReusesMemory = 0,    // `value` lies in bytes that `other` used earlier, or takes them over in place
  kSharesMemory = 1,    // `value` and `other` have bytes in common, at whatever time
  kDiesAfter = 2,       // the last step that uses `value` includes node `other`
  kUpdatedInPlace = 3,  // `value` is updated in place: no step copies it elsewhere and back
  kCopiesAtMost = 4,    // steps and parts of kernels that only move elements write at most `bytes`
  kPeakAtMost = 5,      // weights, arena and state of all devices come to at most `bytes`
  // For one run, over all devices; in a loop, each round counts.
  kStepsAtMost = 6,       // at most `bytes` steps
  kLaunchesAtMost = 7,    // at most `bytes` of them launch a kernel
  kPartitionsAtMost = 8,  // at most `bytes` partitions
  kTouchedAtMost = 9,     // steps read and write at most `bytes`, by their contracts
};
// Kinds that compare a count of one run with MemoryExpectation::bytes.
struct RunCount {
  ExpectationKind kind;
  const char* what;  // "steps", as in "expected at most 3 steps"
  uint64_t (*of)(const PlanData& plan, uint32_t program);
};
Span<const RunCount> RunCounts();

struct MemoryExpectation {
  ExpectationKind kind = ExpectationKind::kPeakAtMost;
  std::string value, other;
  std::string program;  // "": in each program that has both names
  uint64_t bytes = 0;   // or steps, launches, partitions
};

// "" if it holds; otherwise a sentence that names the buffers, their source nodes and steps, what was
// expected and what was found. For a name that the plan does not have, the sentence gives the nearest ones.
// `plan` must have passed VerifyPlan.
std::string Mismatch(const PlanData& plan, const MemoryExpectation& expectation);

// Bytes that one run of `program` writes by only moving elements: by copy steps, and by parts of kernels
// whose tapes do nothing but load and store, except through indices. In a loop, each round counts.
uint64_t CopiedBytes(const PlanData& plan, uint32_t program);
// A step that moves elements, and its bytes.
struct CopyingStep {
  uint32_t step = 0;
  uint64_t bytes = 0;
};
std::vector<CopyingStep> CopyingSteps(const PlanData& plan, uint32_t program);
// Weights, arena and state of all devices.
uint64_t PeakBytes(const PlanData& plan);

// Expectations that hold for `plan` now, to be kept as tests: its peak; steps, launches, partitions, bytes
// and copies of a run of each program; values that take over another value's memory in place, states
// included; and the node after which each named value of the arena dies.
std::vector<MemoryExpectation> ExpectationsOf(const PlanData& plan);

}  // namespace rondo
