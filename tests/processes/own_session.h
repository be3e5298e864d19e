// Sessions on the host driver, one for each process, where the processes are threads.
#pragma once

#include <functional>
#include <vector>

#include "tests/collectives/mesh.h"
#include "tests/processes/together.h"
#include "tests/says.h"

namespace rondo {

// The driver of one process, and the tensors of `layers` that belong to it.
struct Own {
  Own(Processes& self, const Layers& layers, const HostFaults& faults = {}) : mesh(Options(self, faults)) {
    inputs = layers.inputs;
    outputs = {layers.outputs[self.rank()]};
  }
  static HostOptions Options(Processes& self, const HostFaults& faults) {
    HostOptions options;
    options.processes = &self;
    options.faults = faults;
    return options;
  }
  Result<Session> Make(const Plan& plan, uint64_t watchdog_ms = 60000) {
    SessionOptions options;
    options.watchdog_ns = watchdog_ms * 1000000;
    return Session::Create(mesh.runtime(), plan, options);
  }

  Mesh mesh;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

// Runs `body` in each process with separate `Layers`.
inline void TogetherOn(uint32_t size, int layers, int64_t elements, bool split,
                       const std::function<void(Processes& self, Layers& layers)>& body) {
  Together(size, [&](Processes& self) {
    Layers own(size, layers, elements, split);
    body(self, own);
  });
}

}  // namespace rondo
