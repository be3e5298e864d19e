#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/import/synthetic_weight.h"
#include "compiler/within_memory.h"
#include "core/synthetic.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/reader.h"

namespace rondo {
namespace {

// One tensor of the missing file.
struct Missing {
  std::string name, location;
  DType dtype;
  Shape shape;
  uint64_t offset, bytes;
};

Status CollectMissing(onnx::Model* model, const onnx::GraphProto& graph, std::vector<Missing>* missing) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    RONDO_ASSIGN_OR_RETURN(onnx::TensorValue value, model->Load(tensor, true));
    if (!value.missing) continue;
    const uint64_t bytes = static_cast<uint64_t>(value.shape.elements() * ByteSize(value.dtype));
    missing->push_back({tensor.name(), value.location, value.dtype, value.shape, value.offset, bytes});
  }
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) RONDO_RETURN_IF_ERROR(CollectMissing(model, attribute.g(), missing));
      for (const onnx::GraphProto& g : attribute.graphs()) {
        RONDO_RETURN_IF_ERROR(CollectMissing(model, g, missing));
      }
    }
  }
  return Status::Ok();
}

// Checks that the tensors all lie in one file, one after another.
Status CheckLayout(const std::vector<Missing>& missing, const std::string& model_path) {
  if (missing.empty()) {
    return Status::Error(Code::kInvalidArgument, "model \"%s\" misses no external data", model_path.c_str());
  }
  for (size_t i = 1; i < missing.size(); ++i) {
    const Missing &a = missing[i - 1], &b = missing[i];
    if (a.location != b.location) {
      return Status::Error(Code::kInvalidArgument,
                           "model \"%s\" misses more than one external data file: \"%s\" and \"%s\"",
                           model_path.c_str(), a.location.c_str(), b.location.c_str());
    }
    if (a.offset + a.bytes > b.offset) {
      return Status::Error(Code::kUnsupported,
                           "tensors \"%s\" and \"%s\" share bytes of external data file \"%s\", but their "
                           "synthetic weights differ",
                           a.name.c_str(), b.name.c_str(), a.location.c_str());
    }
  }
  return Status::Ok();
}

// A file that its destructor removes unless it is kept.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {}
  ~NewFile() {
    if (file_ >= 0) close(file_);
    if (file_ >= 0 && !kept_) unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  bool open_ok() const { return file_ >= 0; }
  Status Fail(const char* doing) const {
    return Status::Error(Code::kIo, "%s \"%s\": %s", doing, path_.c_str(), std::strerror(errno));
  }
  Status WriteAt(uint64_t offset, const uint8_t* bytes, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t n = pwrite(file_, bytes + done, size - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Fail("writing");
      done += static_cast<size_t>(n);
    }
    return Status::Ok();
  }
  void Keep() { kept_ = true; }

 private:
  std::string path_;
  int file_;
  bool kept_ = false;
};

Status Write(const std::string& model_path, uint64_t seed, const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(std::shared_ptr<onnx::Model> model, onnx::Model::Open(model_path));
  std::vector<Missing> missing;
  RONDO_RETURN_IF_ERROR(CollectMissing(model.get(), model->proto().graph(), &missing));
  std::stable_sort(missing.begin(), missing.end(),
                   [](const Missing& a, const Missing& b) { return a.offset < b.offset; });
  RONDO_RETURN_IF_ERROR(CheckLayout(missing, model_path));

  NewFile file(path);
  if (!file.open_ok()) return file.Fail("creating");
  constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
  std::vector<uint8_t> piece(kPieceBytes);
  for (const Missing& tensor : missing) {
    const uint64_t key = SyntheticKey(seed, tensor.name);
    const float scale = SyntheticScale(tensor.shape);
    for (uint64_t first = 0; first < tensor.bytes; first += kPieceBytes) {
      const uint64_t bytes = std::min(kPieceBytes, tensor.bytes - first);
      const uint64_t size = static_cast<uint64_t>(ByteSize(tensor.dtype));
      FillSyntheticRange(tensor.dtype, key, scale, first / size, bytes / size, piece.data());
      RONDO_RETURN_IF_ERROR(file.WriteAt(tensor.offset + first, piece.data(), bytes));
    }
  }
  file.Keep();
  return Status::Ok();
}

}  // namespace

Status WriteSynthetic(const std::string& model_path, uint64_t seed, const std::string& path) {
  return WithinMemory("writing synthetic weights", [&] { return Write(model_path, seed, path); });
}

}  // namespace rondo
