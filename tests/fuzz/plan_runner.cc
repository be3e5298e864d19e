#include "tests/fuzz/plan_runner.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "drivers/host/host_driver.h"
#include "formats/plan/need.h"
#include "runtime/runtime.h"
#include "runtime/session.h"
#include "tests/fuzz/sanitizer.h"
#include "tests/fuzz/target.h"
#include "tests/plan/call_plan.h"

#ifdef RONDO_FUZZ_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace rondo::fuzz {
namespace {

constexpr uint64_t kPage = 4096;

double Points(const Part& part) {
  double points = 1;
  for (int64_t extent : part.loops) points *= static_cast<double>(extent);
  return points;
}

double Operations(const Kernel& kernel) {
  double sum = 0;
  for (const Part& part : kernel.parts) {
    double each = static_cast<double>(1 + part.prologue.size() + part.body.size() + part.epilogue.size());
    for (const Stage& stage : part.stages) each += static_cast<double>(stage.tape.size());
    for (const Operand& o : part.operands)
      each += static_cast<double>(1 + o.indirects.size() + o.guards.size());
    sum += each * Points(part);
  }
  return sum;
}

double Operations(const PlanData& plan) {
  double sum = 0;
  for (const Program& program : plan.programs) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      const Loop* loop = LoopOf(program, s);
      if (step.kind == StepKind::kCustom) {
        for (const CustomArgument& a : plan.custom_ops[step.custom].arguments) {
          sum += static_cast<double>(BytesOf(a));
        }
        continue;
      }
      sum += (loop == nullptr ? 1 : static_cast<double>(loop->trips)) *
             (step.kind == StepKind::kLaunch ? Operations(plan.kernels[step.kernel])
                                             : static_cast<double>(step.bytes) / 16);
    }
  }
  return sum;
}

// The bytes that a session takes by the plan's statement. Each region is whole pages.
double StatedBytes(const PlanData& plan) {
  double sum = 0;
  for (const DeviceBytes& d : plan.requirements.devices) {
    sum += static_cast<double>(d.weights) + static_cast<double>(d.arena) + static_cast<double>(d.state) +
           3 * static_cast<double>(kPage);
  }
  return sum;
}

// The scratch that a stream of the driver needs for the plan: the verifier's number, in whole pages.
double ScratchBytes(const PlanData& plan) {
  double largest = 0;
  for (const Kernel& kernel : plan.kernels) largest = std::max(largest, NeedOf(kernel).scratch);
  return largest + 4 * static_cast<double>(kPage);
}

// The number of streams that a session of the plan makes.
double StreamsOf(const PlanData& plan) {
  uint32_t streams = 1;
  for (const Program& program : plan.programs) streams = std::max(streams, program.num_streams);
  return static_cast<double>(streams * plan.requirements.devices.size());
}

// The bytes with which constants and ports are filled and copied. Many of them may share memory.
double CopiedBytes(const PlanData& plan) {
  double sum = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kConstant) sum += static_cast<double>(buffer.bytes);
  }
  for (const Program& program : plan.programs) {
    for (Span<const Port> ports : {program.inputs, program.outputs}) {
      for (const Port& port : ports) sum += static_cast<double>(plan.buffers[port.buffer].bytes);
    }
  }
  return sum;
}

std::vector<uint8_t> SmallNumbers(const Buffer& buffer, Random& random) {
  std::vector<uint8_t> bytes(buffer.bytes);
  if (buffer.dtype == DType::kF32) {
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const float value = static_cast<float>(random.Below(64)) / 32 - 1;
      std::memcpy(&bytes[i], &value, sizeof(value));
    }
  } else if (!IsFloat(buffer.dtype)) {
    const size_t size = static_cast<size_t>(ByteSize(buffer.dtype));
    for (size_t i = 0; i < bytes.size(); i += size) {
      bytes[i] = static_cast<uint8_t>(random.Below(buffer.dtype == DType::kBool ? 2 : 3));
    }
    if (random.OneIn(8)) std::memset(bytes.data(), buffer.dtype == DType::kBool ? 1 : 0xff, bytes.size());
  } else {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
  }
  return bytes;
}

// Frees memory of exactly `bytes` that is aligned so that steps may use it in place.
struct Release {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<void, Release>;
Block MakeBlock(uint64_t bytes) {
  void* block = nullptr;
  if (posix_memalign(&block, 256, bytes) != 0) Broken("no memory for a tensor");
  return Block(block);
}

// Makes the rest of the last pages, beyond a session's memory, inaccessible.
void GuardPages(Session* session, const PlanData& plan, bool guard) {
#ifdef RONDO_FUZZ_ASAN
  for (uint32_t i = 0; i < plan.requirements.devices.size(); ++i) {
    const DeviceBytes& d = plan.requirements.devices[i];
    for (auto [region, used] :
         {std::pair(session->arena(i), d.arena), std::pair(session->state(i), d.state)}) {
      if (region.bytes <= used) continue;
      void* from = reinterpret_cast<void*>(region.address + used);
      if (guard) {
        ASAN_POISON_MEMORY_REGION(from, region.bytes - used);
      } else {
        ASAN_UNPOISON_MEMORY_REGION(from, region.bytes - used);
      }
    }
  }
#else
  (void)session, (void)plan, (void)guard;
#endif
}

}  // namespace

PlanRunner::PlanRunner() {
  if (Status status = ops_.Register("libtest.so", RegisterTestOps); !status.ok())
    Broken("%s", status.message());
  for (uint32_t i = 0; i < 2; ++i) {
    HostOptions options;
    options.devices = 4;
    options.allocator = device_memory_.allocator();
    options.max_isa = 2 * i;
    options.ops = &ops_;
    Result<Driver*> driver = CreateHostDriver(options);
    if (!driver.ok()) Broken("no host driver: %s", driver.status().message());
    drivers_[i] = *driver;
  }
}

PlanRunner::~PlanRunner() {
  for (Driver* driver : drivers_) DestroyHostDriver(driver);
}

Status PlanRunner::RunProgram(Session* session, uint32_t program, uint64_t seed, uint64_t timeout_ns) {
  const PlanData& data = session->plan().data();
  Random random(seed);
  std::vector<Block> blocks;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  // On this driver device memory is host memory, so each tensor can be declared to lie in either.
  const auto memory = [&] { return random.OneIn(2) ? MemoryKind::kDevice : MemoryKind::kHost; };
  for (const Port& port : data.programs[program].inputs) {
    const Buffer& b = data.buffers[port.buffer];
    if (port.is_state) continue;
    const std::vector<uint8_t> bytes = SmallNumbers(b, random);
    blocks.push_back(MakeBlock(b.bytes));
    if (b.bytes != 0) std::memcpy(blocks.back().get(), bytes.data(), b.bytes);
    inputs.push_back({port.name, kNone, b.dtype, b.shape, blocks.back().get(), b.bytes, memory()});
  }
  for (const Port& port : data.programs[program].outputs) {
    const Buffer& b = data.buffers[port.buffer];
    blocks.push_back(MakeBlock(b.bytes));
    outputs.push_back({port.name, kNone, b.dtype, blocks.back().get(), b.bytes, memory()});
  }
  RunOptions options;
  options.timeout_ns = timeout_ns;
  RONDO_RETURN_IF_ERROR(session->Run(program, inputs, outputs, options));
  if (!random.OneIn(4)) return Status::Ok();
  for (Input& input : inputs) input.memory = memory();
  outputs.resize(random.Below(outputs.size() + 1));
  return session->Run(program, inputs, outputs, options);
}

RunEnd PlanRunner::Run(const Plan& plan, uint64_t seed, const RunLimits& limits) {
  const PlanData& data = plan.data();
  const double stated = StatedBytes(data), most = static_cast<double>(limits.bytes);
  if (stated > most || CopiedBytes(data) > 4 * most) return RunEnd::kTooLarge;
  const HostAllocator host = host_memory_.allocator();
  RuntimeOptions options;
  options.allocator = &host;
  device_memory_.Reset();
  const uint64_t before = device_memory_.peak();
  Result<Runtime> runtime = Runtime::Create(drivers_[seed % 2], options);
  if (!runtime.ok()) return RunEnd::kNotArmed;
  Result<Session> session = Session::Create(*runtime, plan);
  const double scratch = ScratchBytes(data) * StreamsOf(data);
  if (static_cast<double>(device_memory_.peak() - before) > stated + scratch) {
    Broken("a session took %llu bytes of device memory; its plan states %.0f, and scratch is at most %.0f",
           static_cast<unsigned long long>(device_memory_.peak() - before), stated, scratch);
  }
  if (!session.ok()) return RunEnd::kNotArmed;
  const uint64_t timeout_ns = Operations(data) > limits.operations ? limits.run_ns : 0;
  GuardPages(&*session, data, true);
  RunEnd end = RunEnd::kRan;
  for (uint32_t program = 0; program < data.programs.size(); ++program) {
    const Status status = RunProgram(&*session, program, seed + program, timeout_ns);
    if (status.code() == Code::kDeadlineExceeded && timeout_ns != 0) {
      if (Status reset = session->ResetState(); !reset.ok()) {
        Broken("after a run that its limit ended: %s", reset.message());
      }
      if (end == RunEnd::kRan) end = RunEnd::kStopped;
    } else if (!status.ok() && status.code() != Code::kOutOfRange) {
      end = RunEnd::kFailed;
    }
  }
  GuardPages(&*session, data, false);
  return end;
}

}  // namespace rondo::fuzz
