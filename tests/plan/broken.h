// BrokenSample: tests of the rules of verifier and checker. Each makes one change to a hand-made plan.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "tests/plan/sample_plan.h"

namespace rondo {

struct Broken {
  const char* rule;
  void (*change)(Sample& s);  // breaks the rule
  const char* says;           // part of the message
};
inline std::ostream& operator<<(std::ostream& out, const Broken& broken) { return out << broken.rule; }
inline std::string RuleName(const testing::TestParamInfo<Broken>& info) { return info.param.rule; }

class BrokenSample : public testing::TestWithParam<Broken> {
 protected:
  // Expects that the verifier refuses `s` with the rule broken.
  void VerifierRefuses(Sample s) {
    GetParam().change(s);
    ExpectRefusal(VerifyPlan(s.data));
  }
  // Expects that the verifier accepts it and the checker refuses it.
  void CheckerRefuses(Sample s) {
    GetParam().change(s);
    const Status verified = VerifyPlan(s.data);
    ASSERT_TRUE(verified.ok()) << verified.message();
    ExpectRefusal(CheckPlan(s.data));
  }
  // Expects that one of them refuses it.
  void EitherRefuses(Sample s) {
    GetParam().change(s);
    const Status verified = VerifyPlan(s.data);
    ExpectRefusal(verified.ok() ? CheckPlan(s.data) : verified);
  }

 private:
  static void ExpectRefusal(const Status& status) {
    ASSERT_FALSE(status.ok()) << GetParam().rule;
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(std::string(status.message()).find(GetParam().says), std::string::npos) << status.message();
  }
};

inline void ExpectVerifiedAndProven(const PlanData& plan) {
  const Status verified = VerifyPlan(plan);
  ASSERT_TRUE(verified.ok()) << verified.message();
  const Status proven = CheckPlan(plan);
  EXPECT_TRUE(proven.ok()) << proven.message();
}

}  // namespace rondo
