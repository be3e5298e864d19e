// External data: the files beside a model that hold its large tensors, mapped read-only.
//
// A location in a model is a relative path of plain names in the model's folder. Hard links may lie there,
// and symbolic links if what they end at, all links followed, is a regular file below
//
//   - the model's real folder,
//   - `blobs` of the same cached repository, as Hugging Face's cache has it: the model's real folder is
//     .../models--ORG--NAME/snapshots/REVISION or below, the file below .../models--ORG--NAME/blobs,
//   - or a folder that the user names (`--external-data DIR`).
//
// Everything else is refused. What is checked is what is read: the file is opened once, and the path is that
// of the open file. Files are opened and mapped on first use, once each, and stay mapped as long as anyone
// holds the mapping.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/span.h"
#include "core/status.h"

namespace rondo::onnx {

// A read-only mapping of a whole file. Truncating the file while it is mapped is the caller's fault.
class MappedFile {
 public:
  MappedFile(const uint8_t* data, uint64_t size) : data_(data), size_(size) {}
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Maps the file open at `descriptor` (which stays open); `name` is for errors.
  static Result<std::shared_ptr<const MappedFile>> Map(int descriptor, const std::string& name);

  Span<const uint8_t> bytes() const { return {data_, static_cast<size_t>(size_)}; }

 private:
  const uint8_t* data_;
  uint64_t size_;
};

// The external files of one model. Not thread-safe.
class ExternalFiles {
 public:
  // `folder` is the model's own; links may also lead to the `allowed` ones.
  ExternalFiles(std::string folder, std::vector<std::string> allowed)
      : folder_(std::move(folder)), allowed_(std::move(allowed)) {}

  // The file at `location`. kNotFound when it does not exist, kInvalidArgument when it lies in a forbidden
  // place or is not a regular file, kIo when it cannot be read.
  Result<std::shared_ptr<const MappedFile>> Open(const std::string& location);

 private:
  Status FindRoots();

  std::string folder_;
  std::vector<std::string> allowed_;
  std::vector<std::string> roots_;  // real paths of folders that files may lie below; set at the first Open
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace rondo::onnx
