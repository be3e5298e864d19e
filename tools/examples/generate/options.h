// The command line of `generate`.
#ifndef RONDO_TOOLS_EXAMPLES_GENERATE_OPTIONS_H_
#define RONDO_TOOLS_EXAMPLES_GENERATE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

struct Options {
  std::string plan;
  std::string prompt_file;
  uint64_t tokens = 0;
  bool raw = false;
  bool cuda = false;
  bool help = false;
  std::vector<uint32_t> devices;  // GPU of each of the plan's devices; empty: 0, 1, ...
  uint32_t threads = 1;
};

extern const char kUsage[];

// False, with one sentence in `problem`, when the arguments are used wrongly.
bool ParseOptions(int argc, char** argv, Options* options, std::string* problem);

#endif  // RONDO_TOOLS_EXAMPLES_GENERATE_OPTIONS_H_
