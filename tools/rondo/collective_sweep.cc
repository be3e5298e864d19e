#include "tools/rondo/collective_sweep.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "compiler/codegen/emit_plan.h"
#include "compiler/ir/throwing_arena.h"
#include "core/collective.h"
#include "formats/machine_code/architecture.h"
#include "tools/rondo/made_inputs.h"
#include "tools/rondo/run_tensors.h"
#include "tools/rondo/timings.h"

namespace rondo::tools {
namespace {

constexpr int kFew = 4, kMore = 20;  // collectives per graph
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kBytesOfNccl[] = {4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, 1024 * kKiB, 4096 * kKiB};
constexpr uint64_t kBytesOfSmall[] = {4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB};
constexpr uint64_t kBytesOfHost[] = {4 * kKiB, 64 * kKiB, 1024 * kKiB};

int AddValue(const char* name, BufferKind kind, uint64_t bytes, LoweredProgram* program) {
  LoweredValue value;
  value.name = name;
  value.kind = kind;
  value.shape = Shape({static_cast<int64_t>(bytes / sizeof(float))});
  value.bytes = static_cast<int64_t>(bytes);
  program->values.push_back(std::move(value));
  return static_cast<int>(program->values.size()) - 1;
}

// `count` collectives one after another, from one input to one output.
LoweredProgram Collectives(CollectiveOp op, uint64_t bytes, uint32_t ranks, int count) {
  LoweredProgram program;
  program.name = std::string(Name(op)) + " " + std::to_string(bytes) + " x" + std::to_string(count);
  program.arena = ir::NewArena();
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0u);
  const SyncPoint point = {op, DType::kF32, bytes, 0, Span<const uint32_t>(all)};
  const int from = AddValue("x", BufferKind::kInput, BytesRead(point, 0), &program);
  const int to = AddValue("y", BufferKind::kOutput, BytesWritten(point, 0), &program);
  program.inputs = {{"x", from}};
  program.outputs = {{"y", to}};
  for (int i = 0; i < 2 * count; ++i) {
    LoweredOp part;
    part.kind = i % 2 == 0 ? LoweredKind::kCollectiveStart : LoweredKind::kCollectiveWait;
    part.collective = i / 2;
    part.params = {{from, 0, Mode::kRead}, {to, 0, Mode::kWrite}};
    part.deps.resize(static_cast<size_t>(i));
    std::iota(part.deps.begin(), part.deps.end(), 0);
    part.sources = {"Collective \"" + std::to_string(i / 2) + "\""};
    program.ops.push_back(std::move(part));
    if (i % 2 == 0) program.collectives.push_back({op, DType::kF32, static_cast<int64_t>(bytes), {}});
  }
  return program;
}

// Adds the same program for every device.
void AddPrograms(const LoweredProgram& program, uint32_t ranks, std::vector<PlannedProgram>* programs) {
  for (uint32_t device = 0; device < ranks; ++device) {
    PlannedProgram planned;
    planned.lowered = program;
    planned.device = device;
    planned.memory = PlanMemory(program);
    std::vector<std::string> none;
    planned.partitions = PartitionSteps(SeamSteps(program, {}, &none));
    programs->push_back(std::move(planned));
  }
}

Result<double> MedianOf(Session& session, uint32_t program, int64_t runs) {
  const std::vector<Tensor> tensors = FillInputs(session.plan().data(), program, {});
  const std::vector<Input> inputs = InputsOf(session.plan().data(), program, tensors);
  RONDO_ASSIGN_OR_RETURN(RunTimer timer, RunTimer::Create(session, program, TimerDetail::kPartitions));
  RunOptions options;
  options.timer = &timer;
  std::vector<double> times;
  for (int64_t run = -2; run < runs; ++run) {
    RONDO_RETURN_IF_ERROR(session.Run(program, inputs, {}, options));
    RONDO_ASSIGN_OR_RETURN(const std::vector<TimedInterval> all, ReadAll(timer));
    if (run >= 0) times.push_back(LongestDevice(all));
  }
  std::sort(times.begin(), times.end());
  return Quantile(times, 0.5);
}

// The first `count` of the named devices.
std::string FirstDevices(const std::vector<uint32_t>& devices, uint32_t count) {
  std::string text;
  for (uint32_t d = 0; d < count; ++d)
    text += (d == 0 ? "" : ",") + std::to_string(d < devices.size() ? devices[d] : d);
  return text;
}

}  // namespace

Result<std::vector<MeasuredCollective>> SweepCollectives(const PlanData& plan, const LoadOptions& load,
                                                         const SweepOptions& options) {
  const bool gpu = KindsOfTargets(plan.requirements.target).gpu && load.driver != "host";
  const Span<const uint64_t> sizes = !gpu            ? Span<const uint64_t>(kBytesOfHost)
                                     : options.small ? Span<const uint64_t>(kBytesOfSmall)
                                                     : Span<const uint64_t>(kBytesOfNccl);
  std::vector<PlannedProgram> programs;
  for (CollectiveOp op : options.ops) {
    for (uint64_t bytes : sizes) {
      for (int count : {kFew, kMore})
        AddPrograms(Collectives(op, bytes, options.ranks, count), options.ranks, &programs);
    }
  }
  EmitOptions emit;
  RONDO_ASSIGN_OR_RETURN(emit.targets, ParseTargets(plan.requirements.target));
  RONDO_ASSIGN_OR_RETURN(EmittedPlan emitted, EmitPlan(std::move(programs), emit, nullptr));
  std::vector<CodeModule> modules(plan.modules.begin(), plan.modules.end());
  for (CodeModule& module : modules) module.binaries = {}, module.alternatives = {};
  emitted.plan.modules = Span<const CodeModule>(modules);
  RONDO_ASSIGN_OR_RETURN(const Plan made, Plan::FromData(emitted.plan, {}));
  LoadOptions on = load;
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint32_t> devices, ParseDevices(load.devices));
  on.devices = FirstDevices(devices, options.ranks);
  on.collectives = !gpu ? "" : options.small ? "small" : "nccl";
  on.ready = nullptr;
  RONDO_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedSession> loaded, LoadedSession::Create(made, on));
  std::vector<MeasuredCollective> measured;
  uint32_t program = 0;
  for (CollectiveOp op : options.ops) {
    measured.push_back({op, options.ranks, options.small});
    for (uint64_t bytes : sizes) {
      RONDO_ASSIGN_OR_RETURN(const double few, MedianOf(loaded->session, program++, options.runs));
      RONDO_ASSIGN_OR_RETURN(const double more, MedianOf(loaded->session, program++, options.runs));
      measured.back().microseconds[bytes] = ToThousandths((more - few) / (kMore - kFew));
    }
  }
  return measured;
}

}  // namespace rondo::tools
