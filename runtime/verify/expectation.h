// MemoryExpectation: what somebody expects of a plan's memory, by the model's own names, and whether it
// holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/span.h"

namespace rondo {

enum class ExpectationKind : uint32_t {
  kReusesMemory = 0,    // `value` lies in bytes that `other` had before it, or takes them over in place
  kSharesMemory = 1,    // `value` and `other` have bytes in common, at whatever time
  kDiesAfter = 2,       // the last step that uses `value` is one that node `other` is part of
  kUpdatedInPlace = 3,  // `value` is changed where it lies: no step copies it to another place and back
  kCopiesAtMost = 4,    // steps and parts of kernels that only move elements write at most `bytes`
  kPeakAtMost = 5,      // weights, arena and state of all devices come to at most `bytes`
  // Of one run, over all devices; in a loop once a round.
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

// "" if it holds; else a sentence that names the buffers, their source nodes and steps, what was expected and
// what was found. A name that the plan does not have is such a sentence, too, with the nearest ones. `plan`
// must have passed VerifyPlan.
std::string Mismatch(const PlanData& plan, const MemoryExpectation& expectation);

// Bytes that one run of `program` writes by only moving elements: copy steps, and parts of kernels whose
// tapes load and store and do nothing else, those through indices apart. In a loop once a round.
uint64_t CopiedBytes(const PlanData& plan, uint32_t program);
// A step of those, and how many.
struct CopyingStep {
  uint32_t step = 0;
  uint64_t bytes = 0;
};
std::vector<CopyingStep> CopyingSteps(const PlanData& plan, uint32_t program);
// Weights, arena and state of all devices.
uint64_t PeakBytes(const PlanData& plan);

// What holds of `plan` now, to be kept: its peak; steps, launches, partitions, bytes and copies of a run of
// each program; states, and what takes over another value's
// memory, in place; after which node each named value of the arena dies.
std::vector<MemoryExpectation> ExpectationsOf(const PlanData& plan);

}  // namespace rondo
