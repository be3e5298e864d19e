// KernelCache: machine code that was compiled before, in a folder, by what it was compiled from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files.h"
#include "core/status.h"

namespace rondo {

// A file for each text, named by a hash of 128 bits (xxh3) of the text and of all else that its code depends
// on. The file repeats that key, the text's own digest and length, what else the code depends on, the name of
// its function, and a hash of the code: what is damaged, cut short or another's entry counts as not there.
// Files are written beside their place and renamed, so that any number of threads and processes may share a
// folder.
//
// Whoever may write to the folder may change plans, so the folder and its files must be the caller's own and
// writable by nobody else: other files are not read. What is no regular file, or larger than code can be, is
// not read either.
class KernelCache {
 public:
  // Nothing is found in it or kept.
  KernelCache() = default;

  // Makes the folder if it is not there, for its owner alone to write. Beyond `most_bytes` in it, the files
  // not used for the longest time are removed, until a quarter is free. Error: kIo, if there is something
  // else, it is another's or writable by others, or nothing can be made.
  static Result<KernelCache> Open(const std::string& folder, uint64_t most_bytes = uint64_t{1} << 30);

  // The code of `text`; `signature`: what else it depends on.
  std::optional<std::vector<uint8_t>> Find(const std::string& text, const std::string& signature) const;

  // Keeps it, if that is possible: a full disk is no error, and leaves nothing.
  void Keep(const std::string& text, const std::string& signature, const std::vector<uint8_t>& code) const;

 private:
  std::shared_ptr<const Descriptor> folder_;  // null: no cache
};

}  // namespace rondo
