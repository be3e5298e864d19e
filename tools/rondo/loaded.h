// LoadedSession: a plan, a driver and a session over them, for commands that run something.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/custom_op.h"
#include "core/driver.h"
#include "core/status.h"
#include "drivers/processes/processes.h"
#include "formats/tensor/tensor.h"
#include "runtime/plan.h"
#include "runtime/runtime.h"
#include "runtime/session.h"

namespace rondo::tools {

// Milliseconds until a session was ready, by cause.
struct ReadyTimes {
  double total = 0;
  double plan = 0;     // read, verify and check
  double driver = 0;   // open the driver's libraries
  double device = 0;   // start the device
  double modules = 0;  // load machine code
  double weights = 0;  // copy or make
  double library =
      0;  // wait, after all these, for the rest of a vendor library's load, which goes on beside them
  double memory = 0;  // allocate and zero
  double graphs = 0;  // record, instantiate, upload
  std::string Text() const;
};

struct LoadOptions {
  std::string driver;        // "host" or "cuda"; "": the plan's target
  int64_t threads = 0;       // of the host driver; 0: one per core
  std::string instructions;  // of the host driver: "avx512", "avx2", "baseline"; "": the best available
  // The driver's device for each device of the plan: a count N (0 to N - 1) or numbers "0,2,2"; "": as many
  // as the plan has. The host driver makes as many virtual devices as are named.
  std::string devices;
  std::vector<std::string> keys;  // files of public keys; if any, one of them must have signed the plan
  bool ignore_hashes = false;
  bool read_weights = false;  // read into memory, whatever the size
  bool map_weights = false;   // map, whatever the size
  double timeout = 0;         // seconds for making the session and for each run; 0: no limit
  int64_t memory_limit = 0;   // bytes of a session's arena and state on each device; 0: what is free
  double watchdog = 60;  // seconds without progress after which a run's devices count as hung; 0: no limit
  std::string flight;    // the file of the flight recorder; "": none
  std::string library_path;      // folders (a:b) in which vendor libraries are looked for first
  std::string collectives;       // for the cuda driver: "nccl", "small", "fused", "auto" (or "")
  ReadyTimes* ready = nullptr;   // filled in by Open; in detail for plans of one device
  std::vector<std::string> ops;  // libraries of custom ops, by path
  // The processes that run plans together, one device each; null: only this process. `local_process` and
  // `local_processes`: its index on this machine and their number, 0 if unknown. With `devices`, its GPU is
  // the list's entry at that index.
  std::shared_ptr<Processes> processes;
  uint32_t local_process = 0, local_processes = 0;
};

// The options for opening a plan.
PlanOptions PlanOptionsOf(const LoadOptions& options);
// In nanoseconds, at least 1 for any time above 0; 0: none.
uint64_t TimeoutOf(const LoadOptions& options);
// The time limits of `options`. kInvalidArgument, naming the option that is not a number of seconds.
Result<SessionOptions> LimitsOf(const LoadOptions& options);
// Opens libraries of custom ops into `registry`.
Status LoadOps(const std::vector<std::string>& paths, OpRegistry* registry);

// The devices and software on which a session runs.
struct RunsOn {
  std::string driver;                // "host", "cuda"
  std::vector<std::string> devices;  // one per device of the plan: "virtual device 0", "NVIDIA H200 (0)"
  uint32_t threads = 0;              // of the host driver
  uint32_t processes = 1;            // one device each; `devices` is this one's
  std::string instructions;          // of the host driver: "avx512", "avx2", "baseline"
  uint32_t driver_version = 0;       // of CUDA: 13000
  std::string nccl;                  // of CUDA, for plans on several devices: "2.31.2"
  std::string code;  // of CUDA, for plans with several codes: which one runs, and why not the others
  // "driver host, 2 threads, avx512", "driver cuda 13.0, NVIDIA H200 (0)".
  std::string Text() const;
};

using DriverHandle = std::unique_ptr<Driver, void (*)(Driver*)>;

// The driver that `options` names, or the one for which `plan` is compiled, with enough devices. `ops` must
// outlive it. A plan for GPUs runs on the host only if `options` or its targets say so. With `host` among its
// targets, the host takes over if no GPU can run it.
Result<DriverHandle> OpenDriver(const PlanData& plan, const LoadOptions& options,
                                const std::vector<uint32_t>& devices, const OpRegistry& ops);

// Owns everything it made and releases it in order. If a device was lost, its destructor ends the process.
// Not movable.
class LoadedSession {
 public:
  static Result<std::unique_ptr<LoadedSession>> Open(const std::string& path, const LoadOptions& options);
  // Uses a plan that is already open.
  static Result<std::unique_ptr<LoadedSession>> Create(const Plan& plan, const LoadOptions& options);
  LoadedSession(const LoadedSession&) = delete;
  ~LoadedSession();

  const PlanData& data() const { return session.plan().data(); }
  const RunsOn& runs_on() const { return runs_on_; }
  bool on_host() const { return runs_on_.driver == "host"; }
  // The program called `name`. For "" the only program, or kInvalidArgument with the names of all.
  Result<uint32_t> Program(const std::string& name) const;

  // Why programs run as smaller variants, and which; "" if none does.
  std::string Variants() const;

  // Another session over the same plan, with its own memory; it must be destroyed before this object.
  Result<Session> Another() const { return Session::Create(runtime_, session.plan(), limits_); }

  Session session;

 private:
  LoadedSession() = default;
  static Result<std::unique_ptr<LoadedSession>> Make(const Plan& plan, const LoadOptions& options);
  OpRegistry ops_;  // first, because the driver calls its functions
  DriverHandle driver_{nullptr, nullptr};
  std::unique_ptr<Driver> timed_;   // over driver_, or null
  std::unique_ptr<Driver> flight_;  // over either, or null
  Runtime runtime_;
  SessionOptions limits_;
  RunsOn runs_on_;
};

// Keeps the GPUs of a session open after it ends, so that the next session need not make new contexts. Null
// on the host.
DriverHandle KeepGpusOpen(const LoadedSession& loaded, const LoadOptions& options);

// The flight recorder around `driver`, if the options ask for one, otherwise null. Each of several processes
// has its own file, with its number appended to the name.
Result<std::unique_ptr<Driver>> RecordFlight(Driver* driver, const LoadOptions& options);

// Parses LoadOptions::devices; "" gives none. kInvalidArgument, naming the part, for an empty part or one
// that is not a device number below 64.
Result<std::vector<uint32_t>> ParseDevices(const std::string& text);

}  // namespace rondo::tools
