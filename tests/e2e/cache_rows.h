// Caches that a model updates in place: checks that a run writes its own rows and no other byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/e2e/harness.h"
#include "tests/e2e/llama_model.h"

namespace rondo {

// Decoders whose state is caches of shape {batch, heads, positions, head}, with inputs `tokens` and
// `positions`. Missing weights are synthetic.
class CachedDecoder {
 public:
  // Compiled for the host driver, or for `driver`, which must outlive it, and its `target`. The programs are
  // "decode" and, if there is one, "prefill".
  explicit CachedDecoder(const std::vector<ModelSource>& models, Driver* driver = nullptr,
                         const char* target = "host");
  // A LlamaModel with the programs "prefill" (of `tokens` tokens) and "decode".
  static std::unique_ptr<CachedDecoder> Llama(const LlamaShape& shape, int64_t tokens,
                                              Driver* driver = nullptr, const char* target = "host");
  // The bench models' graphs that RONDO_LLAMA_GRAPHS names: the path of decode's, or those of prefill's and
  // decode's with a comma between. Empty if the variable is not set.
  static std::vector<ModelSource> BenchGraphs();

  bool valid() { return !testing::Test::HasFailure() && model_->session().valid() && !caches_.empty(); }
  LiveModel& model() { return *model_; }
  const std::vector<std::string>& caches() const { return caches_; }
  uint64_t cache_bytes() const { return static_cast<uint64_t>(rows_) * row_bytes(); }

  struct Run {
    const char* program;
    int64_t first, tokens;  // the positions of its tokens
  };
  // For any cache: whether the byte lies in a row of the run's positions.
  bool IsWritten(const Run& run, uint64_t byte) const {
    const auto position = static_cast<int64_t>(byte / row_bytes()) % positions_;
    return run.first <= position && position < run.first + run.tokens;
  }
  // The bytes of one row: one position of one head.
  uint64_t row_bytes() const { return row_bytes_; }

  // Runs of all programs in turn, at the edges of pages and of the caches; later runs overwrite rows of
  // earlier ones.
  std::vector<Run> Runs() const;
  // Uses other tokens each time.
  Status Execute(const Run& run);

  // Fills the caches with a different pattern for each row, executes each run, and compares: in every head of
  // every cache, each run must change the rows of its positions and no other byte.
  void ExpectRowsOfTheirPositionsOnly(const std::vector<Run>& runs);

 private:
  // The number of tokens of a run of the program; 0 if there is no such program.
  int64_t TokensOf(const char* program) const;
  // Fills `before` with the pattern.
  void FillCaches(std::vector<std::vector<uint8_t>>* before);
  void ExpectRows(const Run& run, const std::string& cache, const std::vector<uint8_t>& before,
                  const std::vector<uint8_t>& after);

  std::vector<std::string> caches_;
  int64_t rows_ = 0, positions_ = 0;  // of a cache: the number of all rows, and of one head's
  uint64_t row_bytes_ = 0;
  int64_t executed_ = 0;
  std::unique_ptr<LiveModel> model_;
};

}  // namespace rondo
