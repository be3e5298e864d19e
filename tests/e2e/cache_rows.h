// Caches that a model updates in place: which of their bytes a run may write, and that it wrote no other.
#ifndef RONDO_TESTS_E2E_CACHE_ROWS_H_
#define RONDO_TESTS_E2E_CACHE_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/e2e/harness.h"
#include "tests/e2e/llama_model.h"

namespace rondo {

// A LlamaModel's prefill (of `tokens` tokens) and decode programs, of synthetic weights, in one plan with its
// state.
class CachedLlama {
 public:
  // For the host driver; or for `driver`, which must outlive it, and its `target`.
  CachedLlama(const LlamaShape& shape, int64_t tokens, Driver* driver = nullptr, const char* target = "host");

  bool valid() { return !testing::Test::HasFailure() && model_->session().valid(); }
  LiveModel& model() { return *model_; }
  const std::vector<std::string>& caches() const { return caches_; }
  uint64_t cache_bytes() const {
    return static_cast<uint64_t>(shape_.batch * shape_.kv_heads) * head_bytes();
  }

  struct Run {
    const char* program;
    int64_t first, tokens;  // its tokens' positions
  };
  // Of any cache: whether the byte is of a row of the run's positions.
  bool IsWritten(const Run& run, uint64_t byte) const {
    const auto position = static_cast<int64_t>(byte % head_bytes() / row_bytes());
    return run.first <= position && position < run.first + run.tokens;
  }
  // The bytes of one row: one position of one head.
  uint64_t row_bytes() const { return static_cast<uint64_t>(shape_.head) * 2; }

  Status Execute(const Run& run);

  // Fills the caches with a pattern of its own for each row, executes each run, and compares: rows of the
  // run's positions have changed in every head of every cache, and no other byte has, from run to run.
  void ExpectRowsOfTheirPositionsOnly(const std::vector<Run>& runs);

 private:
  uint64_t head_bytes() const { return static_cast<uint64_t>(shape_.positions) * row_bytes(); }
  // Fills `before` with the pattern.
  void FillCaches(std::vector<std::vector<uint8_t>>* before);
  void ExpectRows(const Run& run, const std::string& cache, const std::vector<uint8_t>& before,
                  const std::vector<uint8_t>& after);

  const LlamaShape shape_;
  std::vector<std::string> caches_;
  std::unique_ptr<LiveModel> model_;
};

}  // namespace rondo

#endif  // RONDO_TESTS_E2E_CACHE_ROWS_H_
