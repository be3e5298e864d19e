// KernelCache: machine code that was compiled before, in a folder, by what it was compiled from.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_KERNEL_CACHE_H_
#define RONDO_COMPILER_CODEGEN_CUDA_KERNEL_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"

namespace rondo {

// A file for each text, named by a hash of 128 bits (xxh3) of the text and of all else that its code depends
// on. The file repeats a hash of its contents: one that is damaged or cut short counts as not there. Files
// are written beside their place and renamed, so that any number of threads and processes may share a folder.
// Nothing here is trusted with more than the code of a kernel: whoever may write to the folder may change
// plans.
class KernelCache {
 public:
  // Nothing is found in it or kept.
  KernelCache() = default;

  // Makes the folder if it is not there. Beyond `most_bytes` in it, the files not used for the longest time
  // are removed, until a quarter is free. Error: kIo, if there is something else or nothing can be made.
  static Result<KernelCache> Open(const std::string& folder, uint64_t most_bytes = uint64_t{1} << 30);

  // The code of `text`; `signature`: what else it depends on.
  std::optional<std::vector<uint8_t>> Find(const std::string& text, const std::string& signature) const;

  // Keeps it, if that is possible: a full disk is no error.
  void Keep(const std::string& text, const std::string& signature, const std::vector<uint8_t>& code) const;

 private:
  std::string PathOf(const std::string& text, const std::string& signature) const;

  std::string folder_;  // empty: no cache
};

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_KERNEL_CACHE_H_
