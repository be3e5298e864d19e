#include "formats/tensor/safetensors.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/element.h"
#include "core/files.h"

namespace rondo {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

// "F32", "BF16", "BOOL": the names used here, in capitals. FP8 is not read.
std::optional<DType> TypeOf(const std::string& text) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    std::string name = Name(dtype);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(std::toupper(c)); });
    if (name == text && !IsFp8(dtype)) return dtype;
  }
  return std::nullopt;
}

struct Entry {
  uint64_t begin = 0, end = 0;  // offsets in the data
  Tensor tensor;
};

bool Integers(const Json& array, std::vector<int64_t>* out) {
  if (!array.is_array()) return false;
  for (const Json& item : array) {
    if (!item.is_number_integer()) return false;
    if (item.is_number_unsigned() && item.get<uint64_t>() > uint64_t{INT64_MAX}) return false;
    out->push_back(item.get<int64_t>());
  }
  return true;
}

Result<Entry> ReadEntry(const std::string& name, const Json& json, uint64_t data_bytes) {
  const auto bad = [&](const char* what) {
    return Status::Error(Code::kCorrupt, "safetensors entry \"%.200s\": %s", name.c_str(), what);
  };
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    return bad("it lacks dtype, shape or data_offsets");
  }
  std::vector<int64_t> dims, offsets;
  if (!json["dtype"].is_string()) return bad("its dtype is not a text");
  if (!Integers(json["shape"], &dims)) return bad("its shape is not a list of integers");
  if (!Integers(json["data_offsets"], &offsets) || offsets.size() != 2)
    return bad("its data_offsets are not two");

  Entry entry;
  entry.tensor.name = name;
  const std::string& dtype = json["dtype"].get_ref<const std::string&>();
  const std::optional<DType> type = TypeOf(dtype);
  if (!type) {
    return Status::Error(Code::kUnsupported,
                         "safetensors entry \"%.200s\": element type %.20s is not supported", name.c_str(),
                         dtype.c_str());
  }
  entry.tensor.dtype = *type;
  Result<int64_t> bytes = CheckedBytes(*type, dims, &entry.tensor.shape);
  if (!bytes.ok()) return bytes.status().At("safetensors entry \"%.200s\"", name.c_str());
  if (offsets[0] < 0 || offsets[1] < offsets[0] || static_cast<uint64_t>(offsets[1]) > data_bytes) {
    return Status::Error(Code::kCorrupt,
                         "safetensors entry \"%.200s\": bytes %lld to %lld lie outside of the data's %llu",
                         name.c_str(), static_cast<long long>(offsets[0]), static_cast<long long>(offsets[1]),
                         static_cast<unsigned long long>(data_bytes));
  }
  if (offsets[1] - offsets[0] != *bytes) {
    return Status::Error(Code::kCorrupt,
                         "safetensors entry \"%.200s\": %lld bytes where its shape needs %lld", name.c_str(),
                         static_cast<long long>(offsets[1] - offsets[0]), static_cast<long long>(*bytes));
  }
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  return entry;
}

}  // namespace

Result<std::vector<Tensor>> ParseSafetensors(const std::vector<uint8_t>& file) {
  if (file.size() < 8) {
    return Status::Error(Code::kCorrupt,
                         "not a safetensors file: %zu bytes are fewer than its header's length needs",
                         file.size());
  }
  uint64_t header = 0;
  for (size_t i = 0; i < 8; ++i) header |= uint64_t{file[i]} << (8 * i);
  if (header > file.size() - 8 || header > kMaxHeader) {
    return Status::Error(Code::kCorrupt, "the safetensors header of %llu bytes exceeds the file's %zu",
                         static_cast<unsigned long long>(header), file.size());
  }
  const uint8_t* data = file.data() + 8 + header;
  const uint64_t data_bytes = file.size() - 8 - header;
  const Json json = Json::parse(file.data() + 8, data, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::Error(Code::kCorrupt, "the safetensors header is not a JSON object");

  std::vector<Entry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    RONDO_ASSIGN_OR_RETURN(Entry entry, ReadEntry(name, value, data_bytes));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin
           : a.end != b.end   ? a.end < b.end
                              : a.tensor.name < b.tensor.name;
  });
  std::vector<Tensor> tensors;
  uint64_t covered = 0;
  for (Entry& entry : entries) {
    if (entry.begin < covered) {
      return Status::Error(Code::kCorrupt, "safetensors entry \"%.200s\" overlaps the one before it",
                           entry.tensor.name.c_str());
    }
    covered = entry.end;
    entry.tensor.bytes.assign(data + entry.begin, data + entry.end);
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

Result<std::vector<Tensor>> ReadSafetensors(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadInputFile(path));
  Result<std::vector<Tensor>> tensors = ParseSafetensors(bytes);
  if (!tensors.ok()) return tensors.status().At("%s", path.c_str());
  return tensors;
}

}  // namespace rondo
