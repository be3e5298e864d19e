// Matchers of a plan's memory, for EXPECT_THAT of GoogleMock, by the model's own names of values and nodes.
//
//   EXPECT_THAT(plan, ReusesMemory("add_3", "embedding"));  // add_3 lies where embedding lay before it
//   EXPECT_THAT(plan, SharesMemory("a", "b"));              // some bytes are both's, at whatever time
//   EXPECT_THAT(plan, DiesAfter("scores", "node_softmax")); // the node's step is the last that uses scores
//   EXPECT_THAT(plan, IsUpdatedInPlace("k_cache"));         // changed where it lies, not copied there
//   EXPECT_THAT(plan, CopiesAtMost(4096));                  // bytes that a run moves without computing
//
// Each checks all programs that have the names, or the one named last: DiesAfter("x", "n", "decode"). A
// mismatch names buffers, source nodes and steps; for an unknown name the nearest ones; for a value that was
// fused away the kernel that computes it.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "runtime/rondo.hpp"
#include "runtime/testing/lifecycle.h"

namespace rondo::testing {

// Of a rondo::Plan. Copyable; any thread.
class MemoryMatcher {
 public:
  using is_gtest_matcher = void;
  MemoryMatcher(rondo_testing_kind kind, std::string value, std::string other, std::string program,
                uint64_t bytes, std::string description)
      : kind_(kind),
        value_(std::move(value)),
        other_(std::move(other)),
        program_(std::move(program)),
        bytes_(bytes),
        description_(std::move(description)) {}

  bool MatchAndExplain(const api::Plan& plan, std::ostream* explanation) const {
    const std::string mismatch = TakeText(
        rondo_testing_mismatch(plan.get(), kind_, value_.c_str(), other_.c_str(), program_.c_str(), bytes_));
    if (explanation != nullptr && !mismatch.empty()) {
      *explanation << mismatch
                   << ".\n  `rondo inspect PLAN --buffers --steps` shows all buffers and steps; if the plan "
                      "is right as it "
                      "is, change the expectation (`rondo check PLAN --write-expect F` writes what holds)";
    }
    return mismatch.empty();
  }
  void DescribeTo(std::ostream* out) const { *out << description_; }
  void DescribeNegationTo(std::ostream* out) const { *out << "not: " << description_; }

 private:
  rondo_testing_kind kind_;
  std::string value_, other_, program_;
  uint64_t bytes_;
  std::string description_;
};

// `value` lies in memory that `before` used earlier, or takes it over in place.
inline MemoryMatcher ReusesMemory(const std::string& value, const std::string& before,
                                  const std::string& program = "") {
  return {RONDO_REUSES_MEMORY,
          value,
          before,
          program,
          0,
          "\"" + value + "\" reuses memory of \"" + before + "\""};
}

inline MemoryMatcher SharesMemory(const std::string& a, const std::string& b,
                                  const std::string& program = "") {
  return {RONDO_SHARES_MEMORY, a, b, program, 0, "\"" + a + "\" and \"" + b + "\" share memory"};
}

inline MemoryMatcher DiesAfter(const std::string& value, const std::string& node,
                               const std::string& program = "") {
  return {RONDO_DIES_AFTER, value, node, program, 0, "\"" + value + "\" dies after node \"" + node + "\""};
}

inline MemoryMatcher IsUpdatedInPlace(const std::string& value, const std::string& program = "") {
  return {RONDO_UPDATED_IN_PLACE, value, "", program, 0, "\"" + value + "\" is updated in place"};
}

inline MemoryMatcher CopiesAtMost(uint64_t bytes, const std::string& program = "") {
  return {RONDO_COPIES_AT_MOST,
          "",
          "",
          program,
          bytes,
          "a run copies at most " + std::to_string(bytes) + " bytes"};
}

}  // namespace rondo::testing

namespace rondo {
inline namespace api {
// How GoogleTest prints a plan.
inline void PrintTo(const Plan& plan, std::ostream* out) {
  *out << "a plan of";
  for (uint32_t p = 0; p < plan.program_count(); ++p)
    *out << (p == 0 ? " " : ", ") << "program \"" << plan.program_name(p) << "\"";
}
}  // namespace api
}  // namespace rondo
