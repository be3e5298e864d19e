// Translates CUDA C++, as the compiler writes it for NVRTC, to C++ for g++ and simt.h.
//
// simt.h gives nearly all of it a meaning as C++. Translated are inline PTX (`asm`, whose operands become
// arguments of a call), dynamic shared memory, and constructs that g++ wants in another order. Macros are
// translated where they are defined, like any other text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo::emulated {

struct KernelWords {
  std::string name;
  uint32_t most_threads = 0, cluster = 0;  // from its launch bounds and cluster; 0: not given
};

struct Translation {
  std::string text;  // one file
  std::vector<KernelWords> kernels;
};

// `headers`: the texts of included files, by name. `architecture`: 80, 90, ...; `specific`: the target is
// "sm_90a" or similar. Fails with a sentence in `error` if a name is missing or a piece of `asm` cannot be
// parsed.
bool Translate(const std::string& text, const std::map<std::string, std::string>& headers, int architecture,
               bool specific, Translation* out, std::string* error);

}  // namespace rondo::emulated
