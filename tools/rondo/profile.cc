#include "tools/rondo/profile.h"

#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/kernel_configuration.h"
#include "core/files.h"
#include "formats/plan/format.h"
#include "tools/rondo/report.h"
#include "tools/rondo/shallow_json.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMostBytes = 64 << 20;
constexpr uint64_t kMostMessage = uint64_t{1} << 40;  // bytes of a collective
constexpr uint64_t kMostRanks = 64;

// A configuration's current name; a profile may contain an older one.
std::string NameNow(const std::string& name) {
  const std::optional<KernelConfiguration> configuration = ParseKernelConfiguration(name);
  return configuration ? Text(*configuration) : name;
}

// Reads fields of one file. The first wrong field sets the status.
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

  // Microseconds.
  double TimeOf(const Json& json, const std::string& where) {
    const double time = json.is_number() ? json.get<double>() : 0;
    if (time >= kLeastMeasured && time <= kMostMeasured) return ToThousandths(time);
    Wrong(where + Printf(" is not a number of microseconds from %g to %g", kLeastMeasured, kMostMeasured));
    return kLeastMeasured;
  }

  uint64_t CountOf(const Json& json, const char* field, uint64_t least, uint64_t most,
                   const std::string& where) {
    const Json value = json.value(field, Json());
    const uint64_t count = value.is_number_unsigned() ? value.get<uint64_t>() : most + 1;
    if (count >= least && count <= most) return count;
    Wrong(where + "\"" + field + "\" is not a number from " + std::to_string(least) + " to " +
          std::to_string(most));
    return least;
  }

  TimedKernel TimedKernelOf(const Json& json, const std::string& where) {
    TimedKernel kernel;
    kernel.kernel = TextOf(json, "kernel", where);
    kernel.source = TextOf(json, "source", where);
    kernel.launches = CountOf(json, "launches", 1, UINT32_MAX, where);
    kernel.microseconds = TimeOf(json.value("microseconds", Json()), where + "\"microseconds\"");
    return kernel;
  }

  MeasuredCollective CollectiveOf(const Json& json, const std::string& where) {
    MeasuredCollective collective;
    const std::string op = TextOf(json, "op", where), by = TextOf(json, "by", where);
    bool known = false;
    for (int i = 0; i <= static_cast<int>(kLastCollectiveOp) && !known; ++i) {
      collective.op = static_cast<CollectiveOp>(i);
      known = op == Name(collective.op);
    }
    if (!known) Wrong(where + "\"" + op + "\" is no collective");
    if (by != "nccl" && by != "small" && by != "host")
      Wrong(where + "\"by\" is none of nccl, small, host: \"" + by + "\"");
    collective.small = by == "small";
    collective.ranks = static_cast<uint32_t>(CountOf(json, "ranks", 2, kMostRanks, where));
    const Json times = json.value("microseconds", Json());
    if (!times.is_object() || times.empty()) {
      Wrong(where + "\"microseconds\" is not a list of times by bytes");
      return collective;
    }
    for (const auto& [bytes, time] : times.items()) {
      uint64_t size = 0;
      const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
      if (error != std::errc() || end != bytes.data() + bytes.size() || size < 1 || size > kMostMessage)
        Wrong(where + "\"" + bytes + "\" is not a number of bytes from 1 to " + std::to_string(kMostMessage));
      collective.microseconds[size] = TimeOf(time, where + "the time of " + bytes + " bytes");
    }
    return collective;
  }

  TimedRun RunOf(const Json& json, const std::string& where) {
    TimedRun run;
    run.plan = TextOf(json, "plan", where);
    run.program = TextOf(json, "program", where);
    run.devices = static_cast<uint32_t>(CountOf(json, "devices", 1, kMostRanks, where));
    run.microseconds = TimeOf(json.value("microseconds", Json()), where + "\"microseconds\"");
    run.estimated = TimeOf(json.value("estimated", Json()), where + "\"estimated\"");
    return run;
  }

  // Calls `read` with each object of the list `field`, which may be absent.
  template <typename Read>
  void Each(const Json& json, const char* field, const char* what, Read read) {
    const Json list = json.value(field, Json::array());
    if (!list.is_array()) Wrong(std::string("\"") + field + "\" is not a list");
    for (size_t i = 0; i < list.size() && status_.ok(); ++i) {
      const std::string where = std::string(what) + " " + std::to_string(i) + ": ";
      if (list[i].is_object()) {
        read(list[i], where);
      } else {
        Wrong(where + "it is not an object");
      }
    }
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

// Reads what rondo profile adds.
void ReadTimes(const Json& json, Fields* fields, TuningProfile* profile) {
  if (json.contains("nccl")) profile->nccl = fields->TextOf(json, "nccl", "");
  fields->Each(json, "times", "time", [&](const Json& entry, const std::string& where) {
    const uint64_t key = fields->KeyOf(entry, where);
    if (!profile->times.emplace(key, fields->TimedKernelOf(entry, where)).second)
      fields->Wrong(where + "an earlier one has its key");
  });
  fields->Each(json, "collectives", "collective", [&](const Json& entry, const std::string& where) {
    const MeasuredCollective collective = fields->CollectiveOf(entry, where);
    for (const MeasuredCollective& other : profile->collectives) {
      if (other.op == collective.op && other.ranks == collective.ranks && other.small == collective.small)
        fields->Wrong(where + "an earlier one is the same");
    }
    profile->collectives.push_back(collective);
  });
  if (json.contains("taken")) {
    profile->taken = json["taken"].is_number() ? json["taken"].get<double>() : -1;
    if (!(*profile->taken >= 0 && *profile->taken <= kMostTaken))
      fields->Wrong(Printf("\"taken\" is not a number from 0 to %g", kMostTaken));
  }
  fields->Each(json, "runs", "run", [&](const Json& entry, const std::string& where) {
    profile->runs.push_back(fields->RunOf(entry, where));
  });
}

double Thousandths(double number) { return std::round(number * 1000) / 1000; }

void WriteTimes(const TuningProfile& profile, Json* json) {
  if (!profile.nccl.empty()) (*json)["nccl"] = profile.nccl;
  for (const auto& [key, kernel] : profile.times) {
    (*json)["times"].push_back({{"key", Printf("%016" PRIx64, key)},
                                {"kernel", kernel.kernel},
                                {"source", kernel.source},
                                {"launches", kernel.launches},
                                {"microseconds", ToThousandths(kernel.microseconds)}});
  }
  const char* const by = profile.architecture == "host" ? "host" : "nccl";
  for (const MeasuredCollective& collective : profile.collectives) {
    const LatencyAndRate fit = collective.Fit();
    Json entry = {{"op", Name(collective.op)},
                  {"ranks", collective.ranks},
                  {"by", collective.small ? "small" : by},
                  {"latency_us", Thousandths(fit.latency)}};
    if (std::isfinite(fit.rate)) entry["bytes_per_us"] = Thousandths(fit.rate);
    for (const auto& [bytes, time] : collective.microseconds)
      entry["microseconds"][std::to_string(bytes)] = ToThousandths(time);
    (*json)["collectives"].push_back(std::move(entry));
  }
  if (profile.taken) (*json)["taken"] = Thousandths(*profile.taken);
  for (const TimedRun& run : profile.runs) {
    (*json)["runs"].push_back({{"plan", run.plan},
                               {"program", run.program},
                               {"devices", run.devices},
                               {"microseconds", ToThousandths(run.microseconds)},
                               {"estimated", ToThousandths(run.estimated)}});
  }
}

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
  ReadTimes(json, &fields, &profile);
  if (!fields.status().ok()) return fields.status();
  profile.hash = HashBytes(text.data(), text.size());
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
    for (const auto& [choice, time] : kernel.microseconds) entry["microseconds"][choice] = Thousandths(time);
    json["kernels"].push_back(entry);
  }
  WriteTimes(profile, &json);
  return JsonText(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

Status WriteProfile(const TuningProfile& profile, const std::string& path) {
  const std::string text = ProfileJson(profile);
  constexpr FileKind kProfile = {"a profile of rondo tune", "{\n  \"rondo_profile\":"};
  return ReplaceFile(path, kProfile, text.data(), text.size());
}

Status SameMachine(const TuningProfile& profile, const TuningProfile& here, const std::string& path) {
  if (profile.gpu == here.gpu && profile.architecture == here.architecture) return Status::Ok();
  return Status::Error(Code::kInvalidArgument, "--merge: %s is of %s, %s, but this is %s, %s", path.c_str(),
                       profile.gpu.c_str(), profile.architecture.c_str(), here.gpu.c_str(),
                       here.architecture.c_str());
}

KernelProfile ChoicesOf(const TuningProfile& profile) {
  KernelProfile choices;
  choices.architecture = profile.architecture;
  for (const auto& [key, kernel] : profile.kernels)
    choices.choices[key] = *ParseKernelConfiguration(kernel.choice);
  choices.times = TimesOf(profile);
  return choices;
}

std::shared_ptr<const MeasuredTimes> TimesOf(const TuningProfile& profile) {
  if (!profile.has_times()) return nullptr;
  MeasuredTimes times;
  times.profile = Printf("%016" PRIx64 " of ", profile.hash) + Printable(profile.gpu) + ", " +
                  Printable(profile.architecture);
  for (const auto& [key, kernel] : profile.times) times.kernels[key] = kernel.microseconds;
  times.collectives = profile.collectives;
  times.taken = profile.taken;
  return std::make_shared<const MeasuredTimes>(std::move(times));
}

}  // namespace rondo::tools
