#include "drivers/flight/flight_driver.h"

#include <algorithm>
#include <atomic>

#if RONDO_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace rondo::flight {
namespace {

// An NVTX range with this object's lifetime.
class Range {
 public:
#if RONDO_HAVE_NVTX
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
#else
  explicit Range(const char*) {}
  ~Range() {}
#endif
  Range(const Range&) = delete;
};

uint64_t NumberOf(const void* object) { return reinterpret_cast<uintptr_t>(object); }

// "step 7: k3_matmul (MatMul "up")".
std::string StepLine(const PlanData* plan, const Program& program, uint32_t number) {
  const Step& step = program.steps[number];
  std::string line = "step " + std::to_string(number) + ": ";
  if (plan != nullptr && step.kernel < plan->kernels.size()) {
    line += plan->kernels[step.kernel].name;
  } else {
    line += Name(step.kind);
  }
  if (plan != nullptr && step.source < plan->sources.size())
    line += " (" + std::string(plan->sources[step.source]) + ")";
  return line;
}

}  // namespace

class FlightDevice : public ForwardingDevice {
 public:
  FlightDevice(Device* inner, uint32_t index, FlightFile* file)
      : ForwardingDevice(inner), index_(index), file_(file) {}

  Result<Module*> LoadModule(const PlanData& plan) override { return Noted(inner_->LoadModule(plan), plan); }
  Result<Module*> BeginModule(const PlanData& plan) override {
    return Noted(inner_->BeginModule(plan), plan);
  }
  Status FinishModule(Module* module) override { return inner_->FinishModule(module); }
  void DestroyModule(Module* module) override {
    {
      const std::lock_guard lock(mutex_);
      plans_.erase(module);
    }
    inner_->DestroyModule(module);
  }

  Status CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) override {
    Add(Kind::kCopyIn, stream, kNone, bytes);
    return inner_->CopyIn(to, host, bytes, stream);
  }
  Status CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    Add(Kind::kCopyOut, stream, kNone, bytes);
    return inner_->CopyOut(host, from, bytes, stream);
  }
  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override {
    if (recording_ != 0) {
      const std::lock_guard lock(mutex_);
      recorded_.push_back({module, kernel, step});
    } else {
      Add(Kind::kStep, stream, step);
    }
    return inner_->Launch(module, kernel, addresses, stream, step);
  }
  Status Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
              uint32_t step) override {
    if (recording_ == 0) Add(Kind::kStep, stream, step);
    return inner_->Call(module, op, addresses, stream, step);
  }
  Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                         Stream* stream) override {
    if (recording_ == 0) Add(Kind::kCollective, stream, part.step);
    return inner_->StartCollective(part, from, to, stream);
  }

  Status BeginRecord(Stream* stream) override {
    const std::lock_guard lock(mutex_);
    RONDO_RETURN_IF_ERROR(inner_->BeginRecord(stream));
    if (recording_++ == 0) recorded_.clear();
    return Status::Ok();
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    Result<Graph*> graph = inner_->EndRecord(stream);
    const std::lock_guard lock(mutex_);
    --recording_;
    if (!graph.ok()) return graph;
    const std::string text = Describe(inner_->Nodes(*graph));
    graphs_[*graph] = {file_->Text(text), "rondo: " + text.substr(0, text.find('\n'))};
    return graph;
  }
  void DestroyGraph(Graph* graph) override {
    {
      const std::lock_guard lock(mutex_);
      graphs_.erase(graph);
    }
    inner_->DestroyGraph(graph);
  }
  Status LaunchGraph(Graph* graph, Stream* stream) override {
    const Known* known = nullptr;
    {
      const std::lock_guard lock(mutex_);
      known = &graphs_.at(graph);
    }
    Add(Kind::kLaunch, stream, kNone, 0, known->text);
    const Range range(known->title.c_str());
    return inner_->LaunchGraph(graph, stream);
  }
  Status Synchronize(Stream* stream, uint32_t* failed_step) override {
    Add(Kind::kWait, stream);
    const Range range("rondo: wait");
    Status status = inner_->Synchronize(stream, failed_step);
    if (status.ok()) {
      Add(Kind::kDone, stream);
    } else {
      Add(Kind::kFault, stream, *failed_step, 0, file_->Text(status.message()));
    }
    return status;
  }

 private:
  struct Known {
    uint64_t text = 0;
    std::string title;
  };
  struct Recorded {
    Module* module;
    uint32_t kernel, step;
  };

  Result<Module*> Noted(Result<Module*> module, const PlanData& plan) {
    const std::lock_guard lock(mutex_);
    if (module.ok()) plans_[*module] = &plan;
    return module;
  }

  void Add(Kind kind, Stream* stream, uint32_t step = kNone, uint64_t value = 0, uint64_t text = 0) {
    file_->Add(index_, kind, NumberOf(stream), step, value, text);
  }

  // Whether a graph of these nodes is this partition of this program.
  bool Is(const Program& program, const Partition& partition, Span<const GraphNode> nodes) const {
    const uint32_t end = partition.first_step + partition.num_steps;
    for (const GraphNode& node : nodes) {
      if (node.kind == StepKind::kCopy) continue;  // the driver does not know its step
      if (node.step < partition.first_step || node.step >= end || program.steps[node.step].kind != node.kind)
        return false;
    }
    for (const Recorded& launch : recorded_)
      if (launch.step >= end || program.steps[launch.step].kernel != launch.kernel) return false;
    return true;
  }

  // A recorded graph as text, one line for each step.
  std::string Describe(Span<const GraphNode> nodes) const {
    for (const auto& [module, plan] : plans_) {
      if (!recorded_.empty() && recorded_[0].module != module) continue;
      for (const Program& program : plan->programs) {
        for (uint32_t p = 0; p < program.partitions.size(); ++p) {
          const Partition& partition = program.partitions[p];
          if (!Is(program, partition, nodes)) continue;
          std::string text = "program " + std::string(program.name) + ", partition " + std::to_string(p);
          for (uint32_t s = 0; s < partition.num_steps; ++s)
            text += "\n" + StepLine(plan, program, partition.first_step + s);
          return text;
        }
      }
    }
    return "a graph of " + std::to_string(nodes.size()) + " nodes";
  }

  const uint32_t index_;
  FlightFile* const file_;
  std::atomic<uint32_t> recording_ = 0;  // number of streams that record
  std::mutex mutex_;
  std::map<Module*, const PlanData*> plans_;
  std::map<Graph*, Known> graphs_;
  std::vector<Recorded> recorded_;
};

Result<FlightDriver*> FlightDriver::Create(Driver* inner, const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(FlightFile * file, FlightFile::Create(path));
  return new FlightDriver(inner, file);
}

FlightDriver::FlightDriver(Driver* inner, FlightFile* file) : ForwardingDriver(inner), file_(file) {}

FlightDriver::~FlightDriver() = default;

Result<Device*> FlightDriver::Open(uint32_t index) {
  RONDO_ASSIGN_OR_RETURN(Device * inner, inner_->Open(index));
  const std::lock_guard lock(mutex_);
  std::unique_ptr<FlightDevice>& device = devices_[index];
  if (device == nullptr) device = std::make_unique<FlightDevice>(inner, index, file_.get());
  return static_cast<Device*>(device.get());
}

Result<Collectives*> FlightDriver::CreateCollectives(const Program& program, Span<const uint32_t> devices) {
  Result<Collectives*> made = inner_->CreateCollectives(program, devices);
  if (!made.ok()) return made;
  std::vector<Part> parts(devices.size());
  std::vector<std::string> texts(devices.size(), "program " + std::string(program.name));
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if (step.kind == StepKind::kCollectiveStart && step.device < texts.size())
      texts[step.device] +=
          "\n" + StepLine(nullptr, program, s) + ", " + std::to_string(step.bytes) + " bytes";
  }
  for (size_t d = 0; d < devices.size(); ++d) parts[d] = {devices[d], file_->Text(texts[d]), 0};
  const std::lock_guard lock(mutex_);
  collectives_[*made] = std::move(parts);
  return made;
}

void FlightDriver::DestroyCollectives(Collectives* collectives) {
  {
    const std::lock_guard lock(mutex_);
    collectives_.erase(collectives);
  }
  inner_->DestroyCollectives(collectives);
}

void FlightDriver::AbortCollectives(Collectives* collectives, const Status& why, bool wait) {
  {
    const std::lock_guard lock(mutex_);
    const uint64_t text = file_->Text(why.message());
    const auto found = collectives_.find(collectives);
    if (found != collectives_.end()) {
      for (const Part& part : found->second) file_->Add(part.device, Kind::kAbort, 0, kNone, 0, text);
    }
  }
  inner_->AbortCollectives(collectives, why, wait);
}

Status FlightDriver::Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) {
  RONDO_RETURN_IF_ERROR(inner_->Progress(collectives, device, progress));
  const std::lock_guard lock(mutex_);
  const auto found = collectives_.find(collectives);
  if (found == collectives_.end() || device >= found->second.size()) return Status::Ok();
  Part& part = found->second[device];
  const uint64_t now = uint64_t{progress->started} << 32 | progress->ended;
  if (part.noted != now) file_->Add(part.device, Kind::kProgress, 0, kNone, now, part.text);
  part.noted = now;
  return Status::Ok();
}

}  // namespace rondo::flight
