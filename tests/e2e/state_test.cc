// pycoder's caches are updated in place: a decode step writes the rows of its position and nothing else.
#include <sys/mman.h>

#include <cstring>

#include "tests/e2e/harness.h"

namespace rondo {
namespace {

constexpr int64_t kLayers = 6, kHeads = 2, kPositions = 256, kRowBytes = 32 * 4;
constexpr int64_t kPage = 4096;

std::vector<ModelSource> Pycoder() {
  return {{"prefill", DataPath("pycoder/prefill64.onnx")}, {"decode", DataPath("pycoder/decode.onnx")}};
}

int64_t RowOffset(int64_t layer, int64_t head, int64_t position) {
  return ((layer * kHeads + head) * kPositions + position) * kRowBytes;
}

Status Decode(LiveModel* model, LiveModel::Buffers* buffers, int64_t token, int64_t position) {
  std::memcpy(buffers->input_bytes[0].data(), &token, sizeof(token));
  std::memcpy(buffers->input_bytes[1].data(), &position, sizeof(position));
  return model->session().Run(model->Program("decode"), buffers->inputs, buffers->outputs);
}

TEST(StateInPlace, DecodeRunsWithEveryOtherPageOfTheCachesWriteProtected) {
  LiveModel model(Pycoder());
  ASSERT_TRUE(model.session().valid());
  LiveModel::Buffers buffers = model.MakeBuffers(model.Program("decode"));
  const int64_t bytes = kLayers * kHeads * kPositions * kRowBytes;
  for (int64_t position : {0, 31, 32, 100, 255}) {
    std::vector<char*> caches;
    for (const char* name : {"k_cache", "v_cache"}) {
      Result<void*> address = model.session().StateAddress(name);
      ASSERT_TRUE(address.ok()) << address.status().message();
      char* cache = static_cast<char*>(*address);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(cache) % kPage, 0u);
      std::vector<char> writable(static_cast<size_t>(bytes / kPage), 0);
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        for (int64_t head = 0; head < kHeads; ++head) writable[RowOffset(layer, head, position) / kPage] = 1;
      }
      for (size_t page = 0; page < writable.size(); ++page) {
        if (writable[page]) continue;
        ASSERT_EQ(mprotect(cache + page * kPage, kPage, PROT_READ), 0);
      }
      caches.push_back(cache);
    }
    Status status = Decode(&model, &buffers, 'a', position);
    for (char* cache : caches) ASSERT_EQ(mprotect(cache, bytes, PROT_READ | PROT_WRITE), 0);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(StateInPlace, DecodeChangesTheRowsOfItsPositionOnly) {
  LiveModel model(Pycoder());
  ASSERT_TRUE(model.session().valid());
  LiveModel::Buffers buffers = model.MakeBuffers(model.Program("decode"));
  const size_t bytes = static_cast<size_t>(kLayers * kHeads * kPositions * kRowBytes);
  const int64_t position = 77;
  for (const char* name : {"k_cache", "v_cache"}) {
    std::vector<uint8_t> before(bytes, 0x3c), after(bytes);
    ASSERT_TRUE(model.session().WriteState(name, before.data(), bytes).ok());
    ASSERT_TRUE(Decode(&model, &buffers, 'x', position).ok());
    ASSERT_TRUE(model.session().ReadState(name, after.data(), bytes).ok());
    int64_t rows_changed = 0;
    for (int64_t row = 0; row < kLayers * kHeads * kPositions; ++row) {
      bool changed = std::memcmp(&before[row * kRowBytes], &after[row * kRowBytes], kRowBytes) != 0;
      if (!changed) continue;
      EXPECT_EQ(row % kPositions, position);
      ++rows_changed;
    }
    EXPECT_EQ(rows_changed, kLayers * kHeads) << name;
  }
}

TEST(StateInPlace, NoTemporaryOfDecodeIsAsLargeAsOneLayersCache) {
  LiveModel model(Pycoder());
  uint32_t decode = model.Program("decode");
  const uint64_t layer = static_cast<uint64_t>(kHeads * kPositions * kRowBytes);
  for (const Buffer& buffer : model.data().buffers) {
    if (buffer.program != decode) continue;
    EXPECT_LT(buffer.bytes, layer) << buffer.name;
  }
  EXPECT_LT(model.data().programs[decode].arena_bytes, layer);
}

TEST(StateInPlace, ProgramsShareStateAndWeights) {
  LiveModel model(Pycoder());
  uint32_t states = 0;
  for (const Buffer& buffer : model.data().buffers) states += buffer.kind == BufferKind::kState;
  EXPECT_EQ(states, 2u);
  // The size of one program's weights: nothing is stored twice.
  EXPECT_LT(model.data().weights_bytes, 11'000'000u);
}

TEST(StateInPlace, APositionOutsideTheCacheIsAnErrorAndLeavesTheSessionUsable) {
  LiveModel model(Pycoder());
  LiveModel::Buffers buffers = model.MakeBuffers(model.Program("decode"));
  Status status = Decode(&model, &buffers, 'a', kPositions);
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  EXPECT_NE(std::string(status.message()).find("256"), std::string::npos) << status.message();
  status = Decode(&model, &buffers, 300, 0);
  EXPECT_EQ(status.code(), Code::kOutOfRange) << status.message();
  EXPECT_TRUE(Decode(&model, &buffers, 'a', 0).ok());
}

}  // namespace
}  // namespace rondo
