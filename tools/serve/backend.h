// Backend: the driver and the runtime that all plans of a server share.
#pragma once

#include <memory>
#include <string>

#include "runtime/runtime.h"
#include "tools/rondo/loaded.h"

namespace rondo::serve {

class Backend {
 public:
  // `like`: the plan that determines the driver and the number of devices if `options` do not.
  static Result<std::unique_ptr<Backend>> Open(const PlanData& like, const tools::LoadOptions& options);
  // The same on the given devices of the driver, whatever `options` say about devices.
  static Result<std::unique_ptr<Backend>> OpenOn(const std::vector<uint32_t>& devices, const PlanData& like,
                                                 const tools::LoadOptions& options);

  const Runtime& runtime() const { return runtime_; }
  const SessionOptions& session_options() const { return limits_; }
  const tools::LoadOptions& load_options() const { return options_; }
  std::string Name() const { return runtime_.driver_info().name; }
  std::string MetricsText() const;

 private:
  Backend() = default;
  tools::LoadOptions options_;
  OpRegistry ops_;  // first, because the driver calls its functions
  tools::DriverHandle driver_{nullptr, nullptr};
  std::unique_ptr<Driver> flight_;  // over driver_, or null
  Runtime runtime_;
  SessionOptions limits_;
};

}  // namespace rondo::serve
