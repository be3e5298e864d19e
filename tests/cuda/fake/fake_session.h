// A plan on the cuda driver over fake_cuda, with a runtime and sessions.
#pragma once

#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "runtime/session.h"
#include "tests/cuda/fake/fake_gpu.h"
#include "tests/says.h"

namespace rondo {

struct FakeSession {
  FakeSession() = default;
  FakeSession(const FakeSession&) = delete;
  ~FakeSession() { Close(); }

  // `data` and `weights` must outlive this object.
  Status Open(const PlanData& data, Span<const uint8_t> weights, const OpRegistry* ops = nullptr,
              int count = 1, Span<const uint32_t> devices = {}) {
    CudaOptions options;
    options.ops = ops;
    options.library_path = library_path;
    options.connect_seconds = connect_seconds;
    options.collectives = collectives;
    options.thread_hooks = thread_hooks;
    RONDO_ASSIGN_OR_RETURN(driver, CreateCudaDriver(options));
    RONDO_ASSIGN_OR_RETURN(plan, Plan::FromData(data, weights));
    RuntimeOptions runtime_options;
    runtime_options.devices = devices;
    RONDO_ASSIGN_OR_RETURN(runtime, Runtime::Create(driver, runtime_options));
    for (int i = 0; i < count; ++i) {
      RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
      sessions.push_back(std::move(session));
    }
    return Status::Ok();
  }
  void Close() {
    sessions.clear();
    runtime = Runtime();
    plan = Plan();
    if (driver != nullptr) DestroyCudaDriver(driver);
    driver = nullptr;
  }

  const char* library_path = nullptr;  // of the vendors' libraries
  double connect_seconds = 120;
  CollectiveKernels collectives = CollectiveKernels::kNccl;
  ThreadHooks thread_hooks = DefaultThreadHooks();
  Driver* driver = nullptr;
  Plan plan;
  Runtime runtime;
  std::vector<Session> sessions;
};

// Zeros for every input that is not state, and memory for every output that is not.
struct Tensors {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  Tensors(const PlanData& data, uint32_t program) {
    for (const Port& port : data.programs[program].inputs) {
      const Buffer& b = data.buffers[port.buffer];
      if (port.is_state) continue;
      bytes.emplace_back(b.bytes, uint8_t{0});
      inputs.push_back({port.name, kNone, b.dtype, b.shape, bytes.back().data(), b.bytes});
    }
    for (const Port& port : data.programs[program].outputs) {
      const Buffer& b = data.buffers[port.buffer];
      if (port.is_state) continue;
      bytes.emplace_back(b.bytes, uint8_t{0});
      outputs.push_back({port.name, kNone, b.dtype, bytes.back().data(), b.bytes});
    }
  }
};

}  // namespace rondo
