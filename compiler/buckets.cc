#include "compiler/buckets.h"

#include <algorithm>
#include <set>

#include "compiler/ir/port_names.h"
#include "compiler/model_shapes.h"

namespace rondo {
namespace {

constexpr size_t kMostBuckets = 1024;

using Lengths = std::map<std::string, std::vector<int64_t>>;

// The distinct values in ascending order.
std::vector<int64_t> InOrder(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Whether the model has to be read: several values or a range are given somewhere.
bool AnySeveral(const ModelSource& source, const CompileOptions& options) {
  const auto several = [](const auto& entry) { return entry.second.size() > 1; };
  return !source.lengths.empty() || !options.lengths.empty() ||
         std::any_of(source.shapes.begin(), source.shapes.end(), several) ||
         std::any_of(options.shapes.begin(), options.shapes.end(), several);
}

// The values of those symbolic dimensions in `known` for which several values or a range are given. Values
// given for the program alone take precedence.
Lengths LengthsOf(const ModelSource& source, const CompileOptions& options,
                  const std::set<std::string>& known) {
  Lengths lengths;
  std::set<std::string> single;
  const auto take = [&](const Lengths& given, bool are_ranges) {
    for (const auto& [name, values] : given) {
      if (known.count(name) == 0 || !lengths.emplace(name, InOrder(values)).second) continue;
      if (!are_ranges && values.size() == 1) single.insert(name);
    }
  };
  take(source.lengths, true);
  take(source.shapes, false);
  take(options.lengths, true);
  take(options.shapes, false);
  for (const std::string& name : single) lengths.erase(name);
  return lengths;
}

std::string NameOfBucket(const std::string& family, const std::vector<BucketLength>& rooms) {
  std::string name;
  for (const BucketLength& room : rooms)
    name += (name.empty() ? "[" : ",") + room.name + "=" + std::to_string(room.room);
  return family + name + "]";
}

Status TooMany(const std::string& program) {
  return Status::Error(
      Code::kInvalidArgument,
      "program \"%s\" has more than %zu combinations of lengths: give fewer values (--shape)",
      program.c_str(), kMostBuckets);
}

}  // namespace

Result<std::vector<ModelSource>> WithBuckets(const CompileOptions& options) {
  std::vector<ModelSource> all;
  std::set<std::string> names;  // of symbolic dimensions
  for (const ModelSource& source : options.models) {
    if (!AnySeveral(source, options)) {
      all.push_back(source);
      continue;
    }
    RONDO_ASSIGN_OR_RETURN(const std::shared_ptr<onnx::Model> model,
                           onnx::Model::Open(ModelPathOn(source.path, 0), options.external_data));
    const std::set<std::string> known = LengthNames(*model);
    names.insert(known.begin(), known.end());
    std::vector<std::vector<BucketLength>> combinations(1);
    for (const auto& [name, values] : LengthsOf(source, options, known)) {
      std::vector<std::vector<BucketLength>> more;
      for (const std::vector<BucketLength>& rooms : combinations) {
        for (const int64_t value : values) {
          more.push_back(rooms);
          more.back().push_back({name, value, ""});
        }
        if (more.size() > kMostBuckets) return TooMany(source.program);
      }
      combinations = std::move(more);
    }
    for (std::vector<BucketLength>& rooms : combinations) {
      ModelSource& bucket = all.emplace_back(source);
      if (rooms.empty()) continue;
      bucket.bucket_of = source.program;
      bucket.program = NameOfBucket(source.program, rooms);
      for (const BucketLength& room : rooms) bucket.shapes[room.name] = {room.room};
      bucket.is_largest = &rooms == &combinations.back();
      bucket.rooms = std::move(rooms);
    }
  }
  for (const auto& [name, values] : options.lengths) {
    if (names.count(name) != 0) continue;
    return Status::Error(
        Code::kInvalidArgument,
        "shape \"%s\" is a range, and no model has a symbolic dimension of that name; nearest: %s",
        name.c_str(), ir::NearNames({names.begin(), names.end()}, name).c_str());
  }
  return all;
}

}  // namespace rondo
