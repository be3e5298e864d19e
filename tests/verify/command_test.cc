// `rondo run --verify` as users call it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/folders.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

const std::string kSeeds = SourceFolder() + "/tests/fuzz/seeds/plan/";

Outcome Verify(const std::string& arguments) {
  return Shell(std::string(RONDO_COMMAND) + " run --verify " + arguments);
}

TEST(VerifyCommand, ASoundPlanIsToldSo) {
  for (const char* plan : {"sample", "state", "loop", "mesh", "recurrent"}) {
    const Outcome good = Verify(kSeeds + plan + ".plan");
    EXPECT_EQ(good.status, 0) << good.text;
    EXPECT_NE(good.text.find("memory is used as the plan says on driver host"), std::string::npos)
        << good.text;
  }
}

TEST(VerifyCommand, AnOpThatWritesBehindItsOutputIsNamed) {
  const std::string plan = kSeeds + "calls.plan --ops " RONDO_STRAYING_OPS;
  const Outcome bad = Verify(plan);
  EXPECT_EQ(bad.status, 1) << bad.text;
  EXPECT_NE(bad.text.find("stray write: program \"main\", step 0 (Scale \"scale\"), device 0, "),
            std::string::npos)
      << bad.text;
  const Outcome json = Shell("(" RONDO_COMMAND " run --verify --json " + plan + " 2>/dev/null)");
  EXPECT_EQ(json.status, 1);
  const auto object = nlohmann::json::parse(json.text, nullptr, false);
  ASSERT_TRUE(object.is_object()) << json.text;
  EXPECT_EQ(object["verified"], false);
  const auto& finding = object["findings"][0];
  EXPECT_EQ(object["findings"].size(), 2u) << json.text;  // one from the steps, one from graph replay
  EXPECT_EQ(finding["rule"], "stray write");
  EXPECT_EQ(finding["step"], 0);
  EXPECT_EQ(finding["step_source"], "Scale \"scale\"");
  EXPECT_EQ(finding["bytes"], 4);
}

TEST(VerifyCommand, WhatDoesNotGoWithItIsRefused) {
  const Outcome misuse = Verify(kSeeds + "state.plan --repeat 3");
  EXPECT_EQ(misuse.status, 2);
  EXPECT_NE(misuse.text.find("--verify does without --trace, --output, --dump and --repeat"),
            std::string::npos);
  const Outcome unknown = Verify(kSeeds + "state.plan --program nothing");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_NE(unknown.text.find("nothing"), std::string::npos) << unknown.text;
}

}  // namespace
}  // namespace rondo
