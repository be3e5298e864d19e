#include "tools/rondo/loaded.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "drivers/cuda/cuda_driver.h"
#include "drivers/flight/flight_driver.h"
#include "drivers/host/host_driver.h"
#include "drivers/nccl/nccl_api.h"
#include "formats/machine_code/architecture.h"
#include "formats/plan/measured_times.h"
#include "tools/rondo/gpu_environment.h"
#include "tools/rondo/report.h"
#include "tools/rondo/timed_driver.h"
#include "tools/rondo/trusted_plan.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

uint32_t HostThreads(const LoadOptions& options) {
  const uint32_t cores = std::thread::hardware_concurrency() / std::max(options.local_processes, 1u);
  return options.threads > 0 ? static_cast<uint32_t>(options.threads) : std::clamp(cores, 1u, 256u);
}

// The level of HostOptions::max_isa that `set` names.
Result<uint32_t> InstructionLevel(const std::string& set) {
  constexpr std::array<const char*, 3> kSets = {"baseline", "avx2", "avx512"};
  if (set.empty()) return uint32_t{2};
  for (uint32_t level = 0; level < kSets.size(); ++level) {
    if (set == kSets[level]) return level;
  }
  return Status::Error(Code::kInvalidArgument, "--instructions %s: not one of avx512, avx2, baseline",
                       set.c_str());
}

// The plan's devices run on the driver's `devices`, or on its first ones.
Result<RunsOn> DescribeDriver(const PlanData& plan, const LoadOptions& options,
                              const std::vector<uint32_t>& devices, Driver* driver) {
  RunsOn on;
  on.driver = driver->Info().name;
  const bool host = on.driver == "host";
  if (host) {
    on.threads = HostThreads(options);
    on.instructions = HostInstructionSet(driver);
  } else {
    on.driver_version = driver->Info().driver_version;
    const int version = CudaNcclVersion(driver);
    if (version != 0 && plan.requirements.devices.size() > 1) on.nccl = nccl::VersionText(version).text;
  }
  on.processes = driver->Info().processes;
  for (uint32_t d = 0; d < (on.processes > 1 ? 1 : plan.requirements.devices.size()); ++d) {
    const uint32_t number = d < devices.size() ? devices[d] : d;
    RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(number));
    on.devices.push_back(host ? Printf("virtual device %u", number)
                              : Printf("%s (%u)", CudaDeviceName(device), number));
    if (!host && plan.modules.size() > 1) on.code = CudaCodeChoice(device, plan);
  }
  return on;
}

// This process's device of the driver: of the named devices, or of all, the one at the process's index on
// this machine. A process that sees only one device takes that one.
Result<std::vector<uint32_t>> OwnDevice(const LoadOptions& options, const std::vector<uint32_t>& named,
                                        Driver* driver) {
  const uint32_t place = options.local_process;
  if (driver->DeviceCount() == 1) return std::vector<uint32_t>{0};
  if (place < named.size()) return std::vector<uint32_t>{named[place]};
  if (named.empty() && place < driver->DeviceCount()) return std::vector<uint32_t>{place};
  return Status::Error(Code::kInvalidArgument,
                       "process %u of this machine has no device: %zu are named, %u are here", place,
                       named.size(), driver->DeviceCount());
}

// A plan for several devices may use one GPU several times only if the options say so.
Status EnoughGpus(const PlanData& plan, const std::vector<uint32_t>& devices, Driver* driver) {
  const size_t needs = plan.requirements.devices.size(), has = driver->DeviceCount();
  if (!devices.empty() || needs <= has) return Status::Ok();
  std::string list;
  for (size_t d = 0; d < needs; ++d) list += (d == 0 ? "" : ",") + std::to_string(d % has);
  return Status::Error(
      Code::kUnsupported,
      "the plan needs %zu GPUs; this machine has %zu (--devices %s has several of the plan's "
      "devices on one)",
      needs, has, list.c_str());
}

// Opens the cuda driver. Null if the plan's targets include the host and no GPU can run the plan.
Result<Driver*> OpenCuda(const PlanData& plan, const CudaOptions& options, bool asked_for) {
  Result<Driver*> driver = CreateCudaDriver(options);
  if (asked_for || !KindsOfTargets(plan.requirements.target).host) return driver;
  if (!driver.ok()) return static_cast<Driver*>(nullptr);
  const Result<Device*> device = (*driver)->Open(0);
  if (device.ok() && !CudaCodeChoice(*device, plan).empty()) return driver;
  DestroyCudaDriver(*driver);
  return static_cast<Driver*>(nullptr);
}

// Read from the profile with which the plan was compiled.
std::vector<SmallUpTo> SmallUpToOf(const PlanData& plan) {
  std::vector<SmallUpTo> all;
  const std::optional<MeasuredTimes> times = ParseMeasuredTimes(plan.sources);
  if (!times) return all;
  for (const MeasuredCollective& collective : times->collectives) {
    if (!collective.small) continue;
    if (const auto bytes = times->SmallUpTo(collective.op, collective.ranks))
      all.push_back({collective.op, collective.ranks, *bytes});
  }
  return all;
}

uint64_t Nanoseconds(double seconds) {
  if (!(seconds > 0)) return 0;
  return seconds < 1e9 ? static_cast<uint64_t>(seconds * 1e9) + 1 : ~uint64_t{0};
}

}  // namespace

PlanOptions PlanOptionsOf(const LoadOptions& options) {
  PlanOptions plan;
  plan.ignore_hashes = options.ignore_hashes;
  if (options.read_weights) plan.map_weights_from = kReadWeights;
  if (options.map_weights) plan.map_weights_from = 0;
  return plan;
}

uint64_t TimeoutOf(const LoadOptions& options) { return Nanoseconds(options.timeout); }

Result<SessionOptions> LimitsOf(const LoadOptions& options) {
  for (const auto& [name, seconds] :
       {std::pair("--timeout", options.timeout), {"--watchdog", options.watchdog}}) {
    if (!(seconds >= 0)) {
      return Status::Error(Code::kInvalidArgument, "%s %g: not a number of seconds", name, seconds);
    }
  }
  SessionOptions limits;
  limits.memory_limit = static_cast<uint64_t>(options.memory_limit);
  limits.timeout_ns = limits.run_timeout_ns = TimeoutOf(options);
  limits.watchdog_ns = options.watchdog == 0 ? ~uint64_t{0} : Nanoseconds(options.watchdog);
  return limits;
}

std::string RunsOn::Text() const {
  std::string text = "driver " + driver;
  if (driver == "host") {
    text += Printf(", %u thread%s, %s", threads, threads == 1 ? "" : "s", instructions.c_str());
    if (processes > 1) text += Printf(", %u processes", processes);
    return devices.size() > 1 ? text + Printf(", %zu virtual devices", devices.size()) : text;
  }
  text += Printf(" %u.%u", driver_version / 1000, driver_version % 1000 / 10);
  if (!nccl.empty()) text += ", NCCL " + nccl;
  for (const std::string& device : devices) text += ", " + device;
  if (processes > 1) text += Printf(", %u processes", processes);
  return code.empty() ? text : text + ", code " + code;
}

Result<DriverHandle> OpenDriver(const PlanData& plan, const LoadOptions& options,
                                const std::vector<uint32_t>& devices, const OpRegistry& ops) {
  const bool for_gpu = KindsOfTargets(plan.requirements.target).gpu;
  const std::string wanted = !options.driver.empty() ? options.driver : for_gpu ? "cuda" : "host";
  CollectiveKernels collectives = CudaOptions{}.collectives;
  if (!options.collectives.empty()) {  // an invalid name is refused on any driver
    Result<CollectiveKernels> named = ParseCollectiveKernels(options.collectives);
    if (!named.ok()) return named.status().At("--collectives");
    collectives = *named;
  }
  if (wanted == "cuda") {
    CudaOptions cuda;
    cuda.library_path = options.library_path.c_str();
    cuda.ops = &ops;
    cuda.processes = options.processes.get();
    cuda.collectives = collectives;
    const std::vector<SmallUpTo> small_up_to = SmallUpToOf(plan);
    cuda.small_up_to = {small_up_to.data(), small_up_to.size()};
    AllowSharedGpus(devices);
    Result<Driver*> driver = OpenCuda(plan, cuda, !options.driver.empty());
    if (driver.ok() && *driver != nullptr) {
      DriverHandle handle(*driver, DestroyCudaDriver);
      TellNccl(CudaNcclVersion(*driver));
      if (cuda.processes == nullptr) RONDO_RETURN_IF_ERROR(EnoughGpus(plan, devices, *driver));
      return handle;
    }
    if (!driver.ok() && !options.driver.empty()) return driver.status();
    if (!driver.ok())
      return driver.status().At("the plan is compiled for %s (--driver host runs it on the CPU all the same)",
                                std::string(plan.requirements.target).c_str());
  }
  if (wanted != "host" && wanted != "cuda") {
    return Status::Error(Code::kUnsupported, "driver \"%s\" is not in this build, which has: host, cuda",
                         wanted.c_str());
  }
  HostOptions host;
  host.threads = HostThreads(options);
  RONDO_ASSIGN_OR_RETURN(host.max_isa, InstructionLevel(options.instructions));
  host.processes = options.processes.get();
  host.devices = host.processes != nullptr ? 1 : static_cast<uint32_t>(plan.requirements.devices.size());
  for (uint32_t device : devices) {
    if (host.processes == nullptr) host.devices = std::max(host.devices, device + 1);
  }
  host.ops = &ops;
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateHostDriver(host));
  DriverHandle handle(driver, DestroyHostDriver);
  if (!options.instructions.empty() && options.instructions != HostInstructionSet(driver)) {
    return Status::Error(Code::kUnsupported, "--instructions %s: this machine has %s at best",
                         options.instructions.c_str(), HostInstructionSet(driver));
  }
  return handle;
}

DriverHandle KeepGpusOpen(const LoadedSession& loaded, const LoadOptions& options) {
  DriverHandle none{nullptr, nullptr};
  if (loaded.on_host()) return none;
  CudaOptions cuda;
  cuda.library_path = options.library_path.c_str();
  Result<Driver*> driver = CreateCudaDriver(cuda);
  const Result<std::vector<uint32_t>> devices = ParseDevices(options.devices);
  if (!driver.ok() || !devices.ok()) return none;
  DriverHandle handle(*driver, DestroyCudaDriver);
  for (const uint32_t device : devices->empty() ? std::vector<uint32_t>{0} : *devices)
    (void)(*driver)->Open(device);
  return handle;
}

Result<std::vector<uint32_t>> ParseDevices(const std::string& text) {
  std::vector<uint32_t> devices;
  if (text.empty()) return devices;
  const bool count = text.find(',') == text.npos;
  const uint32_t least = count ? 1 : 0, most = count ? 64 : 63;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    at = comma + 1;
    const bool digits =
        !part.empty() && part.size() <= 2 && part.find_first_not_of("0123456789") == part.npos;
    const uint32_t number = digits ? static_cast<uint32_t>(std::stoul(part)) : most + 1;
    if (number < least || number > most) {
      return Status::Error(Code::kInvalidArgument, "--devices %s: \"%s\" is not %s from %u to %u",
                           text.c_str(), part.c_str(), count ? "a count" : "a device", least, most);
    }
    devices.push_back(number);
  }
  if (!count) return devices;
  devices.resize(devices[0]);
  std::iota(devices.begin(), devices.end(), 0u);
  return devices;
}

Result<std::unique_ptr<Driver>> RecordFlight(Driver* driver, const LoadOptions& options) {
  if (options.flight.empty()) return std::unique_ptr<Driver>();
  const DriverInfo info = driver->Info();
  const std::string file = options.flight + (info.processes > 1 ? "." + std::to_string(info.process) : "");
  RONDO_ASSIGN_OR_RETURN(flight::FlightDriver * flight, flight::FlightDriver::Create(driver, file));
  return std::unique_ptr<Driver>(flight);
}

std::string ReadyTimes::Text() const {
  return Printf(
      "%.1f ms (plan %.1f: read, verified, checked; driver %.1f; device %.1f; machine code %.1f; weights "
      "%.1f; library %.1f: waited for after the weights; memory %.1f; graphs %.1f; rest %.1f)",
      total, plan, driver, device, modules, weights, library, memory, graphs,
      total - plan - driver - device - modules - weights - library - memory - graphs);
}

Status LoadOps(const std::vector<std::string>& paths, OpRegistry* registry) {
  for (const std::string& path : paths) RONDO_RETURN_IF_ERROR(registry->Load(path.c_str()));
  return Status::Ok();
}

Result<std::unique_ptr<LoadedSession>> LoadedSession::Open(const std::string& path,
                                                           const LoadOptions& options) {
  const auto start = Clock::now();
  Result<Plan> opened = OpenTrusted(path, options.keys, PlanOptionsOf(options));
  if (!opened.ok() && options.processes != nullptr) options.processes->Abort(opened.status());
  if (!opened.ok()) return opened.status();
  const Plan plan = opened.Take();
  if (options.ready != nullptr) options.ready->plan = Since(start);
  auto made = Create(plan, options);
  if (options.ready != nullptr) options.ready->total = Since(start);
  return made;
}

Result<std::unique_ptr<LoadedSession>> LoadedSession::Create(const Plan& plan, const LoadOptions& options) {
  Result<std::unique_ptr<LoadedSession>> made = Make(plan, options);
  if (!made.ok() && options.processes != nullptr) options.processes->Abort(made.status());
  return made;
}

Result<std::unique_ptr<LoadedSession>> LoadedSession::Make(const Plan& plan, const LoadOptions& options) {
  std::unique_ptr<LoadedSession> loaded(new LoadedSession());
  RONDO_ASSIGN_OR_RETURN(loaded->limits_, LimitsOf(options));
  RONDO_RETURN_IF_ERROR(LoadOps(options.ops, &loaded->ops_));
  RONDO_ASSIGN_OR_RETURN(std::vector<uint32_t> devices, ParseDevices(options.devices));
  const auto start = Clock::now();
  RONDO_ASSIGN_OR_RETURN(loaded->driver_, OpenDriver(plan.data(), options, devices, loaded->ops_));
  Driver* driver = loaded->driver_.get();
  if (options.ready != nullptr) {
    options.ready->driver = Since(start);
    if (plan.data().requirements.devices.size() == 1) {
      loaded->timed_ = MakeTimedDriver(driver, options.ready);
      driver = loaded->timed_.get();
    }
  }
  RONDO_ASSIGN_OR_RETURN(loaded->flight_, RecordFlight(driver, options));
  if (loaded->flight_ != nullptr) driver = loaded->flight_.get();
  if (options.processes != nullptr) {
    RONDO_ASSIGN_OR_RETURN(devices, OwnDevice(options, devices, driver));
  }
  RuntimeOptions runtime_options;
  runtime_options.devices = {devices.data(), devices.size()};
  RONDO_ASSIGN_OR_RETURN(loaded->runtime_, Runtime::Create(driver, runtime_options));
  RONDO_ASSIGN_OR_RETURN(loaded->session, Session::Create(loaded->runtime_, plan, loaded->limits_));
  RONDO_ASSIGN_OR_RETURN(loaded->runs_on_,
                         DescribeDriver(plan.data(), options, devices, loaded->driver_.get()));
  return loaded;
}

LoadedSession::~LoadedSession() {
  if (session.valid() && session.abandoned()) {  // a thread of the runtime may still use all of it
    std::fflush(nullptr);
    _exit(1);
  }
  session = Session();
  runtime_ = Runtime();
}

Result<uint32_t> LoadedSession::Program(const std::string& name) const {
  if (!name.empty()) return session.plan().FindProgram(name);
  const PlanData& plan = data();
  const uint32_t count = CountPrograms(plan);
  if (count == 1) return 0u;
  std::string names;
  for (uint32_t p = 0; p < count; ++p) names += (p == 0 ? "" : ", ") + std::string(plan.programs[p].name);
  return Status::Error(Code::kInvalidArgument, "the plan has %u programs (%s): name one with --program",
                       count, names.c_str());
}

std::string LoadedSession::Variants() const {
  std::string text;
  for (uint32_t p = 0; p < CountPrograms(data()); ++p) {
    const uint32_t chosen = session.chosen(p);
    if (chosen != p) text += (text.empty() ? "" : ", ") + std::string(data().programs[chosen].name);
  }
  return text.empty() ? text : text + " (" + session.why_smaller().message() + ")";
}

}  // namespace rondo::tools
