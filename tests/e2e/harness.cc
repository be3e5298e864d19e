#include "tests/e2e/harness.h"

#include <algorithm>

namespace rondo {

LiveModel::LiveModel(std::vector<ModelSource> models, uint32_t threads) {
  CompileOptions options;
  options.models = std::move(models);
  HostOptions host;
  host.threads = threads;
  ArmOnHost(options, host);
}

LiveModel::LiveModel(const CompileOptions& options, HostOptions host) {
  host.devices = std::max({host.devices, options.devices,
                           std::max(options.tensor_parallel, 1u) * std::max(options.pipeline_parallel, 1u)});
  ArmOnHost(options, host);
}

LiveModel::LiveModel(const CompileOptions& options, Driver& driver, Span<const uint32_t> devices) {
  Arm(options, &driver, devices);
}

void LiveModel::ArmOnHost(const CompileOptions& options, const HostOptions& host) {
  Result<Driver*> driver = CreateHostDriver(host);
  if (!driver.ok()) {
    ADD_FAILURE() << driver.status().message();
    return;
  }
  driver_ = *driver;
  Arm(options, driver_, {});
}

void LiveModel::Arm(const CompileOptions& options, Driver* driver, Span<const uint32_t> devices) {
  CompileOptions checked = options;
  checked.check_passes = true;
  Result<CompiledPlan> compiled = CompileToMemory(checked);
  if (!compiled.ok()) {
    ADD_FAILURE() << compiled.status().message();
    return;
  }
  compiled_ = compiled.Take();
  weights_ = AssembleWeights(compiled_);
  Result<Plan> plan = Plan::FromData(compiled_.plan, weights_);
  if (!plan.ok()) {
    ADD_FAILURE() << plan.status().message();
    return;
  }
  plan_ = plan.Take();
  RuntimeOptions runtime_options;
  runtime_options.devices = devices;
  Result<Runtime> runtime = Runtime::Create(driver, runtime_options);
  if (!runtime.ok()) {
    ADD_FAILURE() << runtime.status().message();
    return;
  }
  runtime_ = runtime.Take();
  Result<Session> session = Session::Create(runtime_, plan_);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    return;
  }
  session_ = session.Take();
}

LiveModel::~LiveModel() {
  session_ = Session();
  runtime_ = Runtime();
  if (driver_ != nullptr) DestroyHostDriver(driver_);
}

uint32_t LiveModel::Program(const std::string& name) const {
  Result<uint32_t> program = plan_.FindProgram(name);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return program.ok() ? *program : 0;
}

LiveModel::Buffers LiveModel::MakeBuffers(uint32_t program) const {
  Buffers buffers;
  const auto& p = data().programs[program];
  for (const Port& port : p.inputs) {
    buffers.input_bytes.emplace_back(port.is_state ? 0 : data().buffers[port.buffer].bytes, uint8_t{0});
  }
  for (const Port& port : p.outputs) {
    buffers.output_bytes.emplace_back(port.is_state ? 0 : data().buffers[port.buffer].bytes, uint8_t{0});
  }
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Buffer& buffer = data().buffers[p.inputs[i].buffer];
    if (p.inputs[i].is_state) continue;
    Input input;
    input.name = p.inputs[i].name;
    input.dtype = buffer.dtype;
    input.shape = buffer.shape;
    input.data = buffers.input_bytes[i].data();
    input.bytes = buffer.bytes;
    buffers.inputs.push_back(input);
  }
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const Buffer& buffer = data().buffers[p.outputs[i].buffer];
    if (p.outputs[i].is_state) continue;
    Output output;
    output.name = p.outputs[i].name;
    output.dtype = buffer.dtype;
    output.data = buffers.output_bytes[i].data();
    output.bytes = buffer.bytes;
    buffers.outputs.push_back(output);
  }
  return buffers;
}

}  // namespace rondo
