#include "tools/examples/generate/model.h"

#include <algorithm>

#include "drivers/capi/rondo_cuda.h"
#include "drivers/capi/rondo_host.h"

namespace {

// One port of a program must have this name, dtype and rank; its dims are the caller's to judge.
std::string FindPort(const rondo::Plan& plan, uint32_t program, bool input, const char* name,
                     rondo_dtype dtype, uint32_t rank, rondo_port* port) {
  rondo::Error error = input ? plan.FindInput(program, name, port) : plan.FindOutput(program, name, port);
  if (error) return error.message();
  if (port->dtype == dtype && (rank == 0 || port->rank == rank)) return "";
  return "program \"" + std::string(plan.program_name(program)) + "\": \"" + name +
         "\" does not have the type and rank of a language model's";
}

std::string Mismatch(const char* what, int64_t value, int64_t expected) {
  return std::string("the plan's ") + what + " is " + std::to_string(value) + ", not " +
         std::to_string(expected);
}

}  // namespace

std::string Model::Open(const char* path, uint32_t threads, bool cuda, std::span<const uint32_t> gpus) {
  if (rondo::Error error = rondo::Plan::Open(path, &plan_)) return error.message();
  if (std::string problem = FindPrograms(); !problem.empty()) return problem;
  rondo_requirements needs;
  if (rondo::Error error = plan_.GetRequirements(&needs)) return error.message();
  rondo_runtime_options options = RONDO_INIT(rondo_runtime_options);
  options.devices = gpus.empty() ? nullptr : gpus.data();
  options.num_devices = gpus.size();
  rondo_driver* driver =
      cuda ? rondo_cuda_driver_create(nullptr) : rondo_host_driver_create(threads, needs.devices);
  if (rondo::Error error = rondo::Runtime::Create(driver, &runtime_, &options)) return error.message();
  if (rondo::Error error = rondo::Session::Create(runtime_, plan_, &session_)) return error.message();
  tokens_.resize(chunk_);
  positions_.resize(chunk_);
  return "";
}

// Reads the chunk's length from prefill's tokens, and the context's from the cache, whose last two dims are
// positions and features.
std::string Model::FindPrograms() {
  if (rondo::Error error = plan_.FindProgram("prefill", &prefill_)) return error.message();
  if (rondo::Error error = plan_.FindProgram("decode", &decode_)) return error.message();
  for (uint32_t program : {prefill_, decode_}) {
    rondo_port tokens, positions, k_cache, v_cache, logits;
    for (const std::string& problem : {FindPort(plan_, program, true, "tokens", RONDO_I64, 2, &tokens),
                                       FindPort(plan_, program, true, "positions", RONDO_I64, 1, &positions),
                                       FindPort(plan_, program, true, "k_cache", RONDO_F32, 0, &k_cache),
                                       FindPort(plan_, program, true, "v_cache", RONDO_F32, 0, &v_cache),
                                       FindPort(plan_, program, false, "logits", RONDO_F32, 2, &logits)}) {
      if (!problem.empty()) return problem;
    }
    if (!k_cache.is_state || !v_cache.is_state || k_cache.rank < 2) {
      return "the plan's k_cache and v_cache are not state: compile with --state k_cache:k_cache_out --state "
             "v_cache:v_cache_out";
    }
    if (logits.dims[1] != kVocabulary) return Mismatch("vocabulary", logits.dims[1], kVocabulary);
    if (tokens.dims[0] != 1) return Mismatch("batch", tokens.dims[0], 1);
    if (positions.dims[0] != tokens.dims[1]) return Mismatch("positions", positions.dims[0], tokens.dims[1]);
    if (program == decode_ && tokens.dims[1] != 1) return Mismatch("decode length", tokens.dims[1], 1);
    if (program == prefill_) chunk_ = tokens.dims[1];
    context_ = k_cache.dims[k_cache.rank - 2];
  }
  return "";
}

// A chunk is always full: what lies beyond the prompt is padding, masked for the tokens before it and
// overwritten when decoding gets there.
std::string Model::Prefill(std::span<const uint8_t> prompt, int64_t first) {
  for (int64_t i = 0; i < chunk_; ++i) {
    size_t at = static_cast<size_t>(first + i);
    tokens_[i] = at < prompt.size() ? prompt[at] : 0;
    positions_[i] = first + i;
  }
  rondo::Error error = session_.Run(
      prefill_, {rondo::In("tokens", tokens_, {1, chunk_}), rondo::In("positions", positions_, {chunk_})},
      {});
  return error.message();
}

std::string Model::ReadPrompt(std::span<const uint8_t> prompt, uint8_t* next) {
  const int64_t length = static_cast<int64_t>(prompt.size());
  int64_t done = 0;
  // A chunk whose padding would lie beyond the cache is left to decode.
  for (; done < length && done + chunk_ <= context_; done += chunk_) {
    if (std::string problem = Prefill(prompt, done); !problem.empty()) return problem;
  }
  // At least the last token is decoded: prefill gives the logits of its chunk's end only.
  for (int64_t i = std::min(done, length - 1); i < length; ++i) {
    if (std::string problem = Decode(prompt[static_cast<size_t>(i)], i, next); !problem.empty())
      return problem;
  }
  return "";
}

std::string Model::Decode(uint8_t token, int64_t position, uint8_t* next) {
  const int64_t tokens[] = {token}, positions[] = {position};
  rondo::Error error =
      session_.Run(decode_, {rondo::In("tokens", tokens, {1, 1}), rondo::In("positions", positions, {1})},
                   {rondo::Out("logits", logits_)});
  if (error) return error.message();
  *next = static_cast<uint8_t>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
  return "";
}
