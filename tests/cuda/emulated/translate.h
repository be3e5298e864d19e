// CUDA C++, as the compiler writes it for NVRTC, to C++ for g++ and simt.h.
//
// Almost all of it is C++ that simt.h gives a meaning; translated are inline PTX (`asm`, whose operands
// become arguments of a call), dynamic shared memory, and what g++ wants in another order. Macros are
// translated where they are defined, like any other text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo::emulated {

struct KernelWords {
  std::string name;
  uint32_t most_threads = 0, cluster = 0;  // of its launch bounds and cluster; 0: not said
};

struct Translation {
  std::string text;  // one file
  std::vector<KernelWords> kernels;
};

// `headers`: the texts of what is included, by name. `architecture`: 80, 90, ...; `specific`: "sm_90a" and
// its like. Fails with a sentence in `error`, where a name is not there or a piece of `asm` cannot be read.
bool Translate(const std::string& text, const std::map<std::string, std::string>& headers, int architecture,
               bool specific, Translation* out, std::string* error);

}  // namespace rondo::emulated
