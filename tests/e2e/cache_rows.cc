#include "tests/e2e/cache_rows.h"

#include <cstdlib>
#include <cstring>

#include "tests/temporary_folder.h"

namespace rondo {

CachedDecoder::CachedDecoder(const std::vector<ModelSource>& models, Driver* driver, const char* target) {
  CompileOptions options;
  options.synthetic_seed = 7;
  options.targets = *ParseTargets(target);
  options.models = models;
  model_ = driver == nullptr ? std::make_unique<LiveModel>(options, HostOptions())
                             : std::make_unique<LiveModel>(options, *driver);
  if (!model_->session().valid()) return;
  for (const Buffer& buffer : model_->data().buffers) {
    if (buffer.kind != BufferKind::kState) continue;
    EXPECT_EQ(buffer.shape.rank, 4) << buffer.name;
    const int64_t rows = buffer.shape[0] * buffer.shape[1] * buffer.shape[2];
    EXPECT_TRUE(caches_.empty() || (rows == rows_ && buffer.shape[2] == positions_)) << buffer.name;
    rows_ = rows;
    positions_ = buffer.shape[2];
    row_bytes_ = buffer.bytes / static_cast<uint64_t>(rows);
    caches_.emplace_back(buffer.name);
  }
}

std::unique_ptr<CachedDecoder> CachedDecoder::Llama(const LlamaShape& shape, int64_t tokens, Driver* driver,
                                                    const char* target) {
  const TemporaryFolder folder;
  std::vector<ModelSource> models;
  for (const auto& [name, count] : {std::pair<const char*, int64_t>{"prefill", tokens}, {"decode", 1}}) {
    LlamaShape of = shape;
    of.tokens = count;
    models.push_back({name, folder.File(std::string(name) + ".onnx")});
    LlamaModel(of).Write(models.back().path);
  }
  return std::make_unique<CachedDecoder>(models, driver, target);
}

std::vector<ModelSource> CachedDecoder::BenchGraphs() {
  const char* set = std::getenv("RONDO_LLAMA_GRAPHS");
  if (set == nullptr) return {};
  const std::string paths = set;
  const size_t comma = paths.find(',');
  if (comma == std::string::npos) return {{"decode", paths}};
  return {{"prefill", paths.substr(0, comma)}, {"decode", paths.substr(comma + 1)}};
}

int64_t CachedDecoder::TokensOf(const char* program) const {
  const Result<uint32_t> found = model_->plan().FindProgram(program);
  if (!found.ok()) return 0;
  for (const Port& port : model_->data().programs[*found].inputs) {
    if (port.name == "positions") return model_->data().buffers[port.buffer].shape[0];
  }
  return 0;
}

std::vector<CachedDecoder::Run> CachedDecoder::Runs() const {
  const int64_t last = positions_ - 1, middle = positions_ / 2, tokens = TokensOf("prefill");
  std::vector<Run> runs;
  const auto prefill = [&](int64_t first) {
    if (tokens != 0) runs.push_back({"prefill", first, tokens});
  };
  const auto decode = [&](std::initializer_list<int64_t> positions) {
    for (int64_t position : positions) runs.push_back({"decode", position, 1});
  };
  prefill(0);
  decode({tokens, tokens + 1});
  prefill(63);
  decode({15, 16, 0});
  prefill(middle);
  decode({middle + tokens, middle - 1, middle});
  prefill(positions_ - tokens);
  decode({last, 1, last / 3});
  return runs;
}

Status CachedDecoder::Execute(const Run& run) {
  ++executed_;
  const uint32_t program = model_->Program(run.program);
  LiveModel::Buffers buffers = model_->MakeBuffers(program);
  for (size_t i = 0; i < buffers.inputs.size(); ++i) {
    // State ports have no memory here, and come after the others.
    auto* values = reinterpret_cast<int64_t*>(buffers.input_bytes[i].data());
    const auto count = static_cast<int64_t>(buffers.inputs[i].bytes / sizeof(int64_t));
    const bool tokens = buffers.inputs[i].name == "tokens";
    for (int64_t t = 0; t < count; ++t)
      values[t] = tokens ? (t * 37 + run.first * 11 + executed_ * 13) % 256 : run.first + t;
  }
  return model_->session().Run(program, buffers.inputs, buffers.outputs);
}

void CachedDecoder::FillCaches(std::vector<std::vector<uint8_t>>* before) {
  for (size_t c = 0; c < caches_.size(); ++c) {
    std::vector<uint8_t> bytes(cache_bytes());
    for (size_t i = 0; i < bytes.size(); i += 2) {
      // Small bf16 numbers, different in each row.
      const uint64_t x = (i / row_bytes() * 131 + i + c * 71) * 0x9e3779b97f4a7c15;
      bytes[i] = static_cast<uint8_t>(x >> 40);
      bytes[i + 1] = 0x3c;
    }
    const Status written = model_->session().WriteState(caches_[c], bytes.data(), bytes.size());
    ASSERT_TRUE(written.ok()) << written.message();
    before->push_back(std::move(bytes));
  }
}

void CachedDecoder::ExpectRows(const Run& run, const std::string& cache, const std::vector<uint8_t>& before,
                               const std::vector<uint8_t>& after) {
  const uint64_t row = row_bytes();
  int64_t changed = 0;
  for (uint64_t at = 0; at < before.size(); at += row) {
    if (std::memcmp(&before[at], &after[at], row) == 0) continue;
    ASSERT_TRUE(IsWritten(run, at)) << cache << ": row " << at / row << " changed";
    ++changed;
  }
  EXPECT_EQ(changed, rows_ / positions_ * run.tokens) << cache;
}

void CachedDecoder::ExpectRowsOfTheirPositionsOnly(const std::vector<Run>& runs) {
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
