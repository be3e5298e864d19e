// External data: the files next to a model that hold its large tensors, mapped read-only.
//
// Contained to the model's folder: a location is a relative path of plain names, every folder on the
// way is a real folder (no symbolic link), the file is a regular file with one hard link (one that has
// more may be a name for a file elsewhere). Files are opened and mapped on first use, once each, and
// stay mapped as long as anyone holds the mapping.
#ifndef RONDO_FORMATS_ONNX_EXTERNAL_DATA_H_
#define RONDO_FORMATS_ONNX_EXTERNAL_DATA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

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
  // `folder` is the model's own.
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}

  // The file at `location` below the folder. kNotFound when it does not exist, kInvalidArgument when the
  // location leaves the folder or is not a plain file, kIo when it cannot be read.
  Result<std::shared_ptr<const MappedFile>> Open(const std::string& location);

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace rondo::onnx

#endif  // RONDO_FORMATS_ONNX_EXTERNAL_DATA_H_
