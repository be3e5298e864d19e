#include "tests/e2e/cache_rows.h"

#include <cstring>

#include "tests/temporary_folder.h"

namespace rondo {

CachedLlama::CachedLlama(const LlamaShape& shape, int64_t tokens, Driver* driver, const char* target)
    : shape_(shape) {
  const TemporaryFolder folder;
  CompileOptions options;
  options.synthetic_seed = 7;
  options.targets = *ParseTargets(target);
  for (const auto& [name, count] : {std::pair<const char*, int64_t>{"prefill", tokens}, {"decode", 1}}) {
    LlamaShape of = shape;
    of.tokens = count;
    const std::string path = folder.File(std::string(name) + ".onnx");
    LlamaModel(of).Write(path);
    options.models.push_back({name, path});
  }
  model_ = driver == nullptr ? std::make_unique<LiveModel>(options, HostOptions())
                             : std::make_unique<LiveModel>(options, *driver);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    caches_.push_back("k_cache." + std::to_string(layer));
    caches_.push_back("v_cache." + std::to_string(layer));
  }
}

Status CachedLlama::Execute(const Run& run) {
  const uint32_t program = model_->Program(run.program);
  LiveModel::Buffers buffers = model_->MakeBuffers(program);
  for (size_t i = 0; i < buffers.inputs.size(); ++i) {
    // Ports of state have no memory here, and come after the others.
    auto* values = reinterpret_cast<int64_t*>(buffers.input_bytes[i].data());
    const auto count = static_cast<int64_t>(buffers.inputs[i].bytes / sizeof(int64_t));
    const bool tokens = buffers.inputs[i].name == "tokens";
    for (int64_t t = 0; t < count; ++t)
      values[t] = tokens ? (t * 37 + run.first * 11 + run.tokens) % shape_.words : run.first + t;
  }
  return model_->session().Run(program, buffers.inputs, buffers.outputs);
}

void CachedLlama::FillCaches(std::vector<std::vector<uint8_t>>* before) {
  for (size_t c = 0; c < caches_.size(); ++c) {
    std::vector<uint8_t> bytes(cache_bytes());
    for (size_t i = 0; i < bytes.size(); i += 2) {
      // Small numbers of bf16, others in each row.
      const uint64_t x = (i / row_bytes() * 131 + i + c * 71) * 0x9e3779b97f4a7c15;
      bytes[i] = static_cast<uint8_t>(x >> 40);
      bytes[i + 1] = 0x3c;
    }
    const Status written = model_->session().WriteState(caches_[c], bytes.data(), bytes.size());
    ASSERT_TRUE(written.ok()) << written.message();
    before->push_back(std::move(bytes));
  }
}

void CachedLlama::ExpectRows(const Run& run, const std::string& cache, const std::vector<uint8_t>& before,
                             const std::vector<uint8_t>& after) {
  const uint64_t row = row_bytes();
  int64_t changed = 0;
  for (uint64_t at = 0; at < before.size(); at += row) {
    if (std::memcmp(&before[at], &after[at], row) == 0) continue;
    ASSERT_TRUE(IsWritten(run, at)) << cache << ": row " << at / row << " changed";
    ++changed;
  }
  EXPECT_EQ(changed, shape_.batch * shape_.kv_heads * run.tokens) << cache;
}

void CachedLlama::ExpectRowsOfTheirPositionsOnly(const std::vector<Run>& runs) {
  std::vector<std::vector<uint8_t>> before;
  FillCaches(&before);
  for (const Run& run : runs) {
    SCOPED_TRACE(std::string(run.program) + " at " + std::to_string(run.first));
    const Status status = Execute(run);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t c = 0; c < caches_.size(); ++c) {
      std::vector<uint8_t> after(before[c].size());
      ASSERT_TRUE(model_->session().ReadState(caches_[c], after.data(), after.size()).ok());
      ExpectRows(run, caches_[c], before[c], after);
      if (testing::Test::HasFatalFailure()) return;
      before[c] = std::move(after);
    }
  }
}

}  // namespace rondo
