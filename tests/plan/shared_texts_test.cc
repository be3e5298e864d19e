// Texts shared by many tables of a plan's flatbuffer: verified in time proportional to the file, or refused.
#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>
#include <time.h>

#include <string>
#include <vector>

#include "core/arena.h"
#include "formats/plan/decode.h"
#include "formats/plan/encode.h"
#include "formats/plan/plan_generated.h"

namespace rondo {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;

// A plan of one custom op: `attributes` references to one attribute of `texts` references to one text.
std::vector<uint8_t> SharedTexts(size_t attributes, size_t texts) {
  Builder builder;
  const auto text = builder.CreateString("x");
  const auto list = builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(texts, text));
  fbs::CustomAttributeBuilder attribute(builder);
  attribute.add_texts(list);
  const auto one = attribute.Finish();
  const auto all =
      builder.CreateVector(std::vector<flatbuffers::Offset<fbs::CustomAttribute>>(attributes, one));
  fbs::CustomOpBuilder op(builder);
  op.add_attributes(all);
  const auto ops = builder.CreateVector(std::vector<flatbuffers::Offset<fbs::CustomOp>>{op.Finish()});
  fbs::PlanBuilder plan(builder);
  plan.add_custom_ops(ops);
  fbs::FinishPlanBuffer(builder, plan.Finish());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

double Seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Without a limit these would be 6e9 texts to verify, a minute for a megabyte.
TEST(SharedTexts, ManyTablesOfManyAreRefusedAtOnce) {
  const std::vector<uint8_t> bytes = SharedTexts(80000, 80000);
  const double start = Seconds();
  Arena arena;
  PlanData plan;
  const Status status = DecodePlan({bytes.data(), bytes.size()}, {}, arena, &plan);
  EXPECT_LT(Seconds() - start, 1.0) << bytes.size() << " bytes";
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.message();
}

TEST(SharedTexts, AsManyAsTheFileHasReferencesPass) {
  Arena arena;
  PlanData plan;
  const std::vector<uint8_t> shared = SharedTexts(1, 10000);
  Status status = DecodePlan({shared.data(), shared.size()}, {}, arena, &plan);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(plan.custom_ops[0].attributes[0].texts.size(), 10000u);

  PlanData many;
  std::vector<std::string> names;
  for (int i = 0; i < 20000; ++i) names.push_back(std::to_string(i));
  const std::vector<std::string_view> sources(names.begin(), names.end());
  many.sources = {sources.data(), sources.size()};
  std::vector<uint8_t> bytes;
  ASSERT_TRUE(EncodePlan(many, &bytes).ok());
  status = DecodePlan({bytes.data(), bytes.size()}, {}, arena, &plan);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(plan.sources.size(), 20000u);
}

}  // namespace
}  // namespace rondo
