#include "tools/rondo/model_arguments.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

namespace rondo::tools {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

// 16, 32, 64 for 16 and 64; and also 100 if that is the end.
bool AddRange(int64_t first, int64_t last, std::vector<int64_t>* values) {
  if (first < 1 || last < first) return false;
  for (int64_t value = first; value < last; value *= 2) values->push_back(value);
  values->push_back(last);
  return true;
}

// "NAME=1x128", "NAME=1,128", "NAME=-1x128", or "NAME=" for a scalar; "NAME=16..64", alone or in a list, for
// a symbolic dimension.
bool ParseShape(const std::string& argument, Shapes* shapes, Shapes* lengths) {
  constexpr std::string_view kRange = "..";
  const size_t equals = argument.rfind('=');
  if (equals == 0 || equals == std::string::npos) return false;
  std::vector<int64_t> dims;
  bool ranges = false, crosses = false;
  const char* at = argument.data() + equals + 1;
  const char* end = argument.data() + argument.size();
  const auto number = [&](int64_t* value) {
    const auto [next, error] = std::from_chars(at, end, *value);
    at = next;
    return error == std::errc() && *value >= -1;  // -1: as in the model
  };
  while (at < end) {
    int64_t value = 0, last = 0;
    if (!number(&value)) return false;
    if (std::string_view(at, static_cast<size_t>(end - at)).substr(0, 2) == kRange) {
      at += kRange.size();
      if (!number(&last) || !AddRange(value, last, &dims)) return false;
      ranges = true;
    } else {
      dims.push_back(value);
    }
    if (at == end) break;
    if (*at != 'x' && *at != ',') return false;
    crosses = crosses || *at == 'x';
    if (++at == end) return false;
  }
  if (ranges && crosses) return false;
  const std::string name = argument.substr(0, equals);
  const bool is_new = shapes->count(name) == 0 && lengths->count(name) == 0;
  (ranges ? lengths : shapes)->emplace(name, std::move(dims));
  return is_new;
}

// "3", "0.5", "true".
bool ParseNumber(const std::string& text, double* number) {
  *number = text == "true";
  if (text == "true" || text == "false") return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// "[1,2,3]", "[[1,2],[3,4]]", "[]": numbers in rows of equal length.
bool ParseArray(const std::string& text, Tensor* array) {
  std::vector<double> numbers;
  std::vector<int64_t> dims, counts;  // counts: elements so far in the open list of each depth
  size_t depth = 0, leaf = 0;         // leaf: the depth of the numbers
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '[') {
      if (depth == static_cast<size_t>(kMaxRank) || (at > 0 && depth == leaf)) return false;
      if (depth > 0) ++counts[depth - 1];
      counts.resize(++depth);
      counts.back() = 0;
      dims.resize(std::max(dims.size(), depth), -1);
    } else if (c == ']') {
      if (depth == 0) return false;
      int64_t& dim = dims[--depth];
      if (dim >= 0 && dim != counts[depth]) return false;
      dim = counts[depth];
    } else if (c != ',' && c != ' ') {
      const size_t end = std::min(text.find_first_of(",] ", at), text.size());
      if (leaf == 0) leaf = depth;
      if (depth == 0 || depth != leaf || depth != dims.size() ||
          !ParseNumber(text.substr(at, end - at), &numbers.emplace_back()))
        return false;
      ++counts[depth - 1];
      at = end - 1;
    }
  }
  array->dtype = DType::kF64;
  array->shape = Shape(Span<const int64_t>(dims.data(), dims.size()));
  array->bytes.resize(numbers.size() * sizeof(double));
  std::memcpy(array->bytes.data(), numbers.data(), array->bytes.size());
  return !dims.empty() && depth == 0 && array->shape.elements() == static_cast<int64_t>(numbers.size());
}

// Parses "NAME=3", "NAME=[1,2]" or "NAME=FILE.npy". Returns what is wrong; "" if nothing is.
std::string ReadBound(const std::string& argument, BoundValues* bound) {
  const size_t equals = argument.find('=');
  if (equals == 0 || equals == std::string::npos) return "is not of the form NAME=VALUE";
  const std::string text = argument.substr(equals + 1);
  BoundValue value;
  Tensor array;
  if (!text.empty() && text[0] == '[') {
    if (!ParseArray(text, &array)) return "is no array of numbers as [1,2] or [[1,2],[3,4]]";
    value = BoundValue(std::move(array));
  } else if (!ParseNumber(text, &value.number)) {
    Result<Tensor> file = ReadTensor(text);
    if (!file.ok())
      return std::string("is no number, no array as [1,2] and no file: ") + file.status().message();
    value = BoundValue(file.Take());
  }
  if (!bound->emplace(argument.substr(0, equals), std::move(value)).second) return "names an input twice";
  return "";
}

// Splits "prefill:x=1x128" into the model (null: all models) and "x=1x128". A name may contain ':' if no
// program has the part before it as its name.
std::pair<ModelSource*, std::string> ProgramOf(const std::string& given, CompileOptions* options) {
  for (ModelSource& model : options->models) {
    if (given.rfind(model.program + ":", 0) == 0) return {&model, given.substr(model.program.size() + 1)};
  }
  return {nullptr, given};
}

}  // namespace

ModelSource ParseModel(const std::string& argument) {
  const size_t equals = argument.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || equals == 0 ||
      argument.substr(0, equals).find('/') != std::string::npos ||
      std::filesystem::exists(argument, ignored)) {
    return {"main", argument};
  }
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

std::string ReadModelArguments(const std::vector<std::string>& shapes, const std::vector<std::string>& bound,
                               CompileOptions* options) {
  for (const std::string& shape : shapes) {
    auto [model, argument] = ProgramOf(shape, options);
    if (!ParseShape(argument, model != nullptr ? &model->shapes : &options->shapes,
                    model != nullptr ? &model->lengths : &options->lengths)) {
      return "--shape " + shape +
             " is not of the form NAME=1x128, NAME=1,4,16 or NAME=16..512, or its name is given twice";
    }
  }
  for (const std::string& number : bound) {
    auto [model, argument] = ProgramOf(number, options);
    const std::string wrong =
        ReadBound(argument, model != nullptr ? &model->bound_inputs : &options->bound_inputs);
    if (!wrong.empty()) return "--bind " + number + " " + wrong;
  }
  return "";
}

}  // namespace rondo::tools
