// Greedy decoding of a byte-level model with one decode program, each token timed. It is the Rondo side of
// tests/ort/run decode.
//
//   decode_steps PLAN PROGRAM [THREADS]
//
// Reads lines "restart TOKEN" (zero the state, begin at position 0 with this token) and "run COUNT" (decode
// COUNT tokens) from standard input. Answers a run with one line: COUNT pairs of token and nanoseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tools/rondo/loaded.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

class Decoder {
 public:
  Decoder(Session& session, uint32_t program) : session_(session), program_(program) {}

  Status Restart(int64_t token) {
    token_ = token;
    position_ = 0;
    return session_.ResetState();
  }

  // Feeds the current token and makes the most likely next one current. Returns the run's time in
  // nanoseconds.
  Result<int64_t> Step() {
    const Input inputs[] = {{"tokens", kNone, DType::kI64, {1, 1}, &token_, sizeof(token_)},
                            {"positions", kNone, DType::kI64, {1}, &position_, sizeof(position_)}};
    const Output outputs[] = {{"logits", kNone, DType::kF32, logits_, sizeof(logits_)}};
    const auto start = std::chrono::steady_clock::now();
    RONDO_RETURN_IF_ERROR(session_.Run(program_, inputs, outputs));
    const auto end = std::chrono::steady_clock::now();
    token_ = std::max_element(logits_, logits_ + 256) - logits_;
    ++position_;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  }

  int64_t token() const { return token_; }

 private:
  Session& session_;
  uint32_t program_;
  int64_t token_ = 0, position_ = 0;
  float logits_[256] = {};
};

Status Serve(Decoder& decoder) {
  char command[16];
  long long argument = 0;
  while (std::scanf("%15s %lld", command, &argument) == 2) {
    if (std::strcmp(command, "restart") == 0) {
      RONDO_RETURN_IF_ERROR(decoder.Restart(argument));
      continue;
    }
    for (long long i = 0; i < argument; ++i) {
      RONDO_ASSIGN_OR_RETURN(const int64_t nanoseconds, decoder.Step());
      std::printf("%lld %lld ", static_cast<long long>(decoder.token()), static_cast<long long>(nanoseconds));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return Status::Ok();
}

Status Main(const char* plan, const char* program, int threads) {
  LoadOptions options;
  options.threads = threads;
  RONDO_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedSession> loaded, LoadedSession::Open(plan, options));
  RONDO_ASSIGN_OR_RETURN(const uint32_t index, loaded->Program(program));
  Decoder decoder(loaded->session, index);
  return Serve(decoder);
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: decode_steps PLAN PROGRAM [THREADS]\n");
    return 2;
  }
  const rondo::Status status = rondo::tools::Main(argv[1], argv[2], argc == 4 ? std::atoi(argv[3]) : 1);
  if (status.ok()) return 0;
  std::fprintf(stderr, "decode_steps: %s\n", status.message());
  return 1;
}
