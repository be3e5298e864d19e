#include "tools/examples/generate/options.h"

#include <charconv>
#include <string_view>

const char kUsage[] =
    "usage: generate PLAN --prompt-file F --tokens N [--raw] [--threads T] [--cuda [--devices LIST]]\n"
    "\n"
    "Lets a byte-level language model continue a prompt, greedily. PLAN holds the programs `prefill` and\n"
    "`decode`, as made by: rondo compile prefill=prefill64.onnx decode=decode.onnx -o PLAN\n"
    "\n"
    "  --prompt-file F  the bytes to continue\n"
    "  --tokens N       how many to add\n"
    "  --raw            write exactly the prompt and the N bytes that follow, and nothing else\n"
    "  --threads T      threads of the host driver (1 to 256; default 1)\n"
    "  --cuda           run on a GPU; PLAN was compiled with --target cuda:sm_90a\n"
    "  --devices LIST   the GPU of each of the plan's devices (0,1; or 0,0: two on one); by default 0,1,...\n"
    "\n"
    "example: generate pycoder.rondo --prompt-file prompt.txt --tokens 120\n";

namespace {

bool ParseNumber(std::string_view text, uint64_t least, uint64_t most, uint64_t* number) {
  const char* end = text.data() + text.size();
  auto [parsed, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && parsed == end && *number >= least && *number <= most;
}

// "0,1,1": 1 to 64 numbers below 64.
bool ParseDevices(std::string_view list, std::vector<uint32_t>* devices) {
  for (devices->clear(); devices->size() < 64;) {
    const size_t comma = list.find(',');
    uint64_t number = 0;
    if (!ParseNumber(list.substr(0, comma), 0, 63, &number)) return false;
    devices->push_back(static_cast<uint32_t>(number));
    if (comma == list.npos) return true;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// Options that take a value; false with a problem when the value is wrong.
bool SetValue(const std::string& name, const std::string& value, Options* options, std::string* problem) {
  constexpr uint64_t kMostTokens = 1000000000;
  if (name == "--prompt-file") {
    options->prompt_file = value;
    return true;
  }
  if (name == "--tokens") {
    if (ParseNumber(value, 0, kMostTokens, &options->tokens)) return true;
    *problem = "--tokens takes a number from 0 to 1000000000, not \"" + value + "\"";
    return false;
  }
  if (name == "--devices") {
    if (ParseDevices(value, &options->devices)) return true;
    *problem = "--devices takes numbers from 0 to 63 with commas between, not \"" + value + "\"";
    return false;
  }
  uint64_t threads = 0;
  if (ParseNumber(value, 1, 256, &threads)) {
    options->threads = static_cast<uint32_t>(threads);
    return true;
  }
  *problem = "--threads takes a number from 1 to 256, not \"" + value + "\"";
  return false;
}

bool TakesValue(std::string_view name) {
  return name == "--prompt-file" || name == "--tokens" || name == "--threads" || name == "--devices";
}

}  // namespace

bool ParseOptions(int argc, char** argv, Options* options, std::string* problem) {
  bool tokens_given = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      options->help = true;
      return true;
    }
    if (argument == "--raw") {
      options->raw = true;
    } else if (argument == "--cuda") {
      options->cuda = true;
    } else if (TakesValue(argument)) {
      if (++i == argc) return *problem = argument + " needs a value", false;
      if (!SetValue(argument, argv[i], options, problem)) return false;
      tokens_given = tokens_given || argument == "--tokens";
    } else if (argument.size() > 1 && argument[0] == '-') {
      return *problem = "unknown option \"" + argument + "\"", false;
    } else if (!options->plan.empty()) {
      return *problem = "one plan is taken, but \"" + argument + "\" is a second", false;
    } else {
      options->plan = argument;
    }
  }
  if (options->plan.empty()) return *problem = "a plan is needed", false;
  if (options->prompt_file.empty()) return *problem = "--prompt-file is needed", false;
  if (!options->devices.empty() && !options->cuda) return *problem = "--devices is for --cuda", false;
  if (!tokens_given) return *problem = "--tokens is needed", false;
  return true;
}
