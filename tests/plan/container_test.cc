#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/plan/decode.h"
#include "formats/plan/encode.h"
#include "formats/plan/format.h"
#include "formats/plan/plan_generated.h"
#include "formats/plan/reader.h"
#include "formats/plan/verifier.h"
#include "formats/plan/writer.h"
#include "tests/plan/sample_plan.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

FillWeight Filler(const Sample& s) {
  return [&s](uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out) {
    return FillSample(s.data, buffer, first, bytes, out);
  };
}

std::vector<uint8_t> Written(const Sample& s) {
  std::vector<uint8_t> bytes;
  Status status = WritePlanBytes(s.data, Filler(s), &bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

// The flatbuffers section holds every field, so equal encodings mean equal plans.
std::vector<uint8_t> Encoded(const PlanData& plan) {
  std::vector<uint8_t> bytes;
  EXPECT_TRUE(EncodePlan(plan, &bytes).ok());
  return bytes;
}

Result<PlanFile> Read(const std::vector<uint8_t>& bytes, Arena& arena, bool ignore_hashes = false) {
  ReadOptions options;
  options.ignore_hashes = ignore_hashes;
  return ReadPlan({bytes.data(), bytes.size()}, options, arena);
}

std::ptrdiff_t FilesIn(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

void FlipByte(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(at);
  file.put(byte);
}

TEST(Container, RoundTripKeepsEverything) {
  const Sample s = MakeSample();
  const std::vector<uint8_t> bytes = Written(s);
  Arena arena;
  Result<PlanFile> plan = Read(bytes, arena);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(Encoded(plan->data), Encoded(s.data));
  const PlanData& d = plan->data;
  EXPECT_EQ(d.producer, "rondo test");
  ASSERT_EQ(d.kernels.size(), s.data.kernels.size());
  EXPECT_EQ(d.kernels[2].label, "softmax");
  EXPECT_EQ(d.kernels[1].parts[0].operands[1].indirects[0].stride, 16);
  EXPECT_TRUE(d.kernels[1].parts[0].operands[1].indirects[0].wrap);
  EXPECT_EQ(d.kernels[5].parts[0].operands[0].guards[0].offset, -1);
  EXPECT_EQ(d.kernels[5].parts[0].operands[0].absent, -1);
  EXPECT_EQ(d.kernels[0].parts[0].prologue[1].imm.f, 2);
  EXPECT_EQ(d.kernels[6].parts[0].softcap, 30);
  EXPECT_TRUE(d.kernels[0].parts[0].tf32);
  EXPECT_TRUE(d.kernels[6].parts[0].nan_to_zero);
  EXPECT_EQ(d.buffers[kTable].synthetic_key, s.data.buffers[kTable].synthetic_key);
  EXPECT_EQ(d.buffers[kTable].synthetic_run, s.data.buffers[kTable].synthetic_run);
  EXPECT_EQ(d.buffers[kTable].synthetic_step, s.data.buffers[kTable].synthetic_step);
  EXPECT_EQ(d.buffers[kCat].shape, s.data.buffers[kCat].shape);
  EXPECT_EQ(d.programs[0].steps[5].after[0], 4u);
  EXPECT_EQ(d.programs[0].partitions[0].detail, s.data.programs[0].partitions[0].detail);
  EXPECT_EQ(d.programs[1].certificates[1], s.data.programs[1].certificates[1]);
  Result<Span<const uint8_t>> weights = plan->weights.Map();
  ASSERT_TRUE(weights.ok());
  ASSERT_EQ(weights->size(), 512u);
  for (size_t i = 0; i < 512; ++i) ASSERT_EQ((*weights)[i], static_cast<uint8_t>(7 * i + 1));
}

// An older reader ignores new fields. So data that it must not ignore get a source that it does not know.
TEST(Container, SyntheticRunsAreAnUnknownSourceToOlderReaders) {
  Sample s = MakeSample();
  ASSERT_NE(s.data.buffers[kTable].synthetic_run, 0u);
  const auto source = [&] {
    const std::vector<uint8_t> bytes = Encoded(s.data);
    return fbs::GetPlan(bytes.data())->buffers()->Get(kTable)->weight();
  };
  EXPECT_EQ(source(), kSyntheticRuns);
  BufferOf(s, kTable).synthetic_run = 0;
  EXPECT_EQ(source(), static_cast<uint8_t>(WeightSource::kSynthetic));
}

TEST(Container, SamePlanGivesSameBytes) { EXPECT_EQ(Written(MakeSample()), Written(MakeSample())); }

TEST(Container, WeightsBeginOnAPage) {
  const std::vector<uint8_t> bytes = Written(MakeSample());
  ASSERT_EQ((bytes.size() - 512) % kPlanPage, 0u);
  EXPECT_EQ(bytes[bytes.size() - 512], 1);
}

TEST(Container, TruncationAnywhereIsAnError) {
  const std::vector<uint8_t> bytes = Written(MakeSample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    for (bool ignore : {false, true}) {
      Arena arena;
      ASSERT_FALSE(Read(cut, arena, ignore).ok()) << "cut at " << size;
    }
  }
}

// The header's size is adjusted, so that the sections themselves are cut.
TEST(Container, TruncatedSectionsAreAnError) {
  const std::vector<uint8_t> bytes = Written(MakeSample());
  for (size_t size = sizeof(FileHeader); size < bytes.size(); size += 3) {
    std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const uint64_t stated = size;
    std::memcpy(&cut[offsetof(FileHeader, file_bytes)], &stated, sizeof(stated));
    Arena arena;
    ASSERT_FALSE(Read(cut, arena, true).ok()) << "cut at " << size;
  }
}

TEST(Container, EveryFlippedByteIsNoticed) {
  const std::vector<uint8_t> good = Written(MakeSample());
  SectionEntry flatbuffer;
  std::memcpy(&flatbuffer, &good[sizeof(FileHeader)], sizeof(flatbuffer));
  for (size_t i = 0; i < good.size(); ++i) {
    if (i >= flatbuffer.offset + flatbuffer.bytes && i < good.size() - 512) continue;  // padding
    std::vector<uint8_t> bad = good;
    bad[i] ^= 0x10;
    Arena arena;
    ASSERT_FALSE(Read(bad, arena).ok()) << "byte " << i;
  }
}

// After the integrity check nothing may crash, whatever the flatbuffer holds, and memory stays bounded.
TEST(Container, DamagedFlatbuffersNeverCrash) {
  const std::vector<uint8_t> good = Written(MakeSample());
  SectionEntry flatbuffer;
  std::memcpy(&flatbuffer, &good[sizeof(FileHeader)], sizeof(flatbuffer));
  for (size_t i = flatbuffer.offset; i < flatbuffer.offset + flatbuffer.bytes; ++i) {
    for (uint8_t value : {0x00, 0x01, 0x7f, 0xff}) {
      std::vector<uint8_t> bad = good;
      bad[i] = value;
      Arena arena;
      Result<PlanFile> plan = Read(bad, arena, true);
      EXPECT_LT(arena.bytes(), 17 * flatbuffer.bytes + (128 << 10));
      if (plan.ok()) (void)VerifyPlan(plan->data).ok();
    }
  }
}

TEST(Container, OtherMajorVersionsAreRefusedWithTheFix) {
  std::vector<uint8_t> bytes = Written(MakeSample());
  bytes[offsetof(FileHeader, major)] = 9;
  for (bool ignore : {false, true}) {
    Arena arena;
    Result<PlanFile> plan = Read(bytes, arena, ignore);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), Code::kUnsupported);
    const std::string message = plan.status().message();
    EXPECT_NE(message.find("9.0"), message.npos) << message;
    EXPECT_NE(message.find("2.x"), message.npos) << message;
    EXPECT_NE(message.find("rondo compile"), message.npos) << message;
  }
}

TEST(Container, NewerMinorVersionsLoad) {
  std::vector<uint8_t> bytes = Written(MakeSample());
  FileHeader header;
  SectionEntry sections[2];
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::memcpy(sections, &bytes[sizeof(header)], sizeof(sections));
  header.minor = 7;
  header.header_hash = HeaderHash(header, sections);
  std::memcpy(bytes.data(), &header, sizeof(header));
  Arena arena;
  EXPECT_TRUE(Read(bytes, arena).ok());
}

TEST(Container, SomethingElseIsNotAPlan) {
  Arena arena;
  const std::string text = "This is a text, and not a plan at all, however long it may be: 0123456789.";
  Result<PlanFile> plan = Read({text.begin(), text.end()}, arena);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(std::string(plan.status().message()).find("not a Rondo plan"), std::string::npos);
}

TEST(Container, RunningOutOfMemoryIsAnError) {
  const std::vector<uint8_t> bytes = Written(MakeSample());
  size_t failures = 0;
  for (size_t limit = 0; limit < 64 << 10; limit += 512) {
    Arena arena(DefaultHostAllocator(), limit);
    Result<PlanFile> plan = Read(bytes, arena);
    if (plan.ok()) continue;
    ++failures;
    EXPECT_EQ(plan.status().code(), Code::kOutOfMemory) << plan.status().message();
  }
  EXPECT_GT(failures, 10u);
}

TEST(PlanFiles, OpenWithWeightsInside) {
  TemporaryFolder folder;
  const Sample s = MakeSample();
  const std::string path = folder / "a.plan";
  ASSERT_TRUE(WritePlan(s.data, Filler(s), {path}).ok());
  EXPECT_EQ(FilesIn(folder), 1) << "nothing temporary is left behind";
  Arena arena;
  Result<PlanFile> plan = LoadPlanFile(path.c_str(), {}, arena);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ((*plan->weights.Map())[10], 71);
  EXPECT_EQ(plan->file_bytes, Written(s).size());
}

TEST(PlanFiles, OpenWithWeightsBeside) {
  TemporaryFolder folder;
  Sample s = MakeSample();
  s.data.weights_file = "shared.weights";
  const std::string path = folder / "a.plan", other = folder / "b.plan";
  ASSERT_TRUE(WritePlan(s.data, Filler(s), {path}).ok());
  ASSERT_TRUE(WritePlan(s.data, Filler(s), {other, false}).ok()) << "several plans share one";
  for (const std::string& each : {path, other}) {
    Arena arena;
    Result<PlanFile> plan = LoadPlanFile(each.c_str(), {}, arena);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ((*plan->weights.Map())[511], static_cast<uint8_t>(7 * 511 + 1));
  }
  std::filesystem::remove(folder / "shared.weights");
  Arena arena;
  Result<PlanFile> plan = OpenPlanFile(path.c_str(), {}, arena);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::kNotFound);
}

TEST(PlanFiles, AnotherPlansWeightsAreRefused) {
  TemporaryFolder folder;
  Sample s = MakeSample();
  s.data.weights_file = "shared.weights";
  const std::string path = folder / "a.plan";
  ASSERT_TRUE(WritePlan(s.data, Filler(s), {path}).ok());
  auto zeros = [](uint32_t, uint64_t, uint64_t bytes, uint8_t* out) {
    std::memset(out, 0, bytes);
    return Status::Ok();
  };
  ASSERT_TRUE(WritePlan(s.data, zeros, {folder / "b.plan"}).ok());  // replaces shared.weights
  ReadOptions options;
  options.hash_weights_up_to = 0;
  Arena arena;
  EXPECT_FALSE(OpenPlanFile(path.c_str(), options, arena).ok())
      << "noticed even where weights are not hashed";
  options.ignore_hashes = true;
  EXPECT_TRUE(OpenPlanFile(path.c_str(), options, arena).ok());
}

TEST(PlanFiles, WeightsFilesAreNamedWithoutAFolder) {
  for (const char* name : {"../w", "/w", "a/b", "..", "."}) {
    Sample s = MakeSample();
    s.data.weights_file = name;
    TemporaryFolder folder;
    EXPECT_FALSE(WritePlan(s.data, Filler(s), {folder / "a.plan"}).ok()) << name;
    EXPECT_EQ(FilesIn(folder), 0);
    EXPECT_FALSE(VerifyPlan(s.data).ok()) << name;
  }
}

TEST(PlanFiles, HashMismatchIsRefusedUnlessIgnored) {
  TemporaryFolder folder;
  const Sample s = MakeSample();
  const std::string path = folder / "a.plan";
  ASSERT_TRUE(WritePlan(s.data, Filler(s), {path}).ok());
  FlipByte(path, static_cast<std::streamoff>(Written(s).size() - 100));  // a weight
  Arena arena;
  Result<PlanFile> plan = OpenPlanFile(path.c_str(), {}, arena);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::kCorrupt);
  EXPECT_NE(std::string(plan.status().message()).find("hash"), std::string::npos);
  ReadOptions options;
  options.ignore_hashes = true;
  EXPECT_TRUE(LoadPlanFile(path.c_str(), options, arena).ok());
  options = {};
  options.hash_weights_up_to = 100;
  Result<PlanFile> unhashed = OpenPlanFile(path.c_str(), options, arena);
  ASSERT_TRUE(unhashed.ok());
  EXPECT_FALSE(unhashed->weights.CheckHash().ok());
}

TEST(PlanFiles, AFailedWriteLeavesTheOldFile) {
  TemporaryFolder folder;
  const Sample s = MakeSample();
  const std::string path = folder / "a.plan";
  ASSERT_TRUE(WritePlan(s.data, Filler(s), {path}).ok());
  auto fail = [](uint32_t, uint64_t, uint64_t, uint8_t*) {
    return Status::Error(Code::kIo, "no such bytes");
  };
  EXPECT_EQ(WritePlan(s.data, fail, {path}).code(), Code::kIo);
  EXPECT_EQ(FilesIn(folder), 1);
  Arena arena;
  EXPECT_TRUE(OpenPlanFile(path.c_str(), {}, arena).ok());
}

TEST(PlanFiles, AMissingFileIsNotFound) {
  Arena arena;
  EXPECT_EQ(OpenPlanFile("no/such/plan", {}, arena).status().code(), Code::kNotFound);
  EXPECT_FALSE(OpenPlanFile(".", {}, arena).ok());
}

TEST(Writer, LaysOutWeightsAlignedAndShared) {
  std::vector<Buffer> buffers(4);
  for (Buffer& b : buffers) b.kind = BufferKind::kConstant;
  buffers[0].bytes = 10;
  buffers[1].bytes = 5000;
  buffers[2].bytes = 10;
  buffers[3].bytes = 7;
  const std::vector<uint32_t> same = {kNone, kNone, 0, kNone};
  const uint64_t end = LayOutWeights(buffers, same);
  EXPECT_EQ(buffers[0].file_offset, 0u);
  EXPECT_EQ(buffers[1].file_offset, 4096u);
  EXPECT_EQ(buffers[2].file_offset, 0u);
  EXPECT_EQ(buffers[3].file_offset, 9152u);
  EXPECT_EQ(end, 9159u);
}

}  // namespace
}  // namespace rondo
