// A caller's mistakes with inputs and outputs: one sentence for each, with the port, the expected value, the
// given one, and the existing names.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/session.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

constexpr float kX[4] = {1, 1, 1, 1};
float y[4];

struct Case {
  const char* what;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  Code code;
  const char* message;
};

Input X() { return {"x", kNone, DType::kF32, {4}, kX, 16}; }

std::vector<Case> Cases() {
  return {
      {"Missing",
       {},
       {},
       Code::kInvalidArgument,
       "program \"add\": input \"x\" (f32 [4] of 16 bytes) is missing; its inputs are \"x\", \"total\" "
       "(state)"},
      {"Unknown",
       {{"z", kNone, DType::kF32, {4}, kX, 16}},
       {},
       Code::kNotFound,
       "program \"add\": no input is called \"z\"; its inputs are \"x\", \"total\" (state)"},
      {"UnknownIndex",
       {{"", 5, DType::kF32, {4}, kX, 16}},
       {},
       Code::kNotFound,
       "program \"add\": input 5 does not exist, there are 2; its inputs are \"x\", \"total\" (state)"},
      {"Twice",
       {X(), X()},
       {},
       Code::kInvalidArgument,
       "program \"add\": input \"x\" is given twice; its inputs are \"x\", \"total\" (state)"},
      {"DType",
       {{"x", kNone, DType::kI32, {4}, kX, 16}},
       {},
       Code::kInvalidArgument,
       "program \"add\": input \"x\" must be f32 [4] of 16 bytes, but i32 [4] was given; its inputs are "
       "\"x\", "
       "\"total\" (state)"},
      {"Shape",
       {{"x", kNone, DType::kF32, {2, 2}, kX, 16}},
       {},
       Code::kInvalidArgument,
       "program \"add\": input \"x\" must be f32 [4] of 16 bytes, but f32 [2, 2] was given; its inputs are "
       "\"x\", "
       "\"total\" (state)"},
      {"Bytes",
       {{"x", kNone, DType::kF32, {4}, kX, 12}},
       {},
       Code::kInvalidArgument,
       "program \"add\": input \"x\" must be f32 [4] of 16 bytes, but 12 bytes were given; its inputs are "
       "\"x\", "
       "\"total\" (state)"},
      {"Null",
       {{"x", kNone, DType::kF32, {4}, nullptr, 16}},
       {},
       Code::kInvalidArgument,
       "program \"add\": input \"x\" must be f32 [4] of 16 bytes, but its data is null; its inputs are "
       "\"x\", "
       "\"total\" (state)"},
      {"UnknownOutput",
       {X()},
       {{"w", kNone, DType::kF32, y, 16}},
       Code::kNotFound,
       "program \"add\": no output is called \"w\"; its outputs are \"y\", \"total_out\" (state)"},
      {"OutputBytes",
       {X()},
       {{"y", kNone, DType::kF32, y, 8}},
       Code::kInvalidArgument,
       "program \"add\": output \"y\" must be f32 [4] of 16 bytes, but 8 bytes were given; its outputs are "
       "\"y\", "
       "\"total_out\" (state)"},
      {"OutputDType",
       {X()},
       {{"y", kNone, DType::kF64, y, 16}},
       Code::kInvalidArgument,
       "program \"add\": output \"y\" must be f32 [4] of 16 bytes, but f64 was given; its outputs are \"y\", "
       "\"total_out\" (state)"},
      {"OutputTwice",
       {X()},
       {{"y", kNone, DType::kF32, y, 16}, {"", 0, DType::kF32, y, 16}},
       Code::kInvalidArgument,
       "program \"add\": output \"y\" is given twice; its outputs are \"y\", \"total_out\" (state)"},
  };
}

TEST(InputErrors, EachMistakeIsOneSentenceAndNothingRuns) {
  TinyPlan tiny;
  FakeDriver driver;
  Result<Plan> plan = Plan::FromData(tiny.data, tiny.weight_bytes());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Result<Runtime> runtime = Runtime::Create(&driver);
  Result<Session> session = Session::Create(*runtime, *plan);
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (const Case& c : Cases()) {
    Status status = session->Run(TinyPlan::kAdd, {c.inputs.data(), c.inputs.size()},
                                 {c.outputs.data(), c.outputs.size()});
    EXPECT_EQ(status.code(), c.code) << c.what;
    EXPECT_STREQ(status.message(), c.message) << c.what;
  }
  EXPECT_EQ(driver.controls.calls["LaunchGraph"], 0);
  EXPECT_EQ(driver.controls.calls["CopyIn"], 0);
  EXPECT_TRUE(session->status().ok());
}

// On drivers that use host memory, a run or ReadState could be asked to write into the session's own memory.
TEST(InputErrors, AnOutputInTheSessionsOwnMemoryIsRefused) {
  TinyPlan tiny;
  FakeDriver driver;
  Result<Plan> plan = Plan::FromData(tiny.data, tiny.weight_bytes());
  Result<Runtime> runtime = Runtime::Create(&driver);
  Result<Session> session = Session::Create(*runtime, *plan);
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto* state = static_cast<char*>(session->StateAddress("total").Take());
  auto* arena = reinterpret_cast<char*>(session->arena(0).address);
  for (auto [data, message] :
       {std::pair(state, "program \"add\": output \"y\" overlaps the session's \"state\" in memory"),
        std::pair(state + 8, "program \"add\": output \"y\" overlaps the session's \"state\" in memory"),
        std::pair(arena + 64, "program \"add\": output \"y\" overlaps the session's \"arena\" in memory")}) {
    const Output outputs[] = {{"y", kNone, DType::kF32, data, 16}};
    const Input inputs[] = {X()};
    Status status = session->Run(TinyPlan::kAdd, inputs, outputs);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_STREQ(status.message(), message);
  }
  EXPECT_STREQ(session->ReadState("total", state + 8, 16).message(),
               "state \"total\" cannot be read into the session's own memory");
  EXPECT_EQ(driver.controls.calls["LaunchGraph"], 0);
  EXPECT_TRUE(session->status().ok());
}

TEST(InputErrors, AnUnknownProgramIsNamedWithThoseThereAre) {
  TinyPlan tiny;
  Result<Plan> plan = Plan::FromData(tiny.data, tiny.weight_bytes());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(*plan->FindProgram("peek"), TinyPlan::kPeek);
  EXPECT_STREQ(plan->FindProgram("decode").status().message(),
               "the plan has no program \"decode\"; its programs are \"add\", \"pick\", \"peek\"");
}

TEST(InputErrors, APlanThatIsNotThereIsNamed) {
  Status status = Plan::Open("no/such/plan.rondo").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(std::string(status.message()).find("no/such/plan.rondo"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace rondo
