// The JSON of `rondo check --expect`: reading, writing, and refusal with a sentence.
#include "tools/rondo/expect_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/folders.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo::tools {
namespace {

std::string ErrorOf(const std::string& text) {
  auto parsed = ParseExpectations(text);
  return parsed.ok() ? "none" : parsed.status().message();
}
std::string ErrorOfEntry(const std::string& entry) {
  return ErrorOf("{\"rondo_expect\": 1, \"expect\": [{\"peak_bytes_at_most\": 1}, " + entry + "]}");
}

TEST(ExpectFile, EveryKindIsReadAsItIsWritten) {
  const std::vector<MemoryExpectation> all = {{ExpectationKind::kReusesMemory, "a", "b", "", 0},
                                              {ExpectationKind::kSharesMemory, "a", "b\"\\", "p", 0},
                                              {ExpectationKind::kDiesAfter, "a", "n", "", 0},
                                              {ExpectationKind::kUpdatedInPlace, "c", "", "", 0},
                                              {ExpectationKind::kCopiesAtMost, "", "", "p", 7},
                                              {ExpectationKind::kStepsAtMost, "", "", "p", 1},
                                              {ExpectationKind::kLaunchesAtMost, "", "", "", 2},
                                              {ExpectationKind::kPartitionsAtMost, "", "", "", 3},
                                              {ExpectationKind::kTouchedAtMost, "", "", "p", 4},
                                              {ExpectationKind::kPeakAtMost, "", "", "", UINT64_MAX}};
  const auto read = ParseExpectations(ExpectationsText(all));
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ((*read)[i].kind, all[i].kind);
    EXPECT_EQ((*read)[i].value, all[i].value);
    EXPECT_EQ((*read)[i].other, all[i].other);
    EXPECT_EQ((*read)[i].program, all[i].program);
    EXPECT_EQ((*read)[i].bytes, all[i].bytes);
  }
  EXPECT_TRUE(ParseExpectations(ExpectationsText({})).ok());
}

TEST(ExpectFile, WhatIsNoExpectationIsRefused) {
  EXPECT_EQ(ErrorOf("{"), "it is no JSON object");
  EXPECT_EQ(ErrorOf("[]"), "it is no JSON object");
  EXPECT_EQ(ErrorOf("{}"), "\"rondo_expect\" is null; this release reads 1");
  EXPECT_EQ(ErrorOf("{\"rondo_expect\": 2}"), "\"rondo_expect\" is 2; this release reads 1");
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_EQ(ErrorOf("{\"rondo_expect\": " + deep + "}"), "\"rondo_expect\" is array; this release reads 1");
  EXPECT_EQ(ErrorOf("{\"rondo_expect\": 1, \"expect\": " + deep + "}"),
            "expectation 1: it is no object in braces");
  EXPECT_EQ(ErrorOf("{\"rondo_expect\": 1, \"expects\": []}"),
            "\"expects\" is no field of the file, which has rondo_expect and expect");
  EXPECT_EQ(ErrorOf("{\"rondo_expect\": 1}"), "\"expect\" is no list in brackets");
  EXPECT_EQ(ErrorOfEntry("3"), "expectation 2: it is no object in braces");
  EXPECT_EQ(ErrorOfEntry("{}"),
            "expectation 2: it says nothing that is expected, as \"dies_after\" or \"peak_bytes_at_most\"");
  EXPECT_EQ(ErrorOfEntry("{\"value\": \"a\", \"dies_afer\": \"n\"}"),
            "expectation 2: \"dies_afer\" is no field of an expectation; nearest: \"dies_after\"");
  EXPECT_EQ(ErrorOfEntry("{\"value\": 1, \"dies_after\": \"n\"}"),
            "expectation 2: \"value\" is no name in quotes");
  EXPECT_EQ(ErrorOfEntry("{\"value\": \"a\", \"dies_after\": true}"),
            "expectation 2: \"dies_after\" is no name in quotes");
  EXPECT_EQ(ErrorOfEntry("{\"value\": \"a\", \"updated_in_place\": false}"),
            "expectation 2: \"updated_in_place\" can only be true");
  EXPECT_EQ(ErrorOfEntry("{\"peak_bytes_at_most\": -1}"),
            "expectation 2: \"peak_bytes_at_most\" is no whole number of bytes, 0 or more");
  EXPECT_EQ(ErrorOfEntry("{\"peak_bytes_at_most\": 1e3}"),
            "expectation 2: \"peak_bytes_at_most\" is no whole number of bytes, 0 or more");
  EXPECT_EQ(ErrorOfEntry("{\"dies_after\": \"n\"}"),
            "expectation 2: \"dies_after\" needs a \"value\" that it is said of");
  EXPECT_EQ(ErrorOfEntry("{\"value\": \"a\", \"copied_bytes_at_most\": 1}"),
            "expectation 2: \"copied_bytes_at_most\" is said of no \"value\"");
  EXPECT_EQ(ErrorOfEntry("{\"value\": \"a\", \"dies_after\": \"n\", \"peak_bytes_at_most\": 1}"),
            "expectation 2: it has both \"dies_after\" and \"peak_bytes_at_most\": make two of it");
}

class ExpectCommand : public testing::Test {
 protected:
  void SetUp() override {
    const std::string model = SourceFolder() + "/tests/data/fixtures/llama_decode_op23/model.onnx";
    const Outcome made = Rondo("compile " + model + " -o " + plan_);
    ASSERT_EQ(made.status, 0) << made.text;
  }
  Outcome Rondo(const std::string& arguments) { return Shell(RONDO_COMMAND " " + arguments); }
  Outcome Expect(const std::string& entries) {
    std::ofstream(file_) << "{\"rondo_expect\": 1, \"expect\": [" << entries << "]}";
    return Rondo("check " + plan_ + " --expect " + file_);
  }

  const TemporaryFolder folder_;
  const std::string plan_ = folder_.File("plan.rondo"), file_ = folder_.File("expect.json");
};

TEST_F(ExpectCommand, WhatIsWrittenHolds) {
  const Outcome written = Rondo("check " + plan_ + " --write-expect " + file_);
  EXPECT_EQ(written.status, 0) << written.text;
  const Outcome held = Rondo("check " + plan_ + " --expect " + file_);
  EXPECT_EQ(held.status, 0) << held.text;
  EXPECT_PRINTS(held, "expectations of " + file_ + " hold");
}

// The same model with two more steps a run and one more partition.
TEST_F(ExpectCommand, MoreStepsLaunchesPartitionsAndBytesThanWereWrittenAreSaid) {
  ASSERT_EQ(Rondo("check " + plan_ + " --write-expect " + file_).status, 0);
  const std::string compile =
      "compile " + SourceFolder() + "/tests/data/fixtures/llama_decode_op23/model.onnx -o " + plan_;
  ASSERT_EQ(Rondo(compile + " --skip-pass split_matmuls").status, 0);
  const Outcome steps = Rondo("check " + plan_ + " --expect " + file_);
  EXPECT_EQ(steps.status, 1);
  EXPECT_PRINTS(steps, "program \"main\": expected at most 19 steps in a run; found 21");
  EXPECT_PRINTS(steps, "expected at most 19 kernel launches in a run; found 21");
  EXPECT_PRINTS(steps, "bytes read and written by steps in a run; found");
  ASSERT_EQ(Rondo(compile + " --break-before node_linear_2").status, 0);
  const Outcome partitions = Rondo("check " + plan_ + " --expect " + file_);
  EXPECT_EQ(partitions.status, 1);
  EXPECT_PRINTS(partitions, "expected at most 1 partitions in a run; found 2");
}

TEST_F(ExpectCommand, WhatDoesNotHoldIsSaidAndTheExitStatusIsOne) {
  const Outcome mixed = Expect(
      "{\"value\": \"add_3\", \"reuses_memory_of\": \"embedding\"},"
      "{\"value\": \"mul_1\", \"dies_after\": \"node_linear_2\"},"
      "{\"value\": \"mul_11\", \"updated_in_place\": true},"
      "{\"value\": \"embeding\", \"dies_after\": \"node_linear\"}");
  EXPECT_EQ(mixed.status, 1);
  EXPECT_PRINTS(mixed, "1  of 4 expectations of");
  EXPECT_PRINTS(mixed, "rondo check: expectation 2: program \"main\": expected \"mul_1\" to die after");
  EXPECT_PRINTS(
      mixed,
      "expectation 3: value \"mul_11\" of Mul \"node_mul_11\" lives inside kernel k3_rotary (step 11 of "
      "program \"main\"), in no memory");
  EXPECT_PRINTS(mixed, "expectation 4: the plan has no value called \"embeding\"; nearest: \"embedding\"");
  EXPECT_PRINTS(mixed, "--write-expect");
}

TEST_F(ExpectCommand, AWrongFileIsRefused) {
  const Outcome wrong = Expect("{\"value\": 3}");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_PRINTS(wrong, "expect.json: expectation 1: \"value\" is no name in quotes");
  const Outcome none = Rondo("check " + plan_ + " --expect " + plan_ + ".none");
  EXPECT_EQ(none.status, 1) << none.text;
  std::ofstream(file_) << "something of mine";
  const Outcome kept = Rondo("check " + plan_ + " --write-expect " + file_);
  EXPECT_EQ(kept.status, 1) << kept.text;
}

}  // namespace
}  // namespace rondo::tools
