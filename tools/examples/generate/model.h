// A byte-level language model in a plan: a `prefill` program that reads a chunk of tokens and a `decode`
// program that reads one and predicts the next, sharing weights and a KV cache.
#ifndef RONDO_TOOLS_EXAMPLES_GENERATE_MODEL_H_
#define RONDO_TOOLS_EXAMPLES_GENERATE_MODEL_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/rondo.hpp"

// Every function that can fail returns one sentence, or "" when all is well.
class Model {
 public:
  static constexpr int64_t kVocabulary = 256;  // a token is a byte

  // Opens the plan, checks that it is such a model, and makes a session on `threads` CPU threads, or on GPUs:
  // for each of the plan's devices one of `gpus` (empty: 0, 1, ...).
  std::string Open(const char* path, uint32_t threads, bool cuda, std::span<const uint32_t> gpus);

  // Tokens that fit in the KV cache.
  int64_t context() const { return context_; }

  // Reads the prompt from position 0 on (1 to context() tokens) and predicts what follows it.
  std::string ReadPrompt(std::span<const uint8_t> prompt, uint8_t* next);
  // Reads `token` at `position` and predicts what follows it.
  std::string Decode(uint8_t token, int64_t position, uint8_t* next);

 private:
  std::string FindPrograms();
  std::string Prefill(std::span<const uint8_t> prompt, int64_t first);

  rondo::Plan plan_;
  rondo::Runtime runtime_;
  rondo::Session session_;  // destroyed before its runtime
  uint32_t prefill_ = 0, decode_ = 0;
  int64_t chunk_ = 0;  // tokens of one prefill
  int64_t context_ = 0;
  std::vector<int64_t> tokens_, positions_;  // one chunk
  std::array<float, kVocabulary> logits_ = {};
};

#endif  // RONDO_TOOLS_EXAMPLES_GENERATE_MODEL_H_
