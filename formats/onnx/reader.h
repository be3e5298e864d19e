// Reads ONNX model files. Nothing in a file is trusted: a damaged or hostile one gives an error, never a
// crash, and external data must lie in allowed places (external_data.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/span.h"
#include "core/status.h"
#include "formats/onnx/external_data.h"

namespace rondo::onnx {

class ModelProto;  // onnx.pb.h, which only code that walks the messages needs
class TensorProto;

// One tensor of a model with its elements.
struct TensorValue {
  DType dtype = DType::kF32;
  Shape shape;
  // Dense, row-major, aligned to the element; kept alive by `owner`. Empty when `missing`.
  Span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
  // The external file does not exist (only with allow_missing).
  bool missing = false;
  // Where external data lies, even if it is missing: the file's location, and the offset of the first byte.
  std::string location;
  uint64_t offset = 0;
};

// A parsed model file. Immutable except for its cache of mapped files, so one thread at a time.
class Model : public std::enable_shared_from_this<Model> {
 public:
  // Reads and parses the file at `path`, and sorts nodes topologically (node_order.h). kNotFound, kIo, or
  // kCorrupt when it is not an ONNX model. `external_data`: folders that links to external data may lead to,
  // besides the model's own and its cache's.
  static Result<std::shared_ptr<Model>> Open(const std::string& path,
                                             const std::vector<std::string>& external_data = {});
  // Parses a model from memory; external data is read from `folder`.
  static Result<std::shared_ptr<Model>> Parse(Span<const uint8_t> bytes, const std::string& folder,
                                              const std::vector<std::string>& external_data = {});
  ~Model();

  const ModelProto& proto() const { return *proto_; }
  // Of the model file.
  int64_t file_bytes() const { return file_bytes_; }
  // The opset version that the model imports for `domain` ("" and "ai.onnx" are the same); 0 when none.
  int64_t OpsetVersion(const std::string& domain) const;

  // The elements of a tensor of this model. `allow_missing`: a missing external file is not an error.
  Result<TensorValue> Load(const TensorProto& tensor, bool allow_missing);

 private:
  Model(std::string folder, std::vector<std::string> external_data);
  Result<TensorValue> LoadExternal(const TensorProto& tensor, TensorValue value, bool allow_missing);

  std::unique_ptr<ModelProto> proto_;
  int64_t file_bytes_ = 0;
  ExternalFiles files_;
};

}  // namespace rondo::onnx
