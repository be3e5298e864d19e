// The runtime's own cost: Session::Run's wall time against the driver calls that it makes (copies of inputs,
// graph launches, synchronisation), made again without it; what 10,000 runs allocate; what sessions leave
// behind; how long Open and Create take.
//
//   run_overhead DRIVER PLAN...
//
// DRIVER is host or cuda. One line a plan; plans of one model with different numbers of partitions
// (rondo compile --break-before) show the cost of a partition, fitted over all of them at the end. Inputs are
// zeros. Exit status 1 when runs allocate more than twice as often as the bare calls (a driver's libraries
// may, and not evenly), or a session leaves device memory behind.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/plan.h"
#include "runtime/runtime.h"
#include "runtime/session.h"
#include "runtime/testing/allocation_counter.h"
#include "tools/rondo/forwarding_driver.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRuns = 2000, kAllocationRuns = 10000, kCycles = 20;

double Microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

// Keeps the calls of a run while `listening`, and counts what allocates.
class ListeningDevice : public ForwardingDevice {
 public:
  struct Call {
    enum { kCopyIn, kCopyOut, kLaunch, kSynchronize } kind;
    Stream* stream;
    Graph* graph = nullptr;
    DeviceAddress device = 0;
    void* host = nullptr;
    uint64_t bytes = 0;
  };
  using ForwardingDevice::ForwardingDevice;

  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    ++allocations;
    return inner_->Allocate(bytes, alignment);
  }
  Status CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) override {
    if (listening) calls.push_back({Call::kCopyIn, stream, nullptr, to, const_cast<void*>(host), bytes});
    return inner_->CopyIn(to, host, bytes, stream);
  }
  Status CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    if (listening) calls.push_back({Call::kCopyOut, stream, nullptr, from, host, bytes});
    return inner_->CopyOut(host, from, bytes, stream);
  }
  Status Synchronize(Stream* stream, uint32_t* step) override {
    if (listening) calls.push_back({Call::kSynchronize, stream});
    return inner_->Synchronize(stream, step);
  }
  Status LaunchGraph(Graph* graph, Stream* stream) override {
    if (listening) calls.push_back({Call::kLaunch, stream, graph});
    return inner_->LaunchGraph(graph, stream);
  }

  enum Which { kAll, kCopiesIn, kGraphs };  // with the synchronisation, each

  // The calls again.
  Status Replay(Which which) {
    uint32_t step = 0;
    for (const Call& call : calls) {
      switch (call.kind) {
        case Call::kCopyIn:
          if (which != kGraphs)
            RONDO_RETURN_IF_ERROR(inner_->CopyIn(call.device, call.host, call.bytes, call.stream));
          break;
        case Call::kCopyOut:
          if (which == kAll)
            RONDO_RETURN_IF_ERROR(inner_->CopyOut(call.host, call.device, call.bytes, call.stream));
          break;
        case Call::kLaunch:
          if (which != kCopiesIn) RONDO_RETURN_IF_ERROR(inner_->LaunchGraph(call.graph, call.stream));
          break;
        case Call::kSynchronize: RONDO_RETURN_IF_ERROR(inner_->Synchronize(call.stream, &step)); break;
      }
    }
    return Status::Ok();
  }

  bool listening = false;
  std::vector<Call> calls;
  uint64_t allocations = 0;
};

struct Numbers {
  double partitions = 0, run = 0, calls = 0, graphs = 0;
  bool clean = true;
};

double Median(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// The three kinds of run take turns, so that whatever else the machine does meets all.
Status MeasureTimes(Session& session, const std::vector<Input>& inputs, ListeningDevice& device,
                    Numbers* numbers) {
  device.listening = true;
  RONDO_RETURN_IF_ERROR(session.Run(0, inputs, {}));
  device.listening = false;
  std::vector<double> run, calls, graphs;
  for (int i = -kRuns / 10; i < kRuns; ++i) {
    auto start = Clock::now();
    RONDO_RETURN_IF_ERROR(session.Run(0, inputs, {}));
    if (i >= 0) run.push_back(Microseconds(start));
    start = Clock::now();
    RONDO_RETURN_IF_ERROR(device.Replay(ListeningDevice::kAll));
    if (i >= 0) calls.push_back(Microseconds(start));
    // The graphs write over their inputs' memory: those are copied in again first, untimed.
    RONDO_RETURN_IF_ERROR(device.Replay(ListeningDevice::kCopiesIn));
    start = Clock::now();
    RONDO_RETURN_IF_ERROR(device.Replay(ListeningDevice::kGraphs));
    if (i >= 0) graphs.push_back(Microseconds(start));
  }
  numbers->run = Median(run);
  numbers->calls = Median(calls);
  numbers->graphs = Median(graphs);
  return Status::Ok();
}

Result<Numbers> Measure(const std::string& path, const LoadOptions& options) {
  Numbers numbers;
  auto start = Clock::now();
  RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::Open(path.c_str()));
  const double open_us = Microseconds(start);
  const OpRegistry ops;
  RONDO_ASSIGN_OR_RETURN(DriverHandle driver, OpenDriver(plan.data(), options, {}, ops));
  RONDO_ASSIGN_OR_RETURN(Device * inner, driver->Open(0));
  ListeningDevice device(inner);
  ForwardingDriver forwarding(driver.get(), &device);
  RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(&forwarding));
  const std::vector<Tensor> tensors = FillInputs(plan.data(), 0, {});
  const std::vector<Input> inputs = InputsOf(plan.data(), 0, tensors);

  double create_us = 0;
  uint64_t free_before = 0, free_after = 0, total = 0;
  for (int cycle = 0; cycle <= kCycles; ++cycle) {  // the first is not counted: contexts and pools grow once
    start = Clock::now();
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
    if (cycle == 0) create_us = Microseconds(start);
    RONDO_RETURN_IF_ERROR(session.Run(0, inputs, {}));
    session = Session();
    RONDO_RETURN_IF_ERROR(device.MemoryInfo(cycle == 0 ? &free_before : &free_after, &total));
  }

  RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
  RONDO_RETURN_IF_ERROR(MeasureTimes(session, inputs, device, &numbers));
  device.allocations = 0;
  ResetAllocationCount();
  for (int i = 0; i < kAllocationRuns; ++i) RONDO_RETURN_IF_ERROR(session.Run(0, inputs, {}));
  const uint64_t host_allocations = AllocationCount(), device_allocations = device.allocations;
  // The driver's own libraries may allocate: the calls alone tell how often.
  ResetAllocationCount();
  for (int i = 0; i < kAllocationRuns; ++i) RONDO_RETURN_IF_ERROR(device.Replay(ListeningDevice::kAll));
  const uint64_t bare_allocations = AllocationCount();

  numbers.partitions = static_cast<double>(plan.data().programs[0].partitions.size());
  const auto lost = static_cast<int64_t>(free_before) - static_cast<int64_t>(free_after);
  // The host driver's free memory is the machine's, which others change.
  numbers.clean = (options.driver == "host" ? host_allocations == 0 && bare_allocations == 0 : lost <= 0) &&
                  host_allocations <= 2 * bare_allocations && device_allocations == 0;
  std::printf(
      "%-28s %3.0f partitions: run %8.2f us, its driver calls bare %8.2f, graphs alone %8.2f; own cost %6.2f "
      "us\n",
      path.substr(path.rfind('/') + 1).c_str(), numbers.partitions, numbers.run, numbers.calls,
      numbers.graphs, numbers.run - numbers.calls);
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("    %d runs: %llu host allocations (the bare calls: %llu), %llu device allocations\n",
              kAllocationRuns, number(host_allocations), number(bare_allocations),
              number(device_allocations));
  std::printf(
      "    %d sessions made and destroyed: %lld bytes of device memory less; Open %.1f ms, first Create %.1f "
      "ms\n",
      kCycles, static_cast<long long>(lost), open_us / 1e3, create_us / 1e3);
  std::fflush(stdout);
  return numbers;
}

// Least squares over the plans: cost = a + b * partitions.
void PrintFit(const std::vector<Numbers>& all) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Numbers& numbers : all) {
    const double cost = numbers.run - numbers.calls;
    n += 1, x += numbers.partitions, y += cost;
    xx += numbers.partitions * numbers.partitions, xy += numbers.partitions * cost;
  }
  const double spread = n * xx - x * x;
  if (spread <= 0) return;
  const double slope = (n * xy - x * y) / spread;
  std::printf("own cost: %.2f us a run and %.3f us a partition (least squares over %.0f plans)\n",
              (y - slope * x) / n, slope, n);
}

int Main(int argc, char** argv) {
  LoadOptions options;
  options.driver = argv[1];
  std::vector<Numbers> all;
  bool clean = true;
  for (int i = 2; i < argc; ++i) {
    Result<Numbers> numbers = Measure(argv[i], options);
    if (!numbers.ok()) {
      std::fprintf(stderr, "run_overhead: %s: %s\n", argv[i], numbers.status().message());
      return 1;
    }
    clean &= numbers->clean;
    all.push_back(*numbers);
  }
  PrintFit(all);
  if (!clean) std::fprintf(stderr, "run_overhead: a run allocated, or a session left device memory behind\n");
  return clean ? 0 : 1;
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) {
  if (argc >= 3) return rondo::tools::Main(argc, argv);
  std::fprintf(stderr, "usage: run_overhead host|cuda PLAN...\n");
  return 2;
}
