// The foundations of fuzzing, and the inputs that it has found.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/onnx/reader.h"
#include "formats/plan/format.h"
#include "tests/folders.h"
#include "tests/fuzz/plan_bytes.h"
#include "tests/fuzz/plan_seeds.h"
#include "tests/fuzz/target.h"

namespace rondo::fuzz {
namespace {

namespace fs = std::filesystem;

Span<const uint8_t> Of(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

class Targets : public testing::TestWithParam<std::string> {};

TEST_P(Targets, SeedsGetThrough) {
  const auto target = MakeTarget(GetParam());
  for (const Seed& seed : target->MakeSeeds()) {
    EXPECT_EQ(target->Run(Of(seed.bytes)), target->stages().size() - 1) << seed.name;
  }
}

TEST_P(Targets, CommittedSeedsGetThrough) {
  const auto target = MakeTarget(GetParam());
  int files = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SourceFolder()) / "tests/fuzz/seeds" / GetParam())) {
    std::ifstream file(entry.path(), std::ios::binary);
    const Bytes bytes(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(target->Run(Of(bytes)), target->stages().size() - 1)
        << entry.path() << ": make them anew with fuzz_run all --write-seeds tests/fuzz/seeds";
    ++files;
  }
  EXPECT_GT(files, 3);
}

// Inputs that once caused a failure: a sanitizer's report, a crash, or too much time or memory.
TEST_P(Targets, WhatWasFoundOnceIsHandled) {
  const auto target = MakeTarget(GetParam());
  const fs::path folder = fs::path(SourceFolder()) / "tests/fuzz/found" / GetParam();
  if (!fs::exists(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const Bytes bytes(std::istreambuf_iterator<char>(file), {});
    EXPECT_LT(target->Run(Of(bytes)), target->stages().size());
  }
}

TEST_P(Targets, MutationsDependOnTheSeedAlone) {
  const auto target = MakeTarget(GetParam());
  const Seed seed = target->MakeSeeds()[0];
  for (uint64_t i = 0; i < 100; ++i) {
    Random a(i), b(i);
    EXPECT_EQ(target->Mutate(Of(seed.bytes), a), target->Mutate(Of(seed.bytes), b));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Targets, testing::ValuesIn(TargetNames()),
                         [](const auto& info) { return info.param; });

TEST(Truncation, OfATinyModelAnywhereCrashesNothing) {
  const auto target = MakeTarget("onnx");
  for (const Seed& seed : target->MakeSeeds()) {
    for (size_t size = 0; size < seed.bytes.size(); ++size) {
      const Bytes cut(seed.bytes.begin(), seed.bytes.begin() + static_cast<std::ptrdiff_t>(size));
      target->Run(Of(cut));
    }
  }
}

TEST(Truncation, OfATinyPlanAnywhereIsRefused) {
  const auto target = MakeTarget("plan");
  const Bytes plan = target->MakeSeeds()[0].bytes;
  for (size_t size = 0; size < plan.size(); ++size) {
    Bytes cut(plan.begin(), plan.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_EQ(target->Run(Of(cut)), 0u) << "cut at " << size;
    if (size < sizeof(FileHeader)) continue;
    const uint64_t stated = size;  // as if the vector had never been longer
    std::memcpy(&cut[offsetof(FileHeader, file_bytes)], &stated, sizeof(stated));
    Reseal(&cut);
    ASSERT_LT(target->Run(Of(cut)), target->stages().size() - 1) << "cut and sealed at " << size;
  }
}

TEST(Limits, APlanOfWeeksIsArmedAndEndsInTime) {
  const auto target = MakeTarget("plan");
  EXPECT_STREQ(target->stages()[target->Run(Of(EndlessPlanBytes()))], "ended by the run's time limit");
}

TEST(PlanBytes, SealedDamageGetsPastTheIntegrityCheck) {
  const auto target = MakeTarget("plan");
  PlanParts parts;
  ASSERT_TRUE(TakeApart(Of(target->MakeSeeds()[0].bytes), &parts));
  const Bytes sealed = Seal(parts);
  EXPECT_EQ(target->Run(Of(sealed)), target->stages().size() - 1);
  parts.flatbuffer[4] ^= 1;
  EXPECT_STREQ(target->stages()[target->Run(Of(Seal(parts)))], "refused by the flatbuffer");
  Bytes unsealed = sealed;
  unsealed[sizeof(FileHeader) + 2 * sizeof(SectionEntry) + 100] ^= 1;
  EXPECT_STREQ(target->stages()[target->Run(Of(unsealed))], "refused by the container");
}

}  // namespace
}  // namespace rondo::fuzz
