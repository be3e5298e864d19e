// KernelCache: a folder of compiled machine code, keyed by everything that it was compiled from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files.h"
#include "core/status.h"

namespace rondo {

// One file for each text, named by a 128-bit hash (xxh3) of the text and of everything else that its code
// depends on. The file repeats this key, the text's own digest and length, the other dependencies, the name
// of the function, and a hash of the code: an entry that is damaged, cut short or for another text counts as
// missing. Files are written beside their place and renamed, so any number of threads and processes may share
// a folder.
//
// Whoever can write to the folder can change plans. So the folder and its files must belong to the caller and
// be writable by nobody else; other files are not read, nor are files that are not regular or are larger than
// code can be.
class KernelCache {
 public:
  // No cache: finds and keeps nothing.
  KernelCache() = default;

  // Creates the folder if needed, writable by its owner only. If it holds more than `most_bytes`, the least
  // recently used files are removed until a quarter is free. Error: kIo if the path is something else,
  // belongs to another user or is writable by others, or cannot be created.
  static Result<KernelCache> Open(const std::string& folder, uint64_t most_bytes = uint64_t{1} << 30);

  // The code of `text`; `signature`: its other dependencies.
  std::optional<std::vector<uint8_t>> Find(const std::string& text, const std::string& signature) const;

  // Stores the code if possible: a full disk is not an error, and leaves nothing behind.
  void Keep(const std::string& text, const std::string& signature, const std::vector<uint8_t>& code) const;

 private:
  std::shared_ptr<const Descriptor> folder_;  // null: no cache
};

}  // namespace rondo
