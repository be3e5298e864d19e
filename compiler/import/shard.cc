#include "compiler/import/shard.h"

#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

using Data = std::shared_ptr<ir::ConstantData>;
using Properties = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;

constexpr const char* kKey = "rondo.shard";

const std::string* Find(const Properties& properties, const std::string& key) {
  for (const onnx::StringStringEntryProto& entry : properties) {
    if (entry.key() == key) return &entry.value();
  }
  return nullptr;
}

const std::string* FindShard(const onnx::ModelProto& model, const onnx::TensorProto& tensor) {
  if (const std::string* own = Find(tensor.metadata_props(), kKey)) return own;
  const std::string key = std::string(kKey) + "." + tensor.name();
  if (const std::string* graph = Find(model.graph().metadata_props(), key)) return graph;
  return Find(model.metadata_props(), key);
}

// The parsed value of the attribute.
struct Cut {
  int axis = 0;
  std::vector<int64_t> segments;  // along the axis
};

bool ParseNumber(const char** at, const char* end, int64_t* number) {
  auto [next, error] = std::from_chars(*at, end, *number);
  *at = next;
  return error == std::errc();
}

bool Parse(const std::string& text, Cut* cut) {
  const char* at = text.data();
  const char* end = at + text.size();
  int64_t axis = 0;
  if (!ParseNumber(&at, end, &axis) || axis < -kMaxRank || axis >= kMaxRank) return false;
  cut->axis = static_cast<int>(axis);
  if (at == end) return true;
  if (*at != ':') return false;
  while (at != end) {
    ++at;  // skips the colon or a comma
    int64_t length = 0;
    if (!ParseNumber(&at, end, &length) || length <= 0 || (at != end && *at != ',')) return false;
    cut->segments.push_back(length);
  }
  return true;
}

Status Fit(const Shape& shape, uint32_t devices, Cut* cut) {
  if (cut->axis < 0) cut->axis += shape.rank;
  if (cut->axis < 0 || cut->axis >= shape.rank) {
    return Status::Error(Code::kCorrupt, "it has no such axis: its rank is %d", shape.rank);
  }
  const int64_t extent = shape[cut->axis];
  if (cut->segments.empty()) cut->segments.push_back(extent);
  int64_t total = 0;
  for (int64_t segment : cut->segments) {
    if (segment % devices != 0) {
      return Status::Error(Code::kInvalidArgument, "%lld along axis %d cannot be cut into %u equal slices",
                           static_cast<long long>(segment), cut->axis, devices);
    }
    if (__builtin_add_overflow(total, segment, &total)) total = -1;
  }
  if (total == extent) return Status::Ok();
  return Status::Error(Code::kCorrupt, "its segments have %lld elements along axis %d, which has %lld",
                       static_cast<long long>(total), cut->axis, static_cast<long long>(extent));
}

Data Slice(const std::shared_ptr<const ir::ConstantData>& whole, const Cut& cut, uint32_t rank,
           uint32_t devices) {
  const Shape& shape = whole->shape;
  int64_t rows = 1, inner = ByteSize(whole->dtype);
  for (int d = 0; d < cut.axis; ++d) rows *= shape[d];
  for (int d = cut.axis + 1; d < shape.rank; ++d) inner *= shape[d];
  auto share = std::make_shared<ir::ConstantData>(*whole);
  share->shape[cut.axis] = shape[cut.axis] / devices;
  const size_t row_bytes = static_cast<size_t>(shape[cut.axis] * inner);
  if (rows == 1 && cut.segments.size() == 1) {
    share->bytes = whole->bytes.subspan(row_bytes / devices * rank, row_bytes / devices);
    return share;
  }
  auto bytes = std::make_shared<std::vector<uint8_t>>();
  bytes->reserve(static_cast<size_t>(share->byte_size()));
  for (int64_t row = 0; row < rows; ++row) {
    auto from = whole->bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
    for (int64_t segment : cut.segments) {
      const size_t slice = static_cast<size_t>(segment / devices * inner);
      auto own = from.subspan(slice * rank, slice);
      bytes->insert(bytes->end(), own.begin(), own.end());
      from = from.subspan(slice * devices);
    }
  }
  share->bytes = {bytes->data(), bytes->size()};
  share->keep = bytes;
  return share;
}

}  // namespace

Result<Data> ShareOf(const onnx::ModelProto& model, const onnx::TensorProto& tensor, Data whole,
                     const ImportOptions& options) {
  const std::string* text = FindShard(model, tensor);
  if (text == nullptr) return whole;
  const uint32_t devices = options.devices == 0 ? 1 : options.devices;
  Cut cut;
  if (!Parse(*text, &cut)) {
    return Status::Error(Code::kCorrupt,
                         "weight \"%.200s\": attribute %s is \"%.100s\", which must be AXIS or "
                         "AXIS:LENGTH,LENGTH,...",
                         tensor.name().c_str(), kKey, text->c_str());
  }
  RONDO_RETURN_IF_ERROR(
      Fit(whole->shape, devices, &cut)
          .At("weight \"%.200s\", attribute %s \"%.100s\"", tensor.name().c_str(), kKey, text->c_str()));
  if (devices == 1) return whole;
  return Slice(ir::WithBytes(whole), cut, options.rank, devices);
}

}  // namespace rondo::importer
