#include "tools/rondo/model_arguments.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

namespace rondo::tools {
namespace {

// "NAME=1x128", "NAME=1,128", "NAME=-1x128" or "NAME=" for a scalar.
bool ParseShape(const std::string& argument, std::map<std::string, std::vector<int64_t>>* shapes) {
  const size_t equals = argument.rfind('=');
  if (equals == 0 || equals == std::string::npos) return false;
  std::vector<int64_t> dims;
  const char* at = argument.data() + equals + 1;
  const char* end = argument.data() + argument.size();
  while (at < end) {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < -1) return false;  // -1: as the model says
    dims.push_back(value);
    at = next;
    if (at == end) break;
    if (*at != 'x' && *at != ',') return false;
    if (++at == end) return false;
  }
  return shapes->emplace(argument.substr(0, equals), std::move(dims)).second;
}

// "NAME=3", "NAME=0.5", "NAME=true".
bool ParseBound(const std::string& argument, std::map<std::string, double>* bound) {
  const size_t equals = argument.rfind('=');
  if (equals == 0 || equals == std::string::npos) return false;
  const std::string text = argument.substr(equals + 1);
  double number = text == "true";
  if (text != "true" && text != "false") {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return false;
  }
  return bound->emplace(argument.substr(0, equals), number).second;
}

// Whose "prefill:x=1x128" is (null: everybody's), and "x=1x128". A name may hold ':' itself where no program
// has it.
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
    if (!ParseShape(argument, model != nullptr ? &model->shapes : &options->shapes))
      return "--shape " + shape + " is not of the form NAME=1x128, or its name is given twice";
  }
  for (const std::string& number : bound) {
    auto [model, argument] = ProgramOf(number, options);
    if (!ParseBound(argument, model != nullptr ? &model->bound_inputs : &options->bound_inputs))
      return "--bind " + number + " is not of the form NAME=NUMBER or NAME=true, or its name is given twice";
  }
  return "";
}

}  // namespace rondo::tools
