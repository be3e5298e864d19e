// Runs several sessions on one GPU at once, one thread each: their throughput, and how long one waits for the
// others.
//
//   session_scaling [--seconds S] [--sessions N,N,...] [--pageable] PLAN...
//
// For each plan (for one device; its first program) and each count N of sessions it prints runs a second, and
// the median, the 99th percentile and the longest time of a run, over S seconds (default 0.5). The caller's
// tensors lie in ordinary memory and, without --pageable, also in page-locked memory. The last column is the
// longest run over the median of one session alone in the same memory; at most N + 1 is wanted.
//
// Then come one session's wall time, its device time, and the time of its copies alone from and to
// page-locked memory; and the memory that the device gave beside what the plan states. Inputs are zeros and
// small numbers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/forwarding_driver.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_device.h"
#include "formats/plan/device_memory.h"
#include "runtime/run_timer.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/made_inputs.h"
#include "tools/rondo/run_tensors.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUp = 20, kTimedRuns = 100;

double Microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

double Quantile(const std::vector<double>& sorted, double q) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

struct Arguments {
  double seconds = 0.5;
  std::vector<size_t> sessions = {1, 2, 4, 8};
  bool pageable_only = false;
  std::vector<std::string> plans;
};

// The caller's memory for the inputs and outputs of one session. Not movable.
class Caller {
 public:
  Caller(const PlanData& plan, cuda::CudaDevice* page_lock) : page_lock_(page_lock) {
    tensors_ = FillInputs(plan, 0, {});
    inputs = InputsOf(plan, 0, tensors_);
    for (Input& input : inputs) {
      void* memory = Take(input.bytes);
      std::memcpy(memory, input.data, input.bytes);
      input.data = memory;
    }
    for (const Port& port : plan.programs[0].outputs) {
      const Buffer& b = plan.buffers[port.buffer];
      if (!port.is_state) outputs.push_back({port.name, kNone, b.dtype, Take(b.bytes), b.bytes});
    }
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() {
    for (void* memory : blocks_) {
      if (page_lock_ == nullptr) {
        std::free(memory);
      } else {
        cuda::CudaDevice::Use use(*page_lock_);
        page_lock_->api().host_release(memory);
      }
    }
  }

  std::vector<Input> inputs;
  std::vector<Output> outputs;

 private:
  void* Take(uint64_t bytes) {
    constexpr unsigned kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
    void* memory = nullptr;
    if (page_lock_ == nullptr) {
      memory = std::malloc(bytes);
    } else {
      cuda::CudaDevice::Use use(*page_lock_);
      page_lock_->api().host_allocate(&memory, bytes, kPortable);
    }
    if (memory == nullptr) std::abort();
    std::memset(memory, 0, bytes);
    blocks_.push_back(memory);
    return memory;
  }

  cuda::CudaDevice* const page_lock_;  // null: ordinary memory
  std::vector<Tensor> tensors_;
  std::vector<void*> blocks_;
};

struct Scaled {
  double runs_per_second = 0;
  std::vector<double> times;  // microseconds, sorted
};

// Runs the first `count` sessions at once.
Result<Scaled> Scale(std::vector<Session>& sessions, std::vector<std::unique_ptr<Caller>>& callers,
                     size_t count, double seconds) {
  std::vector<std::vector<double>> times(count);
  std::vector<Status> failed(count);
  std::atomic<size_t> ready{0};
  std::atomic<bool> begin{false}, stop{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    times[i].reserve(1 << 20);
    threads.emplace_back([&, i] {
      const auto run = [&] { return sessions[i].Run(0, callers[i]->inputs, callers[i]->outputs); };
      for (int w = 0; w < kWarmUp && failed[i].ok(); ++w) failed[i] = run();
      ++ready;
      while (!begin.load()) std::this_thread::yield();
      while (!stop.load(std::memory_order_relaxed) && failed[i].ok()) {
        const auto start = Clock::now();
        failed[i] = run();
        times[i].push_back(Microseconds(start));
      }
    });
  }
  while (ready.load() != count) std::this_thread::yield();
  const auto start = Clock::now();
  begin = true;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  const double took = Microseconds(start);
  for (std::thread& thread : threads) thread.join();
  Scaled scaled;
  for (size_t i = 0; i < count; ++i) {
    RONDO_RETURN_IF_ERROR(failed[i]);
    scaled.times.insert(scaled.times.end(), times[i].begin(), times[i].end());
  }
  scaled.runs_per_second = static_cast<double>(scaled.times.size()) / took * 1e6;
  std::sort(scaled.times.begin(), scaled.times.end());
  return scaled;
}

// Counts the bytes that each kind of call takes, by cuMemGetInfo.
class AccountingDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    ++allocations;
    return Account(&blocks, [&] { return inner_->Allocate(bytes, alignment); });
  }
  Result<Module*> LoadModule(const PlanData& plan) override {
    return Account(&modules, [&] { return inner_->LoadModule(plan); });
  }
  Result<Stream*> CreateStream() override {
    return Account(&streams, [&] { return inner_->CreateStream(); });
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    return Account(&graphs, [&] { return inner_->EndRecord(stream); });
  }
  int64_t Free() {
    uint64_t free_bytes = 0, total = 0;
    (void)inner_->MemoryInfo(&free_bytes, &total).ok();
    return static_cast<int64_t>(free_bytes);
  }
  int64_t blocks = 0, modules = 0, streams = 0, graphs = 0, allocations = 0;

 private:
  template <typename F>
  auto Account(int64_t* to, F call) -> decltype(call()) {
    const int64_t before = Free();
    decltype(call()) result = call();
    *to += before - Free();
    return result;
  }
};

double Mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Measures the first session and a second one, which shares its weights and code.
Status MeasureMemory(const Plan& plan, Driver* driver, Device* opened) {
  AccountingDevice device(opened);
  OneDeviceDriver forwarding(driver, &device);
  RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(&forwarding));
  Session sessions[2];
  Caller caller(plan.data(), nullptr);
  const DeviceMemory stated = EstimateDeviceMemory(plan.data(), 0);
  for (int i = 0; i < 2; ++i) {
    const int64_t before = device.Free();
    device.blocks = device.modules = device.streams = device.graphs = device.allocations = 0;
    RONDO_ASSIGN_OR_RETURN(sessions[i], Session::Create(runtime, plan));
    const int64_t made = device.Free();
    RONDO_RETURN_IF_ERROR(sessions[i].Run(0, caller.inputs, caller.outputs));
    std::printf(
        "    session %d: the plan states %.1f MiB, the device gave %.1f: %lld blocks %.1f, code %.1f, "
        "streams %.1f, "
        "graphs %.1f, first run %.1f\n",
        i + 1, Mebibytes(static_cast<int64_t>(i == 0 ? stated.first_session : stated.each_session)),
        Mebibytes(before - device.Free()), static_cast<long long>(device.allocations),
        Mebibytes(device.blocks), Mebibytes(device.modules), Mebibytes(device.streams),
        Mebibytes(device.graphs), Mebibytes(made - device.Free()));
  }
  return Status::Ok();
}

// Times one session alone; the two kinds of memory take turns.
Status MeasureAlone(Session& session, Device* device, Caller& pageable, Caller& page_locked) {
  RONDO_ASSIGN_OR_RETURN(RunTimer timer, RunTimer::Create(session, 0, TimerDetail::kPartitions));
  std::vector<double> wall[2], on_device, copies;
  RunOptions timed;
  timed.timer = &timer;
  Stream* const stream = session.stream(0);
  uint32_t step = 0;
  uint64_t bytes = 0;
  for (int i = -kWarmUp; i < kTimedRuns; ++i) {
    for (int locked = 0; locked < 2; ++locked) {
      Caller& caller = locked != 0 ? page_locked : pageable;
      const auto start = Clock::now();
      RONDO_RETURN_IF_ERROR(session.Run(0, caller.inputs, caller.outputs));
      if (i >= 0) wall[locked].push_back(Microseconds(start));
    }
    RONDO_RETURN_IF_ERROR(session.Run(0, page_locked.inputs, page_locked.outputs, timed));
    double sum = 0;
    for (uint32_t p = 0; p < timer.size(); ++p) {
      RONDO_ASSIGN_OR_RETURN(const TimedInterval interval, timer.Read(p));
      sum += interval.duration;
    }
    if (i >= 0) on_device.push_back(sum);
    const PlanData& plan = session.plan().data();
    bytes = 0;
    const auto start = Clock::now();
    for (size_t p = 0; p < page_locked.inputs.size(); ++p) {
      const Input& input = page_locked.inputs[p];
      bytes += input.bytes;
      for (const Port& port : plan.programs[0].inputs) {
        if (port.name != input.name) continue;
        RONDO_RETURN_IF_ERROR(
            device->CopyIn(session.BufferAddress(port.buffer), input.data, input.bytes, stream));
      }
    }
    for (const Output& output : page_locked.outputs) {
      bytes += output.bytes;
      for (const Port& port : plan.programs[0].outputs) {
        if (port.name != output.name) continue;
        RONDO_RETURN_IF_ERROR(
            device->CopyOut(output.data, session.BufferAddress(port.buffer), output.bytes, stream));
      }
    }
    RONDO_RETURN_IF_ERROR(device->Synchronize(stream, &step));
    if (i >= 0) copies.push_back(Microseconds(start));
  }
  for (std::vector<double>* times : {&wall[0], &wall[1], &on_device, &copies})
    std::sort(times->begin(), times->end());
  const double floor = Quantile(on_device, 0.5) + Quantile(copies, 0.5);
  std::printf(
      "    alone, %llu bytes copied: wall %.1f us pageable, %.1f page-locked; device %.1f + bare copies %.1f "
      "= %.1f: pageable is %.2f times that\n",
      static_cast<unsigned long long>(bytes), Quantile(wall[0], 0.5), Quantile(wall[1], 0.5),
      Quantile(on_device, 0.5), Quantile(copies, 0.5), floor, Quantile(wall[0], 0.5) / floor);
  return Status::Ok();
}

Status Measure(const std::string& path, const Arguments& arguments) {
  RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::Open(path.c_str()));
  LoadOptions options;
  options.driver = "cuda";
  const OpRegistry ops;
  RONDO_ASSIGN_OR_RETURN(DriverHandle driver, OpenDriver(plan.data(), options, {}, ops));
  RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
  std::printf("%s\n", path.substr(path.rfind('/') + 1).c_str());
  RONDO_RETURN_IF_ERROR(MeasureMemory(plan, driver.get(), device));
  RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(driver.get()));
  const size_t most = *std::max_element(arguments.sessions.begin(), arguments.sessions.end());
  std::vector<Session> sessions;
  std::vector<std::unique_ptr<Caller>> callers[2];
  for (size_t i = 0; i < most; ++i) {
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
    sessions.push_back(std::move(session));
    callers[0].push_back(std::make_unique<Caller>(plan.data(), nullptr));
    callers[1].push_back(std::make_unique<Caller>(plan.data(), static_cast<cuda::CudaDevice*>(device)));
  }
  RONDO_RETURN_IF_ERROR(MeasureAlone(sessions[0], device, *callers[0][0], *callers[1][0]));
  std::printf("    %-12s %8s %10s %8s %10s %10s %10s %10s\n", "memory", "sessions", "runs/s", "of one",
              "p50 us", "p99 us", "max us", "max/alone");
  for (int locked = 0; locked < (arguments.pageable_only ? 1 : 2); ++locked) {
    double alone = 0, one = 0;
    for (size_t count : arguments.sessions) {
      RONDO_ASSIGN_OR_RETURN(const Scaled scaled, Scale(sessions, callers[locked], count, arguments.seconds));
      const double median = Quantile(scaled.times, 0.5), longest = scaled.times.back();
      if (alone == 0) alone = median, one = scaled.runs_per_second;
      std::printf("    %-12s %8zu %10.0f %8.2f %10.1f %10.1f %10.1f %10.2f\n",
                  locked != 0 ? "page-locked" : "pageable", count, scaled.runs_per_second,
                  scaled.runs_per_second / one, median, Quantile(scaled.times, 0.99), longest,
                  longest / alone);
      std::fflush(stdout);
    }
  }
  return Status::Ok();
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seconds" && i + 1 < argc) {
      arguments->seconds = std::atof(argv[++i]);
    } else if (argument == "--sessions" && i + 1 < argc) {
      arguments->sessions.clear();
      for (const char* at = argv[++i]; at != nullptr; at = std::strchr(at, ',')) {
        if (*at == ',') ++at;
        const int count = std::atoi(at);
        if (count < 1) return false;
        arguments->sessions.push_back(static_cast<size_t>(count));
      }
    } else if (argument == "--pageable") {
      arguments->pageable_only = true;
    } else {
      arguments->plans.push_back(argument);
    }
  }
  return !arguments->plans.empty() && arguments->seconds > 0;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fprintf(stderr, "usage: session_scaling [--seconds S] [--sessions N,N,...] [--pageable] PLAN...\n");
    return 2;
  }
  for (const std::string& plan : arguments.plans) {
    const Status status = Measure(plan, arguments);
    if (status.ok()) continue;
    std::fprintf(stderr, "session_scaling: %s: %s\n", plan.c_str(), status.message());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) { return rondo::tools::Main(argc, argv); }
