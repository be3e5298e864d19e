#include "tools/serve/backend.h"

namespace rondo::serve {

Result<std::unique_ptr<Backend>> Backend::Open(const PlanData& like, const tools::LoadOptions& options) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint32_t> devices, tools::ParseDevices(options.devices));
  return OpenOn(devices, like, options);
}

Result<std::unique_ptr<Backend>> Backend::OpenOn(const std::vector<uint32_t>& devices, const PlanData& like,
                                                 const tools::LoadOptions& options) {
  std::unique_ptr<Backend> backend(new Backend());
  backend->options_ = options;
  RONDO_ASSIGN_OR_RETURN(backend->limits_, tools::LimitsOf(options));
  RONDO_RETURN_IF_ERROR(tools::LoadOps(options.ops, &backend->ops_));
  RONDO_ASSIGN_OR_RETURN(backend->driver_, tools::OpenDriver(like, options, devices, backend->ops_));
  RuntimeOptions runtime;
  runtime.devices = {devices.data(), devices.size()};
  runtime.keep_plan_totals = true;  // a model's counters continue with its next version
  RONDO_ASSIGN_OR_RETURN(backend->flight_, tools::RecordFlight(backend->driver_.get(), options));
  Driver* const driver = backend->flight_ != nullptr ? backend->flight_.get() : backend->driver_.get();
  RONDO_ASSIGN_OR_RETURN(backend->runtime_, Runtime::Create(driver, runtime));
  return backend;
}

std::string Backend::MetricsText() const {
  std::string text;
  for (size_t needed = runtime_.WriteMetrics(nullptr, 0); text.size() < needed + 1;) {
    text.resize(needed + 1);  // a series may have been added meanwhile
    needed = runtime_.WriteMetrics(text.data(), text.size());
    if (needed >= text.size()) continue;
    text.resize(needed);
    break;
  }
  return text;
}

}  // namespace rondo::serve
