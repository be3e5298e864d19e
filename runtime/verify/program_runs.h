// ProgramRuns: runs a plan's programs one after another with the same inputs each time, and compares the
// results.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/session.h"
#include "runtime/verify/finding.h"

namespace rondo::verify {

// All outputs of all programs that were run, including state after each: by program, then port.
using RunResults = std::vector<std::vector<std::vector<uint8_t>>>;

class ProgramRuns {
 public:
  // `plan` and the data of `inputs` (by program) must outlive it. `only`: one program, or kNone.
  ProgramRuns(const PlanData& plan, const std::vector<std::vector<Input>>& inputs, uint32_t only);

  using RunFunction =
      std::function<Status(uint32_t program, Span<const Input> inputs, Span<const Output> outputs)>;
  // Calls run(program, ...) for each program. False, with a finding, if a run fails; `how` describes the
  // runs: "step by step".
  bool Run(const RunFunction& run, const std::string& how, FindingList* findings, RunResults* results) const;
  // Reports differences from `expected` as findings of `rule`. `expected_from` and `found_from` say which
  // runs gave the two.
  void Compare(const RunResults& expected, const RunResults& found, LifecycleRule rule,
               const std::string& expected_from, const std::string& found_from, FindingList* findings) const;
  const std::vector<uint32_t>& programs() const { return programs_; }

 private:
  const PlanData& plan_;
  std::vector<uint32_t> programs_;
  std::vector<std::vector<Input>> inputs_;       // by program
  std::vector<std::vector<uint8_t>> synthetic_;  // the data of synthetic inputs
};

}  // namespace rondo::verify
