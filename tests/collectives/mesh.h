// A host driver of several devices, a runtime and a plan, for one test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "drivers/host/host_driver.h"
#include "runtime/session.h"
#include "tests/collectives/mesh_plan.h"

namespace rondo {

class Mesh {
 public:
  // The runtime gets `wrap`'s driver around the host's, if there is a `wrap`.
  using Wrap = std::function<std::unique_ptr<Driver>(Driver* host)>;
  explicit Mesh(const HostOptions& options, const RuntimeOptions& runtime_options = {},
                const Wrap& wrap = nullptr) {
    Result<Driver*> made = CreateHostDriver(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    driver_.reset(*made);
    if (wrap != nullptr) wrapped_ = wrap(driver_.get());
    Result<Runtime> runtime =
        Runtime::Create(wrapped_ != nullptr ? wrapped_.get() : driver_.get(), runtime_options);
    EXPECT_TRUE(runtime.ok()) << runtime.status().message();
    runtime_ = runtime.Take();
  }
  Driver* driver() { return driver_.get(); }
  const Runtime& runtime() const { return runtime_; }

  static Plan Open(const MeshPlan& mesh) {
    Result<Plan> plan = Plan::FromData(mesh.data, {});
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? plan.Take() : Plan();
  }
  Session MakeSession(const Plan& plan) const {
    Result<Session> session = Session::Create(runtime_, plan);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? session.Take() : Session();
  }

 private:
  struct Destroy {
    void operator()(Driver* driver) const { DestroyHostDriver(driver); }
  };
  std::unique_ptr<Driver, Destroy> driver_;
  std::unique_ptr<Driver> wrapped_;
  Runtime runtime_;  // declared last: destroyed before the drivers
};

inline HostOptions MeshOptions(uint32_t devices) {
  HostOptions options;
  options.devices = devices;
  return options;
}

// A plan of MakeLayers with inputs, memory for its outputs, and their expected values.
struct Layers {
  Layers(uint32_t devices, int layers, int64_t elements, bool split = false, unsigned seed = 1)
      : mesh(devices), x(elements), b(devices * elements), out(devices * elements) {
    MakeLayers(&mesh, layers, elements, split);
    plan = Mesh::Open(mesh);
    unsigned state = seed;
    auto next = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
    };
    for (float& value : x) value = next();
    for (float& value : b) value = next();
    expected = LayersReference(devices, layers, x, b);
    const uint64_t bytes = static_cast<uint64_t>(elements) * 4;
    inputs.push_back({"x", kNone, DType::kF32, {elements}, x.data(), bytes});
    for (uint32_t d = 0; d < devices; ++d) {
      const std::string number = std::to_string(d);
      names.push_back("b" + number);
      names.push_back("out" + number);
    }
    for (uint32_t d = 0; d < devices; ++d) {
      inputs.push_back({names[2 * d], kNone, DType::kF32, {elements}, &b[d * x.size()], bytes});
      outputs.push_back({names[2 * d + 1], kNone, DType::kF32, &out[d * x.size()], bytes});
    }
  }
  Layers(const Layers&) = delete;

  // Clears the outputs' memory and runs once. Sets `right` if all devices gave the expected bits.
  Status Run(Session* session, bool* right, const RunOptions& options = {}) {
    for (float& value : out) value = -1;
    Status status = session->Run(0, inputs, outputs, options);
    *right = status.ok();
    for (size_t i = 0; i < out.size(); ++i) *right &= out[i] == expected[i % expected.size()];
    return status;
  }
  void ExpectRight(Session* session, const RunOptions& options = {}) {
    bool right = false;
    Status status = Run(session, &right, options);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(right || !status.ok()) << "results differ";
  }

  MeshPlan mesh;
  Plan plan;
  std::vector<float> x, b, out, expected;
  std::vector<std::string> names;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

}  // namespace rondo
