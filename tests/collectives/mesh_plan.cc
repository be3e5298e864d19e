#include "tests/collectives/mesh_plan.h"

#include <algorithm>

#include "formats/plan/certificate.h"
#include "tests/plan/sample_plan.h"

namespace rondo {

uint32_t MeshPlan::Source(const std::string& text) {
  for (uint32_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] == text) return i;
  }
  sources_.push_back(Text(text));
  return static_cast<uint32_t>(sources_.size()) - 1;
}

uint32_t MeshPlan::Add(BufferKind kind, uint32_t device, const std::string& name, int64_t elements,
                       DType dtype) {
  Buffer b;
  b.name = Text(name);
  b.kind = kind;
  b.dtype = dtype;
  b.shape = {elements};
  b.bytes = static_cast<uint64_t>(elements * ByteSize(dtype));
  b.device = device;
  b.program = kind == BufferKind::kState ? kNone : 0;
  const uint32_t index = static_cast<uint32_t>(buffers_.size());
  buffers_.push_back(b);
  Port port;
  port.name = b.name;
  port.buffer = index;
  port.is_state = kind == BufferKind::kState;
  if (kind == BufferKind::kInput || port.is_state) inputs_.push_back(port);
  if (kind == BufferKind::kOutput || port.is_state) outputs_.push_back(port);
  return index;
}

std::vector<uint32_t> MeshPlan::AddReplicated(const std::string& name, int64_t elements) {
  std::vector<uint32_t> buffers;
  for (uint32_t d = 0; d < devices_; ++d) {
    buffers.push_back(Add(BufferKind::kInput, d, name + "@" + std::to_string(d), elements));
    if (d > 0) inputs_.pop_back();
  }
  inputs_.back().name = Text(name);
  inputs_.back().replicas = ListOf(arena, std::vector<uint32_t>(buffers.begin() + 1, buffers.end()));
  return buffers;
}

uint32_t MeshPlan::AddSyncPoint(CollectiveOp op, DType dtype, uint64_t bytes, uint32_t communicator,
                                const std::vector<uint32_t>& participants, const std::string& name) {
  SyncPoint point;
  point.op = op;
  point.dtype = dtype;
  point.bytes = bytes;
  point.communicator = communicator;
  point.participants = ListOf(arena, participants);
  point.source = Source("Collective \"" + name + "\"");
  sync_points_.push_back(point);
  return static_cast<uint32_t>(sync_points_.size()) - 1;
}

uint32_t MeshPlan::AddKernel(int64_t elements) {
  Part part;
  part.outer = 1;
  part.loops = List<int64_t>(arena, {elements});
  part.operands =
      List<Operand>(arena, {Access(arena, 0, Mode::kRead, {1}), Access(arena, 1, Mode::kRead, {1}),
                            Access(arena, 2, Mode::kWrite, {1})});
  part.body = List<TapeInst>(arena, {Load(0), Load(1), Apply(TapeOp::kAdd, 0, 1), Store(2, 2)});
  Kernel kernel;
  kernel.name = Text("k" + std::to_string(kernels_.size()) + "_add");
  kernel.num_params = 3;
  kernel.parts = List<Part>(arena, {part});
  kernels_.push_back(kernel);
  return static_cast<uint32_t>(kernels_.size()) - 1;
}

uint32_t MeshPlan::ScaleKernel(int64_t elements, double factor) {
  Part part;
  part.outer = 1;
  part.loops = List<int64_t>(arena, {elements});
  part.operands =
      List<Operand>(arena, {Access(arena, 0, Mode::kRead, {1}), Access(arena, 1, Mode::kWrite, {1})});
  part.body = List<TapeInst>(arena, {Load(0), Number(factor), Apply(TapeOp::kMul, 0, 1), Store(2, 1)});
  Kernel kernel;
  kernel.name = Text("k" + std::to_string(kernels_.size()) + "_scale");
  kernel.num_params = 2;
  kernel.parts = List<Part>(arena, {part});
  kernels_.push_back(kernel);
  return static_cast<uint32_t>(kernels_.size()) - 1;
}

uint32_t MeshPlan::AddStep(const Step& step) {
  steps_.push_back(step);
  waits_.emplace_back();
  return static_cast<uint32_t>(steps_.size()) - 1;
}

uint32_t MeshPlan::Launch(uint32_t device, uint32_t kernel, std::initializer_list<uint32_t> buffers,
                          uint32_t stream) {
  Step step;
  step.device = device;
  step.stream = stream;
  step.kernel = kernel;
  std::vector<Binding> bindings;
  for (uint32_t b : buffers) bindings.push_back({b, 0});
  step.bindings = ListOf(arena, bindings);
  step.source = Source("Kernel \"" + std::string(kernels_[kernel].name) + "\"");
  return AddStep(step);
}

uint32_t MeshPlan::Copy(uint32_t device, Binding from, Binding to, uint64_t bytes) {
  Step step;
  step.kind = StepKind::kCopy;
  step.device = device;
  step.bytes = bytes;
  step.bindings = List<Binding>(arena, {from, to});
  step.source = Source("Identity \"copy\"");
  return AddStep(step);
}

uint32_t MeshPlan::Start(uint32_t device, uint32_t sync_point, Binding from, Binding to, uint32_t stream) {
  Step step;
  step.kind = StepKind::kCollectiveStart;
  step.device = device;
  step.stream = stream;
  step.sync_point = sync_point;
  step.bindings = List<Binding>(arena, {from, to});
  step.source = sync_points_[sync_point].source;
  return AddStep(step);
}

uint32_t MeshPlan::Wait(uint32_t device, uint32_t sync_point, uint32_t stream) {
  Step step;
  step.kind = StepKind::kCollectiveWait;
  step.device = device;
  step.stream = stream;
  step.sync_point = sync_point;
  step.source = sync_points_[sync_point].source;
  return AddStep(step);
}

void MeshPlan::Order(uint32_t earlier, uint32_t later) {
  if (steps_[earlier].records == kNone) steps_[earlier].records = num_events_++;
  waits_[later].push_back(steps_[earlier].records);
}

std::vector<uint32_t> MeshPlan::AllDevices() const {
  std::vector<uint32_t> all(devices_);
  for (uint32_t d = 0; d < devices_; ++d) all[d] = d;
  return all;
}

// A lifetime goes from the first access to the last. A collective's access ends with its wait.
void MeshPlan::StateLifetimes() {
  const uint32_t last = static_cast<uint32_t>(steps_.size()) - 1;
  std::vector<bool> used(buffers_.size());
  for (uint32_t s = 0; s <= last; ++s) {
    uint32_t end = s;
    while (steps_[s].kind == StepKind::kCollectiveStart &&
           (steps_[end].kind != StepKind::kCollectiveWait || steps_[end].device != steps_[s].device ||
            steps_[end].sync_point != steps_[s].sync_point))
      ++end;
    for (const Binding& binding : steps_[s].bindings) {
      Buffer& b = buffers_[binding.buffer];
      if (b.program == kNone) continue;
      if (!used[binding.buffer] && b.kind != BufferKind::kInput) b.first_step = s;
      b.last_step = b.kind == BufferKind::kOutput ? last : std::max(b.last_step, end);
      used[binding.buffer] = true;
    }
  }
}

void MeshPlan::Finish() {
  StateLifetimes();
  std::vector<uint64_t> arena_bytes(devices_), state_bytes(devices_);
  for (Buffer& b : buffers_) {
    uint64_t& at = (b.kind == BufferKind::kState ? state_bytes : arena_bytes)[b.device];
    b.offset = at;
    at += (b.bytes + 63) / 64 * 64;
  }
  std::vector<DeviceBytes> devices(devices_);
  const uint64_t most = *std::max_element(arena_bytes.begin(), arena_bytes.end());
  uint32_t streams = 1;
  for (uint32_t d = 0; d < devices_; ++d) {
    devices[d].arena = most;
    devices[d].state = state_bytes[d];
  }
  std::vector<Partition> partitions;
  for (uint32_t s = 0; s < steps_.size(); ++s) {
    steps_[s].waits = ListOf(arena, waits_[s]);
    streams = std::max(streams, steps_[s].stream + 1);
    const bool asked = std::find(breaks_.begin(), breaks_.end(), s) != breaks_.end();
    if (s == 0 || asked || steps_[s].device != steps_[s - 1].device) {
      if (s != 0) partitions.back().reason = asked ? BreakReason::kUserBreak : BreakReason::kDeviceChange;
      Partition p;
      p.device = steps_[s].device;
      p.first_step = s;
      partitions.push_back(p);
    }
    ++partitions.back().num_steps;
  }
  Program program;
  program.name = "mesh";
  program.inputs = ListOf(arena, inputs_);
  program.outputs = ListOf(arena, outputs_);
  program.steps = ListOf(arena, steps_);
  program.partitions = ListOf(arena, partitions);
  program.sync_points = ListOf(arena, sync_points_);
  program.num_streams = streams;
  program.num_events = num_events_;
  program.arena_bytes = program.arena_lower_bound = most;
  data.producer = "a test";
  data.requirements.devices = ListOf(arena, devices);
  data.requirements.target = "host";
  data.sources = ListOf(arena, sources_);
  data.buffers = ListOf(arena, buffers_);
  data.kernels = ListOf(arena, kernels_);
  data.programs = List<Program>(arena, {program});
  Certify();
}

void MeshPlan::Certify() {
  if (program().sync_points.empty()) return;
  std::vector<uint64_t> certificates;
  for (uint32_t d = 0; d < devices_; ++d) certificates.push_back(OrderCertificate(program(), d));
  program().certificates = ListOf(arena, certificates);
}

void MakeLayers(MeshPlan* plan, int layers, int64_t elements, bool split) {
  MeshPlan& p = *plan;
  const uint64_t bytes = static_cast<uint64_t>(elements) * 4;
  const uint32_t add = p.AddKernel(elements), third = p.ScaleKernel(elements, 0.3),
                 fifth = p.ScaleKernel(elements, 0.2);
  for (int l = 0; l < layers; ++l) {
    const std::string name = std::to_string(l);
    p.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, bytes, 0, p.AllDevices(), "sum" + name);
    p.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, bytes, 1, p.AllDevices(), "side" + name);
  }
  const std::vector<uint32_t> x = p.AddReplicated("x", elements);
  for (uint32_t d = 0; d < p.devices(); ++d) {
    auto temporary = [&](const char* name, int l) {
      return p.Add(BufferKind::kTemporary, d, name + std::to_string(d) + "_" + std::to_string(l), elements);
    };
    const uint32_t b = p.Add(BufferKind::kInput, d, "b" + std::to_string(d), elements);
    const uint32_t out = p.Add(BufferKind::kOutput, d, "out" + std::to_string(d), elements);
    uint32_t now = x[d], side = b, last = 0;
    for (int l = 0; l < layers; ++l) {
      if (split && l != 0) p.Break();
      const uint32_t point = 2 * static_cast<uint32_t>(l);
      const uint32_t y = temporary("y", l), s = temporary("s", l), v = temporary("v", l),
                     w = temporary("w", l);
      p.Launch(d, add, {now, b, y});
      p.Start(d, point, {y, 0}, {s, 0});
      p.Launch(d, add, {side, b, v}, 1);
      p.Start(d, point + 1, {v, 0}, {w, 0}, 1);
      p.Wait(d, point);
      now = temporary("x", l);
      p.Launch(d, third, {s, now});
      p.Wait(d, point + 1, 1);
      side = temporary("u", l);
      last = p.Launch(d, fifth, {w, side}, 1);
    }
    p.Order(last, p.Launch(d, add, {now, side, out}));
  }
  p.Finish();
}

std::vector<float> LayersReference(uint32_t devices, int layers, const std::vector<float>& x,
                                   const std::vector<float>& b) {
  const size_t n = x.size();
  std::vector<float> now = x, out(n);
  std::vector<float> side = b;  // differs by device until the first all-reduce
  for (int l = 0; l < layers; ++l) {
    for (size_t i = 0; i < n; ++i) {
      float sum = 0, side_sum = 0;
      for (uint32_t d = 0; d < devices; ++d) {
        const float y = now[i] + b[d * n + i], v = side[d * n + i] + b[d * n + i];
        sum = d == 0 ? y : sum + y;
        side_sum = d == 0 ? v : side_sum + v;
      }
      now[i] = sum * 0.3f;
      for (uint32_t d = 0; d < devices; ++d) side[d * n + i] = side_sum * 0.2f;
    }
  }
  for (size_t i = 0; i < n; ++i) out[i] = now[i] + side[i];
  return out;
}

}  // namespace rondo
