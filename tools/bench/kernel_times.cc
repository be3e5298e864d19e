// Device time of each kernel of a plan by itself, launch after launch in one graph: what a step costs without
// the event that `rondo bench` puts behind it. Weights are not loaded: the kernels run over memory of the
// right size.
//
//   kernel_times PLAN FIRST_INTEGER SKELETON...
//
// Kernels with a part of one of the skeletons (attention, reduction, map, ...) are timed. Integer buffers
// hold FIRST_INTEGER and the numbers after it (positions, limits, indices).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "formats/plan/reader.h"
#include "runtime/plan.h"
#include "tools/rondo/timings.h"

namespace rondo::tools {
namespace {

constexpr int kLaunches = 64, kReplays = 30;

class Timer {
 public:
  Timer(const PlanData& plan, Device* device, int64_t first_integer)
      : plan_(plan), device_(device), first_integer_(first_integer) {}

  Status Open() {
    RONDO_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
    RONDO_ASSIGN_OR_RETURN(module_, device_->LoadModule(plan_));
    RONDO_ASSIGN_OR_RETURN(begin_, device_->CreateTimedEvent());
    RONDO_ASSIGN_OR_RETURN(end_, device_->CreateTimedEvent());
    return Status::Ok();
  }

  // Microseconds a launch; launches take turns with all steps that use the kernel.
  Result<double> Time(uint32_t kernel) {
    std::vector<std::vector<DeviceAddress>> steps;
    for (const Program& program : plan_.programs) {
      for (const Step& step : program.steps) {
        if (step.kind != StepKind::kLaunch || step.kernel != kernel) continue;
        steps.emplace_back();
        for (const Binding& binding : step.bindings) {
          RONDO_ASSIGN_OR_RETURN(const DeviceAddress address, AddressOf(binding.buffer));
          steps.back().push_back(address + binding.offset);
        }
      }
    }
    RONDO_RETURN_IF_ERROR(device_->BeginRecord(stream_));
    for (int i = 0; i < kLaunches; ++i) {
      const std::vector<DeviceAddress>& addresses = steps[static_cast<size_t>(i) % steps.size()];
      RONDO_RETURN_IF_ERROR(
          device_->Launch(module_, kernel, Span<const DeviceAddress>(addresses), stream_, 0));
    }
    RONDO_ASSIGN_OR_RETURN(Graph * graph, device_->EndRecord(stream_));
    std::vector<double> times;
    for (int i = 0; i < kReplays; ++i) {
      RONDO_RETURN_IF_ERROR(device_->Record(begin_, stream_));
      RONDO_RETURN_IF_ERROR(device_->LaunchGraph(graph, stream_));
      RONDO_RETURN_IF_ERROR(device_->Record(end_, stream_));
      uint32_t step = 0;
      RONDO_RETURN_IF_ERROR(device_->Synchronize(stream_, &step));
      RONDO_ASSIGN_OR_RETURN(const double time, device_->ElapsedMicroseconds(begin_, end_));
      times.push_back(time / kLaunches);
    }
    device_->DestroyGraph(graph);
    std::sort(times.begin(), times.end());
    return Quantile(times, 0.5);
  }

 private:
  Result<DeviceAddress> AddressOf(uint32_t index) {
    if (auto found = addresses_.find(index); found != addresses_.end()) return found->second;
    const Buffer& buffer = plan_.buffers[index];
    RONDO_ASSIGN_OR_RETURN(const DeviceAddress address, device_->Allocate(buffer.bytes, 256));
    uint32_t step = 0;
    if (buffer.dtype == DType::kI64) {
      std::vector<int64_t> values(buffer.bytes / 8);
      for (size_t i = 0; i < values.size(); ++i) values[i] = first_integer_ + static_cast<int64_t>(i);
      RONDO_RETURN_IF_ERROR(device_->CopyIn(address, values.data(), buffer.bytes, stream_));
      RONDO_RETURN_IF_ERROR(device_->Synchronize(stream_, &step));
    } else {
      RONDO_RETURN_IF_ERROR(device_->Fill(address, 0x3c, buffer.bytes, stream_));
    }
    addresses_[index] = address;
    return address;
  }

  const PlanData& plan_;
  Device* device_;
  const int64_t first_integer_;
  Stream* stream_ = nullptr;
  Module* module_ = nullptr;
  Event *begin_ = nullptr, *end_ = nullptr;
  std::map<uint32_t, DeviceAddress> addresses_;
};

Status Main(const char* path, int64_t first_integer, const std::set<std::string>& skeletons) {
  RONDO_ASSIGN_OR_RETURN(const Plan plan, Plan::Open(path));
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriver());
  RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
  Timer timer(plan.data(), device, first_integer);
  RONDO_RETURN_IF_ERROR(timer.Open());
  for (uint32_t k = 0; k < plan.data().kernels.size(); ++k) {
    const Kernel& kernel = plan.data().kernels[k];
    const bool chosen = std::any_of(kernel.parts.begin(), kernel.parts.end(), [&](const Part& part) {
      return skeletons.count(Name(part.skeleton)) != 0;
    });
    if (!chosen) continue;
    RONDO_ASSIGN_OR_RETURN(const double time, timer.Time(k));
    std::printf("%-20s %8.2f µs\n", std::string(kernel.name).c_str(), time);
    std::fflush(stdout);
  }
  return Status::Ok();
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: kernel_times PLAN FIRST_INTEGER SKELETON...\n");
    return 2;
  }
  const rondo::Status status =
      rondo::tools::Main(argv[1], std::atoll(argv[2]), std::set<std::string>(argv + 3, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "kernel_times: %s\n", status.message());
  return 1;
}
