// Times each run of one program of a plan on the host driver. It is the Rondo side of tests/ort/run networks.
//
//   timed_runs PLAN PROGRAM THREADS[:INSTRUCTIONS] OUTPUT NAME=INPUT...
//
// INSTRUCTIONS is avx512, avx2 or baseline; the default is the best that this machine has. Reads lines "run
// COUNT" from standard input and answers each with one line: COUNT pairs of nanoseconds, processor time of
// all threads and wall time. Writes every output NAME of a first run to OUTPUT.NAME.npy.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "formats/tensor/tensor.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/run_tensors.h"

namespace rondo::tools {
namespace {

int64_t ProcessorNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

Status Serve(Session& session, uint32_t program, const std::vector<Input>& inputs,
             const std::vector<Output>& outputs) {
  char command[16];
  long long count = 0;
  while (std::scanf("%15s %lld", command, &count) == 2) {
    for (long long i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const int64_t used = ProcessorNanoseconds();
      RONDO_RETURN_IF_ERROR(session.Run(program, inputs, outputs));
      const int64_t taken = ProcessorNanoseconds() - used;
      const std::chrono::nanoseconds wall = std::chrono::steady_clock::now() - start;
      std::printf("%lld %lld ", static_cast<long long>(taken), static_cast<long long>(wall.count()));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return Status::Ok();
}

Status Main(const std::vector<std::string>& arguments) {
  LoadOptions options;
  options.threads = std::atoi(arguments[2].c_str());
  const size_t colon = arguments[2].find(':');
  if (colon != std::string::npos) options.instructions = arguments[2].substr(colon + 1);
  RONDO_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedSession> loaded,
                         LoadedSession::Open(arguments[0], options));
  RONDO_ASSIGN_OR_RETURN(const uint32_t program, loaded->Program(arguments[1] == "-" ? "" : arguments[1]));
  RONDO_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                         ReadNamedTensors({arguments.begin() + 4, arguments.end()}));
  RONDO_ASSIGN_OR_RETURN(std::vector<Tensor> results, RunOnTensors(loaded->session, program, tensors));
  std::vector<Output> outputs;
  for (Tensor& result : results) {
    RONDO_RETURN_IF_ERROR(WriteTensor(result, arguments[3] + "." + result.name + ".npy"));
    outputs.push_back({result.name, kNone, result.dtype, result.bytes.data(), result.bytes.size()});
  }
  return Serve(loaded->session, program, InputsOf(loaded->data(), program, tensors), outputs);
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: timed_runs PLAN PROGRAM|- THREADS[:INSTRUCTIONS] OUTPUT NAME=INPUT...\n");
    return 2;
  }
  const rondo::Status status = rondo::tools::Main({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::fprintf(stderr, "timed_runs: %s\n", status.message());
  return 1;
}
