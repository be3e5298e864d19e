// Weights replaced in existing sessions: the next results are those of a plan with the new weights, at a
// small part of the cost. Weights that do not fit change nothing.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "drivers/capi/rondo_host.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tests/weights/running.h"
#include "tests/weights/weight_twins.h"
#include "tools/weights/rondo_weights.hpp"

namespace rondo {
namespace {

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class LiveSessions : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }
  void Compile(const std::string& model, const std::string& options, const std::string& to) const {
    const Outcome compiled =
        Shell(std::string(RONDO_COMMAND) + " compile " + model + " " + options + " -o " + In(to));
    ASSERT_EQ(compiled.status, 0) << compiled.text;
  }
  void Open(const std::string& plan, uint32_t devices, Running* running) const {
    const Error error = running->Open(In(plan), rondo_host_driver_create(1, devices));
    ASSERT_FALSE(error) << error.message();
  }
  TemporaryFolder folder_;
};

#define ASSERT_DONE(call) \
  if (const Error failed = (call)) FAIL() << failed.message()
#define EXPECT_REFUSED(call, with, words)                                                          \
  do {                                                                                             \
    const Error refused = (call);                                                                  \
    EXPECT_EQ(refused.code(), with) << refused.message();                                          \
    EXPECT_NE(std::string(refused.message()).find(words), std::string::npos) << refused.message(); \
  } while (false)

TEST_F(LiveSessions, ComputeWhatAFreshPlanDoesForATenthOfItsTime) {
  double replacing = 0, compiling = 0;
  for (const char* model :
       {"bert_ts17", "llama_decode_op23", "mobilenetv2", "resnet", "unet_op23", "vit_op23"}) {
    for (const char* how : {"", "--precision bf16", "--tp 2", "--quantize-weights int4:32"}) {
      const std::string options = std::string("--live-weights ") + how;
      const uint32_t devices = std::string(how) == "--tp 2" ? 2 : 1;
      WriteTwin(Fixture(model), In("twin.onnx"));
      Compile(Fixture(model), options, "plan");
      Running running, fresh;
      Open("plan", devices, &running);
      const Bytes before = running.Run();
      compiling += Seconds([&] {
        Compile(In("twin.onnx"), options, "fresh");
        Open("fresh", devices, &fresh);
      });
      size_t replaced = 0;
      replacing += Seconds(
          [&] { ASSERT_DONE(ReplaceWeights({&running.session()}, In("twin.onnx").c_str(), &replaced)); });
      EXPECT_GT(replaced, 0u);
      // A decoder's states have advanced by one more run, so reset them.
      ASSERT_DONE(running.session().ResetState());
      const Bytes after = running.Run();
      EXPECT_NE(before, after) << model << " " << how;
      EXPECT_EQ(after, fresh.Run()) << model << " " << how;
    }
  }
  RecordProperty("part_of_compiling", std::to_string(replacing / compiling));
  EXPECT_LT(replacing, 0.1 * compiling);
}

// The session continues from its state.
TEST_F(LiveSessions, KeepTheirState) {
  Compile(Fixture("llama_decode_op23"), "--live-weights", "plan");
  Running running, other;
  Open("plan", 1, &running);
  Open("plan", 1, &other);
  for (Running* each : {&running, &other}) each->Run();
  ASSERT_DONE(ReplaceWeights({&running.session()}, Fixture("llama_decode_op23").c_str()));
  EXPECT_EQ(running.Run(), other.Run());
}

class TwoWeights : public LiveSessions {
 protected:
  void SetUp() override {
    WriteTwoWeights(In("model.onnx"), 1, 1, 2);
    Compile(In("model.onnx"), "--live-weights", "plan");
    Open("plan", 1, &running_);
  }
  Running running_;
};

TEST_F(TwoWeights, RefuseWhatDoesNotFitAndStayAsTheyAre) {
  const Bytes before = running_.Run();
  for (const Misfit& file : Misfits()) {
    Write(In(file.name), file.contents);
    const Error refused = ReplaceWeights({&running_.session()}, In(file.name).c_str());
    EXPECT_TRUE(refused) << file.name;
    EXPECT_NE(std::string(refused.message()).find(file.says), std::string::npos) << refused.message();
    EXPECT_EQ(running_.Run(), before) << file.name;
  }
  WriteTwoWeights(In("other_scale.onnx"), 1, 3, 2.5f);
  EXPECT_REFUSED(ReplaceWeights({&running_.session()}, In("other_scale.onnx").c_str()),
                 RONDO_INVALID_ARGUMENT, "is another than the plan was compiled with");
  EXPECT_EQ(running_.Run(), before);
}

TEST_F(TwoWeights, TakeValuesFromMemory) {
  WriteTwoWeights(In("twin.onnx"), 1, 3, 2);
  Compile(In("twin.onnx"), "--live-weights", "fresh");
  Running fresh;
  Open("fresh", 1, &fresh);
  std::vector<float> threes(16, 3.0f);
  const Tensor b = rondo::In("b", threes, {16}), c = rondo::In("c", threes, {16}),
               flat = rondo::In("b", threes, {4, 4});
  const Tensor twice[] = {b, b};
  EXPECT_REFUSED(ReplaceWeights({&running_.session()}, {&c, 1}), RONDO_INVALID_ARGUMENT, "no weight \"c\"");
  EXPECT_REFUSED(ReplaceWeights({&running_.session()}, {&flat, 1}), RONDO_INVALID_ARGUMENT, "[4, 4]");
  EXPECT_REFUSED(ReplaceWeights({&running_.session()}, twice), RONDO_INVALID_ARGUMENT, "given twice");
  ASSERT_DONE(ReplaceWeights({&running_.session()}, {&b, 1}));
  EXPECT_EQ(running_.Run(), fresh.Run());
}

// A session of the plan that is not passed could be running.
TEST_F(TwoWeights, AreReplacedForAllSessionsAtOnce) {
  Session other;
  ASSERT_DONE(running_.AddSession(&other));
  WriteTwoWeights(In("twin.onnx"), 1, 3, 2);
  const std::string twin = In("twin.onnx");
  const Bytes before = running_.Run();
  EXPECT_REFUSED(ReplaceWeights({&running_.session()}, twin.c_str()), RONDO_FAILED_PRECONDITION,
                 "2 sessions of the plan");
  EXPECT_REFUSED(ReplaceWeights({&other, &other}, twin.c_str()), RONDO_FAILED_PRECONDITION, "in use");
  Running apart;
  Open("plan", 1, &apart);
  EXPECT_REFUSED(ReplaceWeights({&running_.session(), &apart.session()}, twin.c_str()),
                 RONDO_INVALID_ARGUMENT, "another plan or runtime");
  EXPECT_EQ(running_.Run(), before);
  ASSERT_DONE(ReplaceWeights({&running_.session(), &other}, twin.c_str()));
  const Bytes after = running_.Run();
  EXPECT_NE(after, before);
  EXPECT_EQ(running_.Run(&other), after);
  Session later;
  ASSERT_DONE(running_.AddSession(&later));
  EXPECT_EQ(running_.Run(&later), after);
  EXPECT_EQ(apart.Run(), before);  // its session belongs to another runtime
}

TEST_F(TwoWeights, OfAPlanWithoutLiveOnesAreRefused) {
  Compile(In("model.onnx"), "", "closed");
  Running closed;
  Open("closed", 1, &closed);
  EXPECT_REFUSED(ReplaceWeights({&closed.session()}, In("model.onnx").c_str()), RONDO_FAILED_PRECONDITION,
                 "compile the model with --live-weights");
}

}  // namespace
}  // namespace rondo
