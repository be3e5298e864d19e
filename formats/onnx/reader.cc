#include "formats/onnx/reader.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <utility>

#include "formats/onnx/node_order.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/tensor.h"

namespace rondo::onnx {
namespace {

// The most nested messages; a graph in a node's attribute takes three levels.
constexpr int kMaxDepth = 100;

// The location of an external tensor, from its entries.
struct ExternalRange {
  std::string location;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool has_length = false;
};

Status ParseNumber(const TensorProto& tensor, const std::string& key, const std::string& text,
                   uint64_t* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc() && end == text.data() + text.size()) return Status::Ok();
  return Status::Error(Code::kCorrupt, "tensor \"%.200s\": external data %s \"%.100s\" is not a number",
                       tensor.name().c_str(), key.c_str(), text.c_str());
}

Result<ExternalRange> ParseRange(const TensorProto& tensor) {
  ExternalRange range;
  for (const StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") range.location = entry.value();
    if (entry.key() == "offset") {
      RONDO_RETURN_IF_ERROR(ParseNumber(tensor, entry.key(), entry.value(), &range.offset));
    }
    if (entry.key() == "length") {
      RONDO_RETURN_IF_ERROR(ParseNumber(tensor, entry.key(), entry.value(), &range.length));
      range.has_length = true;
    }
  }
  return range;
}

std::string FolderOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Model::Model(std::string folder, std::vector<std::string> external_data)
    : proto_(std::make_unique<ModelProto>()), files_(std::move(folder), std::move(external_data)) {}
Model::~Model() = default;

Result<std::shared_ptr<Model>> Model::Open(const std::string& path,
                                           const std::vector<std::string>& external_data) {
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return Status::Error(errno == ENOENT ? Code::kNotFound : Code::kIo,
                         "model \"%.500s\" cannot be opened: %s", path.c_str(), std::strerror(errno));
  }
  auto file = MappedFile::Map(descriptor, path);
  close(descriptor);
  if (!file.ok()) return file.status().At("model");
  auto model = Parse((*file)->bytes(), FolderOf(path), external_data);
  if (!model.ok()) return model.status().At("model \"%.500s\"", path.c_str());
  return model;
}

namespace {

// Exporters write -1 for an open dimension; such dimensions are cleared here.
void OpenNegativeDims(GraphProto* graph) {
  for (auto* ports : {graph->mutable_input(), graph->mutable_output(), graph->mutable_value_info()}) {
    for (ValueInfoProto& port : *ports) {
      if (!port.type().tensor_type().has_shape()) continue;
      for (auto& dim : *port.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
        if (dim.has_dim_value() && dim.dim_value() < 0) dim.clear_dim_value();
      }
    }
  }
}

}  // namespace

Result<std::shared_ptr<Model>> Model::Parse(Span<const uint8_t> bytes, const std::string& folder,
                                            const std::vector<std::string>& external_data) {
  if (bytes.empty()) return Status::Error(Code::kCorrupt, "the file is empty");
  if (bytes.size() > INT_MAX) {
    return Status::Error(Code::kUnsupported,
                         "%zu bytes exceed the limit of %d of a model file; keep the weights in "
                         "an external data file",
                         bytes.size(), INT_MAX);
  }
  std::shared_ptr<Model> model(new Model(folder, external_data));
  model->file_bytes_ = static_cast<int64_t>(bytes.size());
  google::protobuf::io::CodedInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxDepth);
  stream.SetTotalBytesLimit(INT_MAX);
  if (!model->proto_->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return Status::Error(Code::kCorrupt,
                         "not an ONNX model, or damaged: the message ends or nests wrongly "
                         "before byte %zu",
                         bytes.size());
  }
  if (!model->proto_->has_graph() || model->proto_->opset_import_size() == 0) {
    return Status::Error(Code::kCorrupt, "not an ONNX model: it has no %s",
                         model->proto_->has_graph() ? "opset_import" : "graph");
  }
  SortNodes(model->proto_.get());
  OpenNegativeDims(model->proto_->mutable_graph());
  return model;
}

int64_t Model::OpsetVersion(const std::string& domain) const {
  auto canonical = [](const std::string& d) { return d == "ai.onnx" ? std::string() : d; };
  for (const OperatorSetIdProto& opset : proto_->opset_import()) {
    if (canonical(opset.domain()) == canonical(domain)) return opset.version();
  }
  return 0;
}

Result<TensorValue> Model::Load(const TensorProto& tensor, bool allow_missing) {
  TensorValue value;
  auto dtype = DTypeOf(tensor.data_type());
  if (!dtype.ok()) return dtype.status().At("tensor \"%.200s\"", tensor.name().c_str());
  value.dtype = *dtype;
  RONDO_ASSIGN_OR_RETURN(value.shape, ShapeOf(tensor, value.dtype));
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    return LoadExternal(tensor, std::move(value), allow_missing);
  }
  auto storage = std::make_shared<std::vector<uint8_t>>();
  RONDO_ASSIGN_OR_RETURN(value.bytes, InlineBytes(tensor, value.dtype, value.shape, storage.get()));
  if (value.bytes.data() == storage->data()) {
    value.owner = storage;
  } else {
    value.owner = shared_from_this();
  }
  return value;
}

Result<TensorValue> Model::LoadExternal(const TensorProto& tensor, TensorValue value, bool allow_missing) {
  const char* name = tensor.name().c_str();
  RONDO_ASSIGN_OR_RETURN(ExternalRange range, ParseRange(tensor));
  uint64_t needed = static_cast<uint64_t>(value.shape.elements() * ByteSize(value.dtype));
  if (range.has_length && range.length != needed) {
    return Status::Error(
        Code::kCorrupt, "tensor \"%.200s\": external data of %llu bytes; its shape and type need %llu", name,
        static_cast<unsigned long long>(range.length), static_cast<unsigned long long>(needed));
  }
  value.location = range.location;
  value.offset = range.offset;
  auto file = files_.Open(range.location);
  if (!file.ok()) {
    if (file.status().code() == Code::kNotFound && allow_missing) {
      value.missing = true;
      return value;
    }
    return file.status().At("tensor \"%.200s\"", name);
  }
  Span<const uint8_t> bytes = (*file)->bytes();
  if (range.offset > bytes.size() || needed > bytes.size() - range.offset) {
    return Status::Error(
        Code::kCorrupt,
        "tensor \"%.200s\": bytes [%llu, %llu) lie outside external data file \"%.200s\" of %zu bytes", name,
        static_cast<unsigned long long>(range.offset), static_cast<unsigned long long>(range.offset + needed),
        range.location.c_str(), bytes.size());
  }
  value.bytes = bytes.subspan(range.offset, needed);
  value.owner = *file;
  bool aligned =
      reinterpret_cast<uintptr_t>(value.bytes.data()) % static_cast<uintptr_t>(ByteSize(value.dtype)) == 0;
  if (!aligned || value.dtype == DType::kBool) {
    auto copy = std::make_shared<std::vector<uint8_t>>(value.bytes.begin(), value.bytes.end());
    if (value.dtype == DType::kBool) {
      for (uint8_t& b : *copy) b = b != 0;
    }
    value.bytes = {copy->data(), copy->size()};
    value.owner = copy;
  }
  return value;
}

}  // namespace rondo::onnx
