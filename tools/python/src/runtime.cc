#include "tools/python/src/runtime.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "drivers/capi/rondo_cuda.h"
#include "drivers/capi/rondo_host.h"

namespace rondo::python {
namespace {

thread_local bool completing = false;

// Names of the codes by number, for the error counters.
constexpr const char* kCodes[] = {"ok",
                                  "invalid_argument",
                                  "not_found",
                                  "unsupported",
                                  "corrupt",
                                  "out_of_memory",
                                  "failed_precondition",
                                  "out_of_range",
                                  "aborted",
                                  "internal",
                                  "io",
                                  "cancelled",
                                  "deadline_exceeded"};

Gpus* SharedGpus() {
  static std::string why;
  static Gpus* const gpus = Gpus::Open(&why).release();  // arrays in its memory may outlive everything else
  if (gpus == nullptr) Raise(kUnsupported, "the cuda driver cannot be used: " + why);
  return gpus;
}

std::vector<const char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

struct DriverOptions {
  uint32_t threads = 0, devices = 1;
  std::string library_path;
  std::vector<std::string> ops;
};

// May take seconds: call it without the interpreter's lock.
rondo_driver* Driver(const std::string& name, const DriverOptions& given) {
  const std::vector<const char*> ops = Pointers(given.ops);
  if (name == "cuda") {
    rondo_cuda_options options = {};
    options.size = sizeof(options);
    options.library_path = given.library_path.empty() ? nullptr : given.library_path.c_str();
    options.op_libraries = ops.data();
    options.num_op_libraries = ops.size();
    return rondo_cuda_driver_create_with(&options);
  }
  rondo_host_options options = {};
  options.size = sizeof(options);
  options.threads =
      given.threads != 0 ? given.threads : std::clamp(std::thread::hardware_concurrency(), 1u, 256u);
  options.devices = given.devices;
  options.op_libraries = ops.data();
  options.num_op_libraries = ops.size();
  return rondo_host_driver_create_with(&options);
}

using Devices = std::variant<uint32_t, std::vector<uint32_t>>;

std::vector<uint32_t> DevicesOf(const Devices& given) {
  if (const auto* list = std::get_if<std::vector<uint32_t>>(&given)) {
    if (list->empty()) Raise(kInvalidArgument, "devices is empty: name at least one");
    return *list;
  }
  std::vector<uint32_t> devices(std::clamp(std::get<uint32_t>(given), 1u, 64u));
  std::iota(devices.begin(), devices.end(), 0u);
  return devices;
}

void Make(RuntimeObject* self, const std::string& driver, uint32_t threads, const Devices& devices,
          uint32_t async_workers, const std::string& library_path, const std::vector<std::string>& ops,
          bool keep_plan_totals) {
  CheckDriverName(driver);
  auto opened = std::make_shared<OpenRuntime>();
  opened->driver = driver;
  opened->place.devices = DevicesOf(devices);
  const std::vector<uint32_t>& numbers = opened->place.devices;
  if (driver == "cuda") opened->place.gpus = SharedGpus();
  rondo_runtime_options options = RONDO_INIT(rondo_runtime_options);
  options.devices = numbers.data();
  options.num_devices = numbers.size();
  options.async_workers = async_workers;
  options.keep_plan_totals = keep_plan_totals;
  Error error;
  {
    nb::gil_scoped_release unlocked;
    const uint32_t last = *std::max_element(numbers.begin(), numbers.end());
    error =
        Runtime::Create(Driver(driver, {threads, last + 1, library_path, ops}), &opened->runtime, &options);
  }
  Check(error);
  new (self) RuntimeObject{std::move(opened)};
}

nb::dict HistogramOf(const rondo_histogram& histogram) {
  nb::list buckets;
  for (uint32_t b = 0; b < RONDO_HISTOGRAM_BUCKETS; ++b) {
    const uint64_t limit = rondo_histogram_limit(b);
    const double seconds = limit == UINT64_MAX ? HUGE_VAL : static_cast<double>(limit) * 1e-9;
    buckets.append(nb::make_tuple(seconds, histogram.buckets[b]));
  }
  nb::dict described;
  described["count"] = histogram.count;
  described["sum_seconds"] = static_cast<double>(histogram.sum_nanoseconds) * 1e-9;
  described["buckets"] = buckets;
  return described;
}

nb::dict Metrics(const RuntimeObject& self) {
  rondo_metrics metrics;
  Check(self.runtime->runtime.GetMetrics(&metrics));
  nb::dict errors, described;
  for (size_t code = 1; code < std::size(kCodes); ++code) errors[kCodes[code]] = metrics.errors[code];
  described["runs"] = metrics.runs;
  described["errors"] = errors;
  described["input_bytes"] = metrics.input_bytes;
  described["output_bytes"] = metrics.output_bytes;
  described["sessions"] = metrics.sessions;
  described["plans"] = metrics.plans;
  described["weight_bytes"] = metrics.weight_bytes;
  described["arena_bytes"] = metrics.arena_bytes;
  described["state_bytes"] = metrics.state_bytes;
  described["staging_bytes"] = metrics.staging_bytes;
  described["run_time"] = HistogramOf(metrics.run_time);
  described["queue_wait"] = HistogramOf(metrics.queue_wait);
  return described;
}

nb::str Prometheus(const RuntimeObject& self) {
  std::string text;
  for (size_t needed = self.runtime->runtime.WriteMetrics({}); text.size() < needed + 1;) {
    text.resize(needed + 1);  // a series may have been added meanwhile
    needed = self.runtime->runtime.WriteMetrics(text);
    if (needed < text.size()) return Str(std::string_view(text).substr(0, needed));
  }
  return Str("");
}

}  // namespace

void CheckDriverName(const std::string& name) {
  if (name != "host" && name != "cuda")
    Raise(kInvalidArgument, "driver \"" + name + "\" is none of host, cuda");
}

bool MadeHere(pid_t process) { return getpid() == process; }

OpenRuntime::OpenRuntime() : process(getpid()) {}

OpenRuntime::~OpenRuntime() {
  if (!MadeHere(process)) {
    new Runtime(std::move(runtime));  // leaked on purpose: its threads are the parent's
  } else if (completing) {
    std::thread([last = std::move(runtime)] {}).detach();
  }
}

Completing::Completing() { completing = true; }
Completing::~Completing() { completing = false; }

RuntimeObject::~RuntimeObject() {
  nb::gil_scoped_release unlocked;
  runtime.reset();
}

rondo_driver* MakeDriver(const std::string& name, uint32_t threads, uint32_t devices) {
  return Driver(name, {threads, devices, "", {}});
}

void DeclareRuntime(nb::module_& m) {
  nb::class_<RuntimeObject>(
      m, "Runtime",
      "A driver's devices, opened once, for the sessions of any number of plans. Any thread; not "
      "for a child of fork.")
      .def("__init__", Make, nb::arg("driver") = "host", nb::kw_only(), nb::arg("threads") = 0,
           nb::arg("devices") = 1u, nb::arg("async_workers") = 4, nb::arg("library_path") = "",
           nb::arg("op_libraries") = std::vector<std::string>(), nb::arg("keep_plan_totals") = false,
           "driver: \"host\" or \"cuda\". threads: of the host driver; 0: one a core. devices: the driver's "
           "device for "
           "each of a plan's, or how many. async_workers: threads for run_async, at most 64. library_path: "
           "folders in "
           "which CUDA's libraries are looked for first. op_libraries: libraries of custom operators.")
      .def_prop_ro("driver", [](const RuntimeObject& self) { return self.runtime->driver; })
      .def(
          "supports",
          [](const RuntimeObject& self, const PlanObject& plan) {
            Check(self.runtime->runtime.Supports(plan.plan->plan));
          },
          nb::arg("plan"), "Raises the first requirement of the plan that is not met. Loads nothing.")
      .def(
          "ready", [](const RuntimeObject& self) { Check(self.runtime->runtime.Ready()); },
          "Raises the error of a device that no longer works in this process: replace the process.")
      .def("metrics", Metrics, nb::sig("def metrics(self) -> dict[str, typing.Any]"),
           "What has been counted since the runtime was made: rondo_metrics in rondo.h says what each is.")
      .def("prometheus", Prometheus, "The same in Prometheus' text format, by plan and program.")
      .def("__repr__",
           [](const RuntimeObject& self) { return "<rondo.Runtime of " + self.runtime->driver + ">"; });
}

}  // namespace rondo::python
