// Libraries of ops that are registered, found and refused, with the sentence for each refusal.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/custom_op.h"
#include "tests/plan/call_plan.h"
#include "tests/says.h"

namespace rondo {
namespace {

int32_t InferFirst(void*, const rondo_op_node* node, rondo_op_type* outputs, char*, size_t) {
  for (size_t i = 0; i < node->num_outputs; ++i) outputs[i] = node->inputs[0];
  return 0;
}
int32_t RunNothing(void*, const rondo_op_call*, char*, size_t) { return RONDO_OP_OK; }

rondo_op GoodOp() {
  rondo_op op = {};
  op.size = sizeof(op);
  op.domain = "d";
  op.name = "Op";
  op.since_version = 1;
  op.min_inputs = 1;
  op.max_inputs = 2;
  op.min_outputs = op.max_outputs = 2;
  op.infer = InferFirst;
  op.run = RunNothing;
  return op;
}

// Registers one op, changed by `change`.
rondo_op g_op;
Status RegisterOne(OpRegistry* registry, void (*change)(rondo_op& op)) {
  g_op = GoodOp();
  change(g_op);
  return registry->Register("lib.so", [](const rondo_op_registrar* r) { return r->add(r->context, &g_op); });
}

std::string In(const char* name) { return std::string(RONDO_OPS_FOLDER) + "/" + name; }

TEST(Registry, FindsTheLatestVersionThatIsNoLaterThanTheModels) {
  OpRegistry registry;
  EXPECT_TRUE(registry.empty());
  ASSERT_TRUE(RegisterOne(&registry, [](rondo_op& op) { op.since_version = 2; }).ok());
  ASSERT_TRUE(RegisterOne(&registry, [](rondo_op& op) { op.since_version = 5; }).ok());
  ASSERT_TRUE(RegisterOne(&registry, [](rondo_op& op) { op.domain = "e"; }).ok());
  EXPECT_EQ(registry.Find("d", "Op", 1), nullptr);
  EXPECT_EQ(registry.Find("d", "Op", 4)->op.since_version, 2u);
  EXPECT_EQ(registry.Find("d", "Op", 9)->op.since_version, 5u);
  EXPECT_EQ(registry.Find("d", "Other", 9), nullptr);
  EXPECT_EQ(registry.FindExact("d", "Op", 4), nullptr);
  EXPECT_EQ(registry.FindExact("d", "Op", 5)->library, "lib.so");
  EXPECT_EQ(registry.Find("e", "Op", 1)->op.since_version, 1u);
}

TEST(Registry, KeepsCopiesOfDescriptions) {
  OpRegistry registry;
  ASSERT_TRUE(registry
                  .Register("lib.so",
                            [](const rondo_op_registrar* r) {
                              uint32_t flags[] = {RONDO_OP_MUTATED, 0};
                              int32_t aliases[] = {-1, 0};
                              char name[] = "Short";
                              rondo_op op = GoodOp();
                              op.name = name;
                              op.input_flags = flags;
                              op.output_aliases = aliases;
                              const int32_t result = r->add(r->context, &op);
                              name[0] = '?';
                              flags[0] = 99;
                              aliases[1] = 99;
                              return result;
                            })
                  .ok());
  const OpInfo* info = registry.Find("d", "Short", 1);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->op.input_flags[0], RONDO_OP_MUTATED);
  EXPECT_EQ(info->op.output_aliases[1], 0);
}

struct BadOp {
  const char* rule;
  void (*change)(rondo_op& op);
  const char* says;
};
std::ostream& operator<<(std::ostream& out, const BadOp& bad) { return out << bad.rule; }

const uint32_t kMutates[] = {RONDO_OP_MUTATED, 0};
const uint32_t kUnknownFlag[] = {8, 0};
const int32_t kBothFirst[] = {0, 0};
const int32_t kOutOfRange[] = {-1, 2};
const int32_t kNegative[] = {-1, -2};
const int32_t kOptional[] = {-1, 1};

class BadOps : public testing::TestWithParam<BadOp> {};
TEST_P(BadOps, AreRefusedWithASentence) {
  OpRegistry registry;
  EXPECT_SAYS(RegisterOne(&registry, GetParam().change), GetParam().says);
  EXPECT_TRUE(registry.empty());
}
const BadOp kBadOps[] = {
    {"SizeNotSet", [](rondo_op& op) { op.size = 0; }, "set it to sizeof(rondo_op)"},
    {"NoName", [](rondo_op& op) { op.name = nullptr; }, "no name"},
    {"NoDomain", [](rondo_op& op) { op.domain = ""; }, "no domain"},
    {"VersionZero", [](rondo_op& op) { op.since_version = 0; }, "since_version is 0"},
    {"UnknownFlags", [](rondo_op& op) { op.flags = 64; }, "flags 0x40"},
    {"NoGraphWithoutReason", [](rondo_op& op) { op.flags = RONDO_OP_NO_GRAPH; }, "does not say why"},
    {"ReasonWithoutFlag", [](rondo_op& op) { op.no_graph_reason = "so"; }, "without RONDO_OP_NO_GRAPH"},
    {"NoInfer", [](rondo_op& op) { op.infer = nullptr; }, "no infer function"},
    {"NoRun", [](rondo_op& op) { op.run = nullptr; }, "no run function"},
    {"NoOutputs", [](rondo_op& op) { op.min_outputs = 0; }, "at least 1 output"},
    {"InputRange", [](rondo_op& op) { op.min_inputs = 3; }, "3 to 2 inputs"},
    {"TooManyInputs", [](rondo_op& op) { op.max_inputs = 65; }, "65 inputs"},
    {"UnknownInputFlags", [](rondo_op& op) { op.input_flags = kUnknownFlag; }, "input 0 has flags 0x8"},
    {"MutatedWithoutNewVersion", [](rondo_op& op) { op.input_flags = kMutates; },
     "its new version needs a name"},
    {"TwoAliases", [](rondo_op& op) { op.output_aliases = kBothFirst; }, "aliased by two outputs"},
    {"AliasRange", [](rondo_op& op) { op.output_aliases = kOutOfRange; }, "aliases input 2 of 2"},
    {"AliasNegative", [](rondo_op& op) { op.output_aliases = kNegative; }, "aliases input -2"},
    {"AliasOfAnOptionalInput", [](rondo_op& op) { op.output_aliases = kOptional; }, "may leave out"},
};
INSTANTIATE_TEST_SUITE_P(Rules, BadOps, testing::ValuesIn(kBadOps),
                         [](const auto& info) { return info.param.rule; });

TEST(Registry, RefusesANameThatIsTaken) {
  OpRegistry registry;
  ASSERT_TRUE(registry.Register("first.so", RegisterTestOps).ok());
  EXPECT_SAYS(registry.Register("second.so", RegisterTestOps),
              "ops of second.so: op \"test.Scale\": version 1 of it");
  EXPECT_SAYS(registry.Register("second.so", RegisterTestOps), "by first.so");
  // Two ops with one name in a library: neither stays registered.
  EXPECT_SAYS(registry.Register("twice.so",
                                [](const rondo_op_registrar* r) {
                                  rondo_op op = GoodOp();
                                  r->add(r->context, &op);
                                  return r->add(r->context, &op);
                                }),
              "by twice.so");
  EXPECT_EQ(registry.Find("d", "Op", 1), nullptr);
}

TEST(Registry, RefusesLibrariesThatAreNone) {
  OpRegistry registry;
  Status missing = registry.Load("no/such/libops.so");
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_SAYS(missing, "no/such/libops.so");
  EXPECT_EQ(registry.Load("libops_nowhere.so").code(), Code::kNotFound);  // it is not searched for elsewhere
  EXPECT_SAYS(registry.Load(In("libops_no_ops.so").c_str()), "does not export rondo_op_abi");
  EXPECT_SAYS(registry.Load(In("libops_other_major.so").c_str()),
              "was built for version 2.3 of rondo_op.h, and this release of Rondo takes version 1.x");
  EXPECT_SAYS(registry.Load(In("libops_newer_field.so").c_str()), "that this release of Rondo lacks");
  EXPECT_SAYS(registry.Load(In("libops_refuses.so").c_str()), "returned 17");
  EXPECT_SAYS(registry.Register("none", [](const rondo_op_registrar*) { return 0; }), "registers none");
  EXPECT_TRUE(registry.empty());
}

TEST(Registry, TakesOpsOfANewerReleaseThatSayNoMoreThanThisOneKnows) {
  static struct {
    rondo_op op;
    uint64_t more;
  } newer;
  for (const bool said : {false, true}) {
    newer.op = GoodOp();
    newer.op.size = sizeof(newer);
    newer.more = said ? ~uint64_t{0} : 0;
    OpRegistry registry;
    const Status status = registry.Register(
        "lib.so", [](const rondo_op_registrar* r) { return r->add(r->context, &newer.op); });
    EXPECT_EQ(status.ok(), !said) << status.message();
  }
}

// --- calls

std::vector<CustomArgument> Vectors(size_t count) {
  CustomArgument a;
  a.shape = Shape{3};
  return std::vector<CustomArgument>(count, a);
}

int32_t InferWrong(void* user, const rondo_op_node*, rondo_op_type* outputs, char* error, size_t size) {
  switch (reinterpret_cast<uintptr_t>(user)) {
    case 0: std::snprintf(error, size, "the weather is bad"); return 1;
    case 1: return 1;
    case 2: outputs[0].dtype = 99; return 0;
    case 3: outputs[0] = {RONDO_OP_F32, 9, {}}; return 0;
    case 4: outputs[0] = {RONDO_OP_F32, 1, {-5}}; return 0;
    case 5: outputs[0] = {RONDO_OP_F32, 2, {int64_t{1} << 40, int64_t{1} << 40}}; return 0;
    case 6: return 0;  // sets nothing
    case 7:
      error[0] = '?';
      error[1] = 0;
      return 1;
    default:
      for (size_t i = 0; i < size; ++i) error[i] = 'x';
      return 1;  // the text is not terminated by a zero
  }
}

TEST(Calls, InferErrorsAreSentencesWithTheNode) {
  const char* const says[] = {"Op \"n\": custom op \"d.Op\" of lib.so: the weather is bad",
                              "its infer function failed",
                              "gives output 0 dtype 99",
                              "gives output 0 rank 9",
                              "extent -5 for axis 0",
                              "extent 1099511627776",
                              "gives output 0 dtype -1",
                              "lib.so: ?",
                              "xxxxxxxx"};
  for (uintptr_t i = 0; i < std::size(says); ++i) {
    OpRegistry registry;
    static uintptr_t which;
    which = i;
    ASSERT_TRUE(RegisterOne(&registry, [](rondo_op& op) {
                  op.infer = InferWrong;
                  op.user = reinterpret_cast<void*>(which);
                }).ok());
    Arena arena;
    const auto inputs = Vectors(1);
    Result<CustomOp> call = DescribeCall(*registry.Find("d", "Op", 1), inputs, 2, {}, "Op \"n\"", arena);
    ASSERT_FALSE(call.ok());
    EXPECT_NE(std::string(call.status().message()).find(says[i]), std::string::npos)
        << call.status().message();
    EXPECT_STREQ(call.status().source_node(), "Op \"n\"");
  }
}

TEST(Calls, OutputsMayBeEmpty) {
  OpRegistry registry;
  ASSERT_TRUE(RegisterOne(&registry, [](rondo_op&) {}).ok());
  auto inputs = Vectors(1);
  inputs[0].shape = Shape{3, 0};
  Arena arena;
  const Result<CustomOp> call = DescribeCall(*registry.Find("d", "Op", 1), inputs, 2, {}, "n", arena);
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->arguments[1].shape, (Shape{3, 0}));
}

TEST(Calls, NodesThatDoNotFitAreRefused) {
  OpRegistry registry;
  static const int32_t kSecond[] = {-1, 0};
  ASSERT_TRUE(RegisterOne(&registry, [](rondo_op& op) {
                op.min_inputs = 1;
                op.min_outputs = 1;
                op.input_flags = kMutates;
                op.output_aliases = kSecond;
              }).ok());
  const OpInfo& info = *registry.Find("d", "Op", 1);
  Arena arena;
  const auto describe = [&](const std::vector<CustomArgument>& inputs, uint32_t outputs) {
    return DescribeCall(info, inputs, outputs, {}, "", arena).status();
  };
  EXPECT_TRUE(describe(Vectors(2), 2).ok());
  EXPECT_SAYS(describe(Vectors(0), 2), "has 0 inputs; the op takes 1 to 2");
  EXPECT_SAYS(describe(Vectors(3), 2), "has 3 inputs");
  EXPECT_SAYS(describe(Vectors(1), 3), "has 3 outputs; the op has 1 to 2");
  EXPECT_SAYS(describe(Vectors(1), 1), "does not name the output that is its new version");
  auto absent = Vectors(2);
  absent[0].absent = true;
  EXPECT_SAYS(describe(absent, 2), "leaves out input 0");
  absent[0].absent = false;
  absent[1].absent = true;
  EXPECT_TRUE(describe(absent, 2).ok());
}

TEST(Calls, ADescriptionSaysAllOfIt) {
  OpRegistry registry;
  ASSERT_TRUE(registry.Register("/folder/libtest.so", RegisterTestOps).ok());
  const Sample s = MakeCallSample();
  Arena arena;
  const CustomOp& given = s.data.custom_ops[1];
  Result<CustomOp> call =
      DescribeCall(*registry.Find("test", "Accumulate", 7), given.arguments.subspan(0, 2), 1, {}, "n", arena);
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->version, 1u);
  EXPECT_TRUE(call->graph_safe);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(call->arguments[i].mode, given.arguments[i].mode) << i;
    EXPECT_EQ(call->arguments[i].alias, given.arguments[i].alias) << i;
  }
  Result<CustomOp> tap =
      DescribeCall(*registry.Find("test", "Tap", 1), given.arguments.subspan(0, 1), 1, {}, "n", arena);
  ASSERT_TRUE(tap.ok());
  EXPECT_FALSE(tap->graph_safe);
  EXPECT_EQ(tap->reason, "it counts its calls");
  EXPECT_EQ(tap->arguments[1].mode, Mode::kRead);
}

}  // namespace
}  // namespace rondo
