#include "tools/rondo/verify_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/rondo/run_tensors.h"
#include "tools/rondo/trusted_plan.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

Json NumberOrNull(uint32_t number) { return number == kNone ? Json() : Json(number); }

Json ToJson(const Finding& finding) {
  return {{"rule", Name(finding.rule)},
          {"program", finding.program},
          {"step", NumberOrNull(finding.step)},
          {"round", finding.round},
          {"step_source", finding.step_source},
          {"device", finding.device},
          {"buffer", finding.buffer == kNone ? Json() : Json(finding.buffer_name)},
          {"buffer_source", finding.buffer_source},
          {"offset", finding.offset},
          {"bytes", finding.bytes},
          {"expected", finding.expected},
          {"found", finding.found},
          {"text", finding.Text()}};
}

void Print(const VerifyReport& report, CommandOutput* out) {
  out->Line("  %llu steps one by one, %u graph replays, %u reopenings; a session takes %s",
            static_cast<unsigned long long>(report.steps), report.graph_runs, report.reopenings,
            tools::BytesText(report.device_bytes).c_str());
  if (report.stride > 1) {
    out->Line("  memory was looked at after every %llu steps only, for there is much of it",
              static_cast<unsigned long long>(report.stride));
  }
  out->object()["steps"] = report.steps;
  out->object()["graph_replays"] = report.graph_runs;
  out->object()["reopenings"] = report.reopenings;
  out->object()["stride"] = report.stride;
  out->object()["device_bytes"] = report.device_bytes;
  out->object()["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    out->object()["findings"].push_back(ToJson(finding));
    std::fprintf(stderr, "rondo run: %s\n", Printable(finding.Text()).c_str());
  }
}

}  // namespace

Result<bool> VerifyRun(const std::string& path, const LoadOptions& load, const std::string& program,
                       const std::vector<Tensor>& inputs, CommandOutput* out) {
  const PlanOptions plan_options = PlanOptionsOf(load);
  RONDO_ASSIGN_OR_RETURN(const Plan plan, OpenTrusted(path, load.keys, plan_options));
  OpRegistry ops;
  RONDO_RETURN_IF_ERROR(LoadOps(load.ops, &ops));
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint32_t> devices, ParseDevices(load.devices));
  RONDO_ASSIGN_OR_RETURN(const DriverHandle driver, OpenDriver(plan.data(), load, devices, ops));
  VerifyOptions options;
  options.devices = devices;
  options.timeout_ns = TimeoutOf(load);
  if (!program.empty()) {
    RONDO_ASSIGN_OR_RETURN(options.program, plan.FindProgram(program));
  }
  options.inputs.resize(plan.data().programs.size());
  for (const Tensor& tensor : inputs) {
    bool taken = false;
    for (uint32_t p = 0; p < options.inputs.size(); ++p) {
      if (options.program != kNone && options.program != p) continue;
      for (const Port& port : plan.data().programs[p].inputs) {
        if (port.name != tensor.name) continue;
        options.inputs[p].push_back(InputsOf(plan.data(), p, {&tensor, 1})[0]);
        taken = true;
      }
    }
    if (!taken)
      return Status::Error(Code::kNotFound, "no program has an input called \"%s\"", tensor.name.c_str());
  }
  options.open = [&](const PlanOptions& given) {
    PlanOptions again = plan_options;
    again.allocator = given.allocator;
    return Plan::Open(path.c_str(), again);
  };
  Progress progress(out);
  options.progress = [&](const char* what, uint64_t done, uint64_t all) {
    progress.Show("%s: %llu of %llu ...", what, static_cast<unsigned long long>(done),
                  static_cast<unsigned long long>(all));
  };
  RONDO_ASSIGN_OR_RETURN(const VerifyReport report, VerifyLifecycle(plan, driver.get(), options));
  progress.Clear();
  out->Line(
      "%s: %s on driver %s", path.c_str(),
      report.ok()
          ? "memory is used as the plan says"
          : Printf("%zu finding%s", report.findings.size(), report.findings.size() == 1 ? "" : "s").c_str(),
      driver->Info().name);
  out->object() = {{"plan", path}, {"driver", driver->Info().name}, {"verified", report.ok()}};
  Print(report, out);
  return report.ok();
}

}  // namespace rondo::tools
