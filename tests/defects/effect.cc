#include "tests/defects/effect.h"

#include <cstring>

#include "core/synthetic.h"
#include "drivers/host/host_driver.h"
#include "runtime/runtime.h"
#include "runtime/session.h"

namespace rondo::defects {
namespace {

constexpr uint64_t kMostNanoseconds = 20'000'000'000;

// The same inputs as the lifecycle verifier's.
std::vector<uint8_t> InputBytes(const Port& port, const Buffer& buffer) {
  std::vector<uint8_t> bytes(buffer.bytes);
  FillSyntheticRange(buffer.dtype, SyntheticKey(1, port.name), 1.0f, 0,
                     buffer.bytes / static_cast<uint64_t>(ByteSize(buffer.dtype)), bytes.data());
  return bytes;
}

void Poison(const Session& session, const PlanData& plan, uint8_t byte) {
  for (uint32_t d = 0; d < plan.requirements.devices.size(); ++d) {
    const DeviceRegion arena = session.arena(d);
    if (arena.bytes > 0) std::memset(reinterpret_cast<void*>(arena.address), byte, arena.bytes);
  }
}

Results RunProgram(Session* session, uint32_t program, bool stepwise) {
  const PlanData& plan = session->plan().data();
  const Program& of = plan.programs[program];
  std::vector<std::vector<uint8_t>> memory;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  for (const Port& port : of.inputs) {
    const Buffer& b = plan.buffers[port.buffer];
    if (port.is_state) continue;
    memory.push_back(InputBytes(port, b));
    inputs.push_back({port.name, kNone, b.dtype, b.shape, memory.back().data(), b.bytes, MemoryKind::kHost});
  }
  const size_t first_output = memory.size();
  for (const Port& port : of.outputs) {
    const Buffer& b = plan.buffers[port.buffer];
    memory.emplace_back(b.bytes);
    outputs.push_back({port.name, kNone, b.dtype, memory.back().data(), b.bytes, MemoryKind::kHost});
  }
  RunOptions options;
  options.stepwise = stepwise;
  Results results;
  if (Status status = session->Run(program, inputs, outputs, options); !status.ok()) {
    results.error =
        std::to_string(static_cast<int>(status.code()));  // the message may name a different step each time
    return results;
  }
  for (size_t i = first_output; i < memory.size(); ++i)
    results.bytes.insert(results.bytes.end(), memory[i].begin(), memory[i].end());
  return results;
}

}  // namespace

EffectRunner::EffectRunner(uint32_t devices) {
  constexpr struct {
    uint8_t poison;
    bool stepwise;
    uint64_t reorder;  // a seed, or 0
  } kWays[] = {{0xaa, true, 0}, {0x55, false, 0}, {0x3c, false, 11}, {0x41, false, 12}, {0x00, false, 13}};
  for (const auto& way : kWays) {
    HostOptions options;
    options.devices = devices;
    options.faults.reorder = way.reorder != 0;
    options.faults.seed = way.reorder;
    Result<Driver*> driver = CreateHostDriver(options);
    if (driver.ok()) ways_.push_back({*driver, way.poison, way.stepwise});
  }
}

EffectRunner::~EffectRunner() {
  for (const Way& way : ways_) DestroyHostDriver(way.driver);
}

Result<std::vector<Results>> EffectRunner::Run(const Plan& plan) {
  std::vector<Results> all;
  for (const Way& way : ways_) {
    RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(way.driver, {}));
    SessionOptions limits;  // a damaged plan may wait for ever
    limits.timeout_ns = limits.run_timeout_ns = kMostNanoseconds;
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan, limits));
    Results results;
    for (uint32_t program = 0; program < plan.data().programs.size() && results.error.empty(); ++program) {
      Poison(session, plan.data(), way.poison);
      Results one = RunProgram(&session, program, way.stepwise);
      results.error = one.error;
      results.bytes.insert(results.bytes.end(), one.bytes.begin(), one.bytes.end());
    }
    if (!results.error.empty()) results.bytes.clear();
    all.push_back(std::move(results));
  }
  return all;
}

}  // namespace rondo::defects
