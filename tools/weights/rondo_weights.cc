// The C interface. It reads librondo's objects by the layout of librondo's own code, so both must be of one
// release.
#include "tools/weights/rondo_weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/within_memory.h"
#include "runtime/c_handles.h"
#include "runtime/new_error.h"
#include "tools/weights/session_weights.h"
#include "tools/weights/weight_files.h"

namespace rondo::tools {
namespace {

Status CheckValue(const rondo_tensor& value, size_t index) {
  const bool typed = value.dtype >= 0 && static_cast<int>(value.dtype) < kNumDTypes;
  const char* wrong = value.name == nullptr               ? "has no name"
                      : !typed                            ? "has an unknown type"
                      : value.memory != RONDO_HOST_MEMORY ? "lies in a device's memory, not the process's"
                      : value.rank > kMaxRank             ? "has too many dims"
                      : value.rank > 0 && value.dims == nullptr ? "has no dims"
                      : value.data == nullptr                   ? "has no data"
                                                                : nullptr;
  if (wrong == nullptr) return Status::Ok();
  return Status::Error(Code::kInvalidArgument, "value %zu (\"%s\") %s", index,
                       value.name == nullptr ? "" : value.name, wrong);
}

// Every entry of the array has the size that the first entry states.
Result<WeightFile> FromMemory(const rondo_tensor* values, size_t num_values) {
  if (values == nullptr && num_values > 0) return Status::Error(Code::kInvalidArgument, "values is NULL");
  WeightFile file;
  std::set<std::string_view> names;
  for (size_t i = 0; i < num_values; ++i) {
    rondo_tensor value = {};
    const size_t size = values->size;
    if (size < sizeof(size_t))
      return Status::Error(Code::kInvalidArgument, "rondo_tensor: its size is not set; use RONDO_INIT");
    std::memcpy(&value, reinterpret_cast<const char*>(values) + i * size, std::min(size, sizeof(value)));
    RONDO_RETURN_IF_ERROR(CheckValue(value, i));
    if (!names.insert(value.name).second)
      return Status::Error(Code::kInvalidArgument, "weight \"%s\" is given twice", value.name);
    file.values.push_back({value.name,
                           static_cast<DType>(value.dtype),
                           Shape(Span<const int64_t>(value.dims, value.rank)),
                           {static_cast<const uint8_t*>(value.data), static_cast<size_t>(value.bytes)}});
  }
  return file;
}

Status Replace(rondo_session* const* sessions, size_t num_sessions, const WeightFile& file,
               size_t* replaced) {
  if (std::string_view(rondo_version_string()) != RONDO_RELEASE) {
    return Status::Error(Code::kFailedPrecondition, "librondo_weights is of release %s and librondo of %s",
                         RONDO_RELEASE, rondo_version_string());
  }
  std::vector<const Session*> given;
  for (size_t i = 0; i < num_sessions; ++i) {
    if (sessions == nullptr || sessions[i] == nullptr)
      return Status::Error(Code::kInvalidArgument, "session %zu is NULL", i);
    given.push_back(&sessions[i]->session);
  }
  if (given.empty()) return Status::Error(Code::kInvalidArgument, "no session is given");
  RONDO_ASSIGN_OR_RETURN(const NewWeights weights, FitWeights(given[0]->plan().data(), file));
  RONDO_RETURN_IF_ERROR(ReplaceInSessions({given.data(), given.size()}, weights));
  if (replaced != nullptr) *replaced = weights.replaced;
  return Status::Ok();
}

}  // namespace
}  // namespace rondo::tools

using rondo::NewError;
using rondo::Status;
using rondo::WithinMemory;

extern "C" {

rondo_error* rondo_weights_replace_from(rondo_session* const* sessions, size_t num_sessions, const char* path,
                                        size_t* replaced) {
  if (path == nullptr)
    return NewError(Status::Error(rondo::Code::kInvalidArgument, "rondo_weights_replace_from: path is NULL"));
  return NewError(WithinMemory(path, [&] {
    const auto file = rondo::tools::ReadWeightFile(path);
    if (!file.ok()) return file.status();
    return rondo::tools::Replace(sessions, num_sessions, *file, replaced).At("%s", path);
  }));
}

rondo_error* rondo_weights_replace(rondo_session* const* sessions, size_t num_sessions,
                                   const rondo_tensor* values, size_t num_values) {
  return NewError(WithinMemory("rondo_weights_replace", [&] {
    const auto file = rondo::tools::FromMemory(values, num_values);
    if (!file.ok()) return file.status();
    return rondo::tools::Replace(sessions, num_sessions, *file, nullptr);
  }));
}

}  // extern "C"
