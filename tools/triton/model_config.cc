#include "tools/triton/model_config.h"

#include <algorithm>
#include <charconv>

#include "tools/serve/v2_infer.h"
#include "tools/serve/v2_types.h"

namespace rondo::triton {

using nlohmann::json;

namespace {

using PaddedPort = BucketFamily::PaddedPort;

Status Wrong(const std::string& sentence) {
  return Status::Error(Code::kInvalidArgument, "config.pbtxt: %s", sentence.c_str());
}

// The port as a configuration describes it. With a batch size the first dimension is left out.
json Described(const PaddedPort& port, bool batched) {
  json dims = serve::DimsOf(port);
  if (batched) dims.erase(dims.begin());
  return {{"name", port.plan.name},
          {"data_type", std::string("TYPE_") + serve::V2Name(port.plan.dtype)},
          {"dims", dims}};
}

json DescribedAll(const serve::BatchForm& form, bool outputs, bool batched) {
  json all = json::array();
  for (size_t i = 0; i < (outputs ? form.outputs : form.inputs).size(); ++i)
    all.push_back(Described(outputs ? form.output(i) : form.input(i), batched));
  return all;
}

// Checks that the configuration's port exists in the plan, with the same type and dims.
Status CheckPort(const json& said, const json& described, const std::string& kind) {
  const std::string name = said.value("name", "");
  const auto same = std::find_if(described.begin(), described.end(),
                                 [&](const json& port) { return port["name"] == name; });
  if (same == described.end())
    return Wrong("the plan has no " + kind + " \"" + name + "\"; it has " + described.dump());
  for (const char* member : {"data_type", "dims"}) {
    json value = said.value(member, json());
    if (member == std::string("dims") && value.is_array()) {
      for (json& dim : value)
        dim = dim.is_string() ? json(std::stoll(dim.get<std::string>())) : dim;  // int64 in protobuf's JSON
    }
    if (value != (*same)[member])
      return Wrong("the " + kind + " \"" + name + "\" has the " + member + " " + value.dump() +
                   "; the plan's is " + (*same)[member].dump());
  }
  return Status::Ok();
}

Status CompletePorts(const serve::BatchForm& form, bool outputs, bool batched, bool complete, json* config) {
  const std::string kind = outputs ? "output" : "input";
  const json described = DescribedAll(form, outputs, batched);
  json& said = (*config)[kind];
  if (said.empty() && complete) said = described;
  for (const json& port : said) RONDO_RETURN_IF_ERROR(CheckPort(port, described, kind));
  if (said.empty() || (!outputs && said.size() != described.size()))
    return Wrong("it has " + std::to_string(said.size()) + " of the plan's " + kind + "s; there are " +
                 described.dump());
  return Status::Ok();
}

}  // namespace

Status CompleteConfig(const serve::BatchForm& form, bool complete, json* config) {
  const auto empty = [&](const char* list) { return config->value(list, json::array()).empty(); };
  int64_t batch = config->value("max_batch_size", int64_t{0});
  if (batch == 0 && complete && form.joins() && empty("input") && empty("output")) {
    batch = form.most_rows();
    (*config)["max_batch_size"] = batch;
    const bool scheduled = config->contains("sequence_batching") || config->contains("ensemble_scheduling");
    if (!scheduled && !config->contains("dynamic_batching")) (*config)["dynamic_batching"] = json::object();
  }
  if (batch > 0 && !form.joins())
    return Wrong("max_batch_size is " + std::to_string(batch) +
                 ", and the plan takes no batches: compile the model with --shape of its batch dimension, as "
                 "in --shape batch=1,4,16");
  if (batch > 0 && batch > form.most_rows())
    return Wrong("max_batch_size is " + std::to_string(batch) + "; the plan takes " +
                 std::to_string(form.most_rows()) + " at most");
  RONDO_RETURN_IF_ERROR(CompletePorts(form, false, batch > 0, complete, config));
  return CompletePorts(form, true, batch > 0, complete, config);
}

std::string Parameter(const json& config, const char* name) {
  const json parameters = config.value("parameters", json::object());
  return parameters.value(name, json::object()).value("string_value", "");
}

Result<tools::LoadOptions> LoadOptionsOf(const json& config) {
  tools::LoadOptions options;
  options.driver = Parameter(config, "driver");
  options.library_path = Parameter(config, "library_path");
  for (const auto& [name, list] : {std::pair("ops", &options.ops), {"key", &options.keys}}) {
    if (const std::string file = Parameter(config, name); !file.empty()) list->push_back(file);
  }
  if (const std::string threads = Parameter(config, "threads"); !threads.empty()) {
    const auto [end, error] =
        std::from_chars(threads.data(), threads.data() + threads.size(), options.threads);
    if (error != std::errc() || end != threads.data() + threads.size() || options.threads < 0 ||
        options.threads > 256)
      return Wrong("the parameter threads is \"" + threads + "\", no number from 0 to 256");
  }
  if (!options.driver.empty() && options.driver != "host" && options.driver != "cuda")
    return Wrong("the parameter driver is \"" + options.driver + "\", neither host nor cuda");
  return options;
}

}  // namespace rondo::triton
