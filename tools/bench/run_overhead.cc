// Measures the runtime's own cost:
//   * Session::Run's wall time against its driver calls (copies of inputs, graph launches, synchronisation)
//   replayed without the runtime
//   * what 10,000 runs allocate, and for whom
//   * what tensors in device memory save
//   * memory that sessions leave behind
//   * the time of Open and Create
//
//   run_overhead DRIVER PLAN...
//
// DRIVER is host or cuda. Each plan gets one line. Plans of one model with different numbers of partitions
// (rondo compile --break-before) show the cost of a partition, which is fitted over all of them at the end.
// Inputs are zeros. The exit status is 1 if Rondo's code allocates in a run, a run takes device memory, or a
// session leaves device memory behind. Allocations by libraries that a driver has opened are counted apart,
// beside those of the same calls made bare.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "core/forwarding_driver.h"
#include "runtime/plan.h"
#include "runtime/runtime.h"
#include "runtime/session.h"
#include "tools/bench/allocation_sources.h"
#include "tools/rondo/device_tensors.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/made_inputs.h"
#include "tools/rondo/run_tensors.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRuns = 1000, kAllocationRuns = 10000, kBareRuns = 2000, kCycles = 20;

double Microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

// Records the calls of a run while `listening`, and counts device allocations.
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

  enum Which { kAll, kCopiesIn, kGraphs };  // each with the synchronisation

  // Makes the recorded calls again.
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

// The three kinds of run take turns, so that the machine's other load meets all of them.
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
    // The graphs may overwrite their inputs, so these are copied in again first, untimed.
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

// What runs allocate: on the host by source, on the device by calls and by free bytes.
struct Allocations {
  AllocationSources runs;
  uint64_t on_device = 0;                                  // calls
  uint64_t free_first = 0, free_least = 0, free_most = 0;  // bytes, read at every thousandth run
};

template <typename F>
Result<AllocationSources> Watch(int runs, F run) {
  BeginAllocationSources();
  Status status;
  for (int i = 0; i < runs && status.ok(); ++i) status = run(i);
  const AllocationSources sources = EndAllocationSources();
  if (!status.ok()) return status;
  return sources;
}

// Calls `run` with the number of the run.
template <typename F>
Result<Allocations> CountAllocations(ListeningDevice& device, F run) {
  Allocations counted;
  uint64_t total = 0;
  RONDO_RETURN_IF_ERROR(device.MemoryInfo(&counted.free_first, &total));
  counted.free_least = counted.free_most = counted.free_first;
  device.allocations = 0;
  RONDO_ASSIGN_OR_RETURN(counted.runs, Watch(kAllocationRuns, [&](int i) -> Status {
                           RONDO_RETURN_IF_ERROR(run(i));
                           if (i % 1000 != 999) return Status::Ok();
                           uint64_t now = 0;
                           RONDO_RETURN_IF_ERROR(device.MemoryInfo(&now, &total));
                           counted.free_least = std::min(counted.free_least, now);
                           counted.free_most = std::max(counted.free_most, now);
                           return Status::Ok();
                         }));
  counted.on_device = device.allocations;
  return counted;
}

unsigned long long Number(uint64_t value) { return value; }

// Prints a line; returns whether Rondo allocated nothing.
bool Report(const char* what, const Allocations& counted, bool on_host) {
  std::printf(
      "    %d %s: host allocations by Rondo %llu, by the driver's libraries %llu; device allocations %llu",
      kAllocationRuns, what, Number(counted.runs.own), Number(counted.runs.others),
      Number(counted.on_device));
  // The host driver's free memory is the machine's, which other processes change.
  const bool flat = counted.free_least == counted.free_first && counted.free_most == counted.free_first;
  if (!on_host) {
    std::printf("; free device memory %llu bytes%s", Number(counted.free_first),
                flat ? " throughout" : ", NOT THROUGHOUT");
  }
  std::printf("\n");
  return counted.runs.own == 0 && counted.on_device == 0 && (on_host || flat);
}

// Times runs with all outputs. The tensors lie in host memory, in the same device memory each time, or in
// alternating device memory. The three kinds take turns.
Status MeasureMemory(Session& session, const std::vector<Input>& inputs, ListeningDevice& device,
                     bool on_host, Numbers* numbers) {
  const PlanData& plan = session.plan().data();
  RONDO_ASSIGN_OR_RETURN(DeviceTensors here, DeviceTensors::Create(session, 0, inputs));
  RONDO_ASSIGN_OR_RETURN(DeviceTensors there, DeviceTensors::Create(session, 0, inputs));
  std::vector<std::vector<uint8_t>> room;
  std::vector<Output> outputs;
  for (const Output& output : here.outputs()) {
    room.emplace_back(output.bytes);
    outputs.push_back({output.name, kNone, output.dtype, room.back().data(), output.bytes});
  }
  const auto run = [&](bool other) {
    const DeviceTensors& at = other ? there : here;
    return session.Run(0, at.inputs(), at.outputs());
  };
  std::vector<double> host, steady, changing;
  for (int i = -kRuns / 10; i < kRuns; ++i) {
    auto start = Clock::now();
    RONDO_RETURN_IF_ERROR(session.Run(0, inputs, outputs));
    if (i >= 0) host.push_back(Microseconds(start));
    // After two runs all steps are bound to these addresses.
    for (int again = 0; again < 2; ++again) RONDO_RETURN_IF_ERROR(run(false));
    start = Clock::now();
    RONDO_RETURN_IF_ERROR(run(false));
    if (i >= 0) steady.push_back(Microseconds(start));
    start = Clock::now();
    RONDO_RETURN_IF_ERROR(run(true));
    if (i >= 0) changing.push_back(Microseconds(start));
  }
  bool same = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(std::vector<uint8_t> got, there.Read(i));
    same &= got == room[i] || plan.requirements.devices[0].state != 0;  // state changes in every run
  }
  std::printf(
      "    %zu inputs and %zu outputs: in host memory %.2f us, in device memory %.2f, in other device memory "
      "each run %.2f%s\n",
      inputs.size(), outputs.size(), Median(host), Median(steady), Median(changing),
      same ? "" : "; THE RESULTS DIFFER");
  RONDO_ASSIGN_OR_RETURN(Allocations counted,
                         CountAllocations(device, [&](int i) { return run(i % 2 != 0); }));
  numbers->clean &= Report("runs in other device memory each", counted, on_host) && same;
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
  OneDeviceDriver forwarding(driver.get(), &device);
  RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(&forwarding));
  const std::vector<Tensor> tensors = FillInputs(plan.data(), 0, {});
  const std::vector<Input> inputs = InputsOf(plan.data(), 0, tensors);
  const bool on_host = options.driver == "host";

  double create_us = 0;
  uint64_t free_before = 0, free_after = 0, total = 0;
  for (int cycle = 0; cycle <= kCycles; ++cycle) {  // the first does not count: contexts and pools grow once
    start = Clock::now();
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
    if (cycle == 0) create_us = Microseconds(start);
    RONDO_RETURN_IF_ERROR(session.Run(0, inputs, {}));
    session = Session();
    RONDO_RETURN_IF_ERROR(device.MemoryInfo(cycle == 0 ? &free_before : &free_after, &total));
  }

  RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
  RONDO_RETURN_IF_ERROR(MeasureTimes(session, inputs, device, &numbers));
  std::printf(
      "%-28s %3.0f partitions: run %8.2f us, its driver calls bare %8.2f, graphs alone %8.2f; own cost %6.2f "
      "us\n",
      path.substr(path.rfind('/') + 1).c_str(),
      static_cast<double>(plan.data().programs[0].partitions.size()), numbers.run, numbers.calls,
      numbers.graphs, numbers.run - numbers.calls);
  RONDO_ASSIGN_OR_RETURN(Allocations counted,
                         CountAllocations(device, [&](int) { return session.Run(0, inputs, {}); }));
  numbers.clean = Report("runs", counted, on_host);
  RONDO_ASSIGN_OR_RETURN(AllocationSources bare,
                         Watch(kBareRuns, [&](int) { return device.Replay(ListeningDevice::kAll); }));
  std::printf(
      "    their driver calls bare, %d times: host allocations by this program %llu, by the driver's "
      "libraries %llu\n",
      kBareRuns, Number(bare.own), Number(bare.others));
  RONDO_RETURN_IF_ERROR(MeasureMemory(session, inputs, device, on_host, &numbers));
  session = Session();
  RONDO_RETURN_IF_ERROR(device.MemoryInfo(&free_after, &total));

  numbers.partitions = static_cast<double>(plan.data().programs[0].partitions.size());
  const auto lost = static_cast<int64_t>(free_before) - static_cast<int64_t>(free_after);
  numbers.clean &= on_host || lost <= 0;
  std::printf(
      "    %d sessions made and destroyed: %lld bytes of device memory less; Open %.1f ms, first Create %.1f "
      "ms\n",
      kCycles + 1, static_cast<long long>(lost), open_us / 1e3, create_us / 1e3);
  std::fflush(stdout);
  return numbers;
}

// Fits cost = a + b * partitions over the plans, by least squares.
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
  if (!clean)
    std::fprintf(stderr,
                 "run_overhead: a run allocated, a session left device memory behind, or results differ\n");
  return clean ? 0 : 1;
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) {
  if (argc >= 3) return rondo::tools::Main(argc, argv);
  std::fprintf(stderr, "usage: run_overhead host|cuda PLAN...\n");
  return 2;
}
