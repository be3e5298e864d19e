// generate: continues a prompt with a language model, one byte at a time. A small example of embedding Rondo.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tools/examples/generate/model.h"
#include "tools/examples/generate/options.h"

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Each function below returns one sentence, or "" when all is well.

// A pipe will do, one without end will not.
std::string ReadFile(const std::string& path, std::vector<uint8_t>* bytes) {
  constexpr size_t kMost = 16 << 20;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return "prompt file \"" + path + "\": " + std::strerror(errno);
  uint8_t block[4096];
  size_t count = 0;
  while (bytes->size() <= kMost && (count = std::fread(block, 1, sizeof(block), file)) > 0) {
    bytes->insert(bytes->end(), block, block + count);
  }
  bool failed = std::ferror(file) != 0;
  int error = errno;
  std::fclose(file);
  if (failed) return "prompt file \"" + path + "\": " + std::strerror(error);
  if (bytes->size() > kMost)
    return "prompt file \"" + path + "\" has more than " + std::to_string(kMost) +
           " bytes, more than any prompt";
  return bytes->empty() ? "prompt file \"" + path + "\" is empty; at least one byte is needed" : "";
}

std::string Write(const uint8_t* bytes, size_t count) {
  if (std::fwrite(bytes, 1, count, stdout) == count && std::fflush(stdout) == 0) return "";
  return std::string("standard output: ") + std::strerror(errno);
}

std::string CheckLength(size_t prompt, uint64_t tokens, int64_t context) {
  if (prompt + tokens <= static_cast<uint64_t>(context)) return "";
  return "the prompt's " + std::to_string(prompt) + " bytes and " + std::to_string(tokens) +
         " tokens after it exceed the model's context of " + std::to_string(context);
}

// Writes the prompt and the tokens, each as soon as it is known.
std::string Generate(Model& model, const std::vector<uint8_t>& prompt, const Options& options) {
  if (std::string problem = CheckLength(prompt.size(), options.tokens, model.context()); !problem.empty()) {
    return problem;
  }
  if (std::string problem = Write(prompt.data(), prompt.size()); !problem.empty()) return problem;
  if (options.tokens == 0) return "";
  Clock::time_point start = Clock::now();
  uint8_t next = 0;
  if (std::string problem = model.ReadPrompt(prompt, &next); !problem.empty()) return problem;
  Clock::time_point prefilled = Clock::now();
  for (uint64_t i = 0; i < options.tokens; ++i) {
    if (std::string problem = Write(&next, 1); !problem.empty()) return problem;
    if (i + 1 == options.tokens) break;
    int64_t position = static_cast<int64_t>(prompt.size() + i);
    if (std::string problem = model.Decode(next, position, &next); !problem.empty()) return problem;
  }
  if (options.raw) return "";
  double reading = Seconds(start, prefilled), writing = Seconds(prefilled, Clock::now());
  std::fprintf(stderr, "\nprompt of %zu tokens in %.3f s, %llu more in %.3f s", prompt.size(), reading,
               static_cast<unsigned long long>(options.tokens), writing);
  // The first token came with the prompt.
  if (options.tokens > 1 && writing > 0) {
    std::fprintf(stderr, ": %.0f tokens/s", static_cast<double>(options.tokens - 1) / writing);
  }
  std::fputc('\n', stderr);
  return "";
}

// What rondo_cuda.h asks of a program whose plans may be for several GPUs, or for one of them several times.
void PrepareForGpus() {
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

std::string Run(const Options& options) {
  std::vector<uint8_t> prompt;
  if (std::string problem = ReadFile(options.prompt_file, &prompt); !problem.empty()) return problem;
  if (options.cuda) PrepareForGpus();
  Model model;
  if (std::string problem = model.Open(options.plan.c_str(), options.threads, options.cuda, options.devices);
      !problem.empty())
    return problem;
  return Generate(model, prompt, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string problem;
  if (!ParseOptions(argc, argv, &options, &problem)) {
    std::fprintf(stderr, "generate: %s\n\n%s", problem.c_str(), kUsage);
    return 2;
  }
  if (options.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  problem = Run(options);
  if (problem.empty()) return 0;
  std::fprintf(stderr, "generate: %s\n", problem.c_str());
  return 1;
}
