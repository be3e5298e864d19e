#include "tools/rondo/profile.h"

#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/codegen/cuda/kernel_configuration.h"
#include "core/files.h"
#include "tools/rondo/report.h"
#include "tools/rondo/shallow_json.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMostBytes = 64 << 20;

// A configuration's name, also where the profile has the one of before.
std::string NameNow(const std::string& name) {
  const std::optional<KernelConfiguration> configuration = ParseKernelConfiguration(name);
  return configuration ? Text(*configuration) : name;
}

// Reads fields of one file; the first that is wrong makes the status.
class Fields {
 public:
  explicit Fields(std::string name) : name_(std::move(name)) {}
  const Status& status() const { return status_; }

  const Status& Wrong(const std::string& what) {
    if (status_.ok())
      status_ = Status::Error(Code::kCorrupt, "profile %s: %s", name_.c_str(), Printable(what).c_str());
    return status_;
  }

  std::string TextOf(const Json& json, const char* field, const std::string& where) {
    if (json.contains(field) && json[field].is_string()) return json[field].get<std::string>();
    Wrong(where + "\"" + field + "\" is not a text");
    return "";
  }

  ProfiledKernel KernelOf(const Json& json, const std::string& where) {
    ProfiledKernel kernel;
    kernel.kernel = TextOf(json, "kernel", where);
    kernel.source = TextOf(json, "source", where);
    kernel.choice = TextOf(json, "choice", where);
    if (status_.ok() && !ParseKernelConfiguration(kernel.choice))
      Wrong(where + "\"" + kernel.choice + "\" is not the name of a choice");
    kernel.choice = NameNow(kernel.choice);
    if (!json.contains("microseconds") || !json["microseconds"].is_object()) {
      Wrong(where + "\"microseconds\" is not a list of times by choice");
      return kernel;
    }
    for (const auto& [choice, time] : json["microseconds"].items()) {
      if (!time.is_number() || !(time.get<double>() > 0) || !std::isfinite(time.get<double>()))
        Wrong(where + "the time of \"" + choice + "\" is not a number above 0");
      else
        kernel.microseconds[NameNow(choice)] = time.get<double>();
    }
    return kernel;
  }

  uint64_t KeyOf(const Json& json, const std::string& where) {
    const std::string text = TextOf(json, "key", where);
    uint64_t key = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key, 16);
    if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
      Wrong(where + "\"key\" is not 16 hexadecimal digits");
    return key;
  }

 private:
  std::string name_;
  Status status_;
};

}  // namespace

Result<TuningProfile> ParseProfile(const std::string& text, const std::string& name) {
  Fields fields(name);
  const Json json = ParseShallowJson(text);
  if (!json.is_object()) return fields.Wrong("it is not a JSON object");
  const Json version = json.value("rondo_profile", Json());
  if (!version.is_number_integer())
    return fields.Wrong("it is no profile of rondo tune (\"rondo_profile\" is missing)");
  if (version != kVersion) {
    return fields.Wrong("its version is " + version.dump() + ", and this build reads " +
                        std::to_string(kVersion) + ": make it anew with rondo tune");
  }
  TuningProfile profile;
  profile.gpu = fields.TextOf(json, "gpu", "");
  profile.architecture = fields.TextOf(json, "architecture", "");
  const Json driver = json.value("driver", Json());
  if (!driver.is_number_unsigned()) fields.Wrong("\"driver\" is not a number");
  const Json kernels = json.value("kernels", Json());
  if (!kernels.is_array()) fields.Wrong("\"kernels\" is not a list");
  if (!fields.status().ok()) return fields.status();
  profile.driver = driver.get<uint32_t>();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string where = "kernel " + std::to_string(i) + ": ";
    if (!kernels[i].is_object()) return fields.Wrong(where + "it is not an object");
    const uint64_t key = fields.KeyOf(kernels[i], where);
    ProfiledKernel kernel = fields.KernelOf(kernels[i], where);
    if (!fields.status().ok()) return fields.status();
    if (!profile.kernels.emplace(key, std::move(kernel)).second)
      return fields.Wrong(where + "an earlier one has its key");
  }
  return profile;
}

Result<TuningProfile> ReadProfile(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadInputFile(path));
  if (bytes.size() > kMostBytes)
    return Status::Error(Code::kCorrupt, "profile %s: %zu bytes exceed %zu", path.c_str(), bytes.size(),
                         kMostBytes);
  return ParseProfile(std::string(bytes.begin(), bytes.end()), path);
}

std::string ProfileJson(const TuningProfile& profile) {
  Json json;
  json["rondo_profile"] = kVersion;
  json["gpu"] = profile.gpu;
  json["architecture"] = profile.architecture;
  json["driver"] = profile.driver;
  json["kernels"] = Json::array();
  for (const auto& [key, kernel] : profile.kernels) {
    Json entry;
    entry["key"] = Printf("%016" PRIx64, key);
    entry["kernel"] = kernel.kernel;
    entry["source"] = kernel.source;
    entry["choice"] = kernel.choice;
    entry["microseconds"] = Json::object();
    for (const auto& [choice, time] : kernel.microseconds)
      entry["microseconds"][choice] = std::round(time * 1000) / 1000;
    json["kernels"].push_back(entry);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status WriteProfile(const TuningProfile& profile, const std::string& path) {
  const std::string text = ProfileJson(profile);
  constexpr FileKind kProfile = {"a profile of rondo tune", "{\n  \"rondo_profile\":"};
  return ReplaceFile(path, kProfile, text.data(), text.size());
}

KernelProfile ChoicesOf(const TuningProfile& profile) {
  KernelProfile choices;
  choices.architecture = profile.architecture;
  for (const auto& [key, kernel] : profile.kernels)
    choices.choices[key] = *ParseKernelConfiguration(kernel.choice);
  return choices;
}

}  // namespace rondo::tools
