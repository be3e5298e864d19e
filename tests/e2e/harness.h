// Compiles, arms and runs a model in one test; shared by the end-to-end tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "core/driver.h"
#include "drivers/host/host_driver.h"
#include "runtime/plan.h"
#include "runtime/runtime.h"
#include "runtime/session.h"
#include "tests/folders.h"

namespace rondo {

inline std::string DataPath(const std::string& name) { return SourceFolder() + "/tests/data/" + name; }

// A model (or several, as programs of one plan) compiled in memory and armed on the host driver. Any error
// fails the calling test.
class LiveModel {
 public:
  explicit LiveModel(std::vector<ModelSource> models, uint32_t threads = 1);
  // `host.devices` is at least what the plan needs.
  LiveModel(const CompileOptions& options, HostOptions host);
  // Runs on the caller's driver, which must outlive it. `devices`: see RuntimeOptions.
  LiveModel(const CompileOptions& options, Driver& driver, Span<const uint32_t> devices = {});
  ~LiveModel();
  const PlanData& data() const { return plan_.data(); }
  const Plan& plan() const { return plan_; }
  const CompileReport& report() const { return compiled_.report; }
  Runtime& runtime() { return runtime_; }
  Session& session() { return session_; }
  uint32_t Program(const std::string& name) const;

  // All inputs of a program, zero, in memory of their own; fill in `bytes` by port index.
  struct Buffers {
    std::vector<std::vector<uint8_t>> input_bytes, output_bytes;
    std::vector<Input> inputs;    // state ports left out
    std::vector<Output> outputs;  // state ports left out
  };
  Buffers MakeBuffers(uint32_t program) const;

 private:
  void ArmOnHost(const CompileOptions& options, const HostOptions& host);
  void Arm(const CompileOptions& options, Driver* driver, Span<const uint32_t> devices);

  std::vector<uint8_t> weights_;
  CompiledPlan compiled_;
  Driver* driver_ = nullptr;  // null if it is the caller's
  Plan plan_;
  Runtime runtime_;
  Session session_;
};

}  // namespace rondo
