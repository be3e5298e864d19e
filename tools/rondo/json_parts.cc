#include "tools/rondo/json_parts.h"

#include <nlohmann/json.hpp>

namespace rondo::tools {

using Json = nlohmann::ordered_json;

Json ToJson(const RunsOn& on) {
  Json json = {{"driver", on.driver}, {"devices", on.devices}};
  if (on.driver == "host") {
    json["threads"] = on.threads;
    json["instructions"] = on.instructions;
  } else {
    json["driver_version"] = on.driver_version;
    if (!on.nccl.empty()) json["nccl"] = on.nccl;
    if (!on.code.empty()) json["code"] = on.code;
  }
  return json;
}

Json ToJson(const ReadyTimes& ready) {
  return {{"total", ready.total},     {"plan", ready.plan},       {"driver", ready.driver},
          {"device", ready.device},   {"modules", ready.modules}, {"weights", ready.weights},
          {"library", ready.library}, {"memory", ready.memory},   {"graphs", ready.graphs}};
}

Json SpreadJson(const std::vector<double>& sorted) {
  return {{"runs", sorted.size()},        {"median", Quantile(sorted, 0.5)}, {"least", sorted.front()},
          {"p10", Quantile(sorted, 0.1)}, {"p90", Quantile(sorted, 0.9)},    {"most", sorted.back()}};
}

}  // namespace rondo::tools
