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

// Milliseconds until a session was ready, by what took them.
struct ReadyTimes {
  double total = 0;
  double plan = 0;     // read, verify and check
  double driver = 0;   // open the driver's libraries
  double device = 0;   // the device's own start
  double modules = 0;  // load machine code
  double weights = 0;  // copy or make
  double memory = 0;   // allocate and zero
  double graphs = 0;   // record, instantiate, upload
  std::string Text() const;
};

struct LoadOptions {
  std::string driver;        // "host" or "cuda"; "": the one that the plan is compiled for
  int64_t threads = 0;       // of the host driver; 0: one a core
  std::string instructions;  // of the host driver: "avx512", "avx2", "baseline"; "": the best there are
  // The driver's device for each device of the plan: a count N (0 to N - 1) or numbers "0,2,2"; "": as many
  // as the plan has. The host driver makes as many as are named.
  std::string devices;
  std::vector<std::string> keys;  // files of public keys; if any, a plan must be signed with one of them
  bool ignore_hashes = false;
  bool read_weights = false;     // into memory, whatever their size
  bool map_weights = false;      // whatever their size
  double timeout = 0;            // seconds, of making the session and of each run; 0: none
  double watchdog = 60;          // seconds that the devices of a run may make no progress; 0: for ever
  std::string flight;            // the file of the flight recorder; "": none
  std::string library_path;      // folders (a:b) in which vendor libraries are looked for first
  std::string collectives;       // of the cuda driver: "nccl", "small", "fused", "auto" (or "")
  ReadyTimes* ready = nullptr;   // filled in by Open; of plans of one device, in detail
  std::vector<std::string> ops;  // libraries of custom ops, by path
  // The processes that run plans together, one device each; null: this one alone. `local_process` and
  // `local_processes`: its number on this machine and how many there are, 0 if not known. With `devices`, its
  // GPU is the entry of the list at that number.
  std::shared_ptr<Processes> processes;
  uint32_t local_process = 0, local_processes = 0;
};

// How a plan is opened.
PlanOptions PlanOptionsOf(const LoadOptions& options);
// In nanoseconds, at least 1 for any time above 0; 0: none.
uint64_t TimeoutOf(const LoadOptions& options);
// The time limits of `options`. kInvalidArgument, naming the option that is not a number of seconds.
Result<SessionOptions> LimitsOf(const LoadOptions& options);
// Opens libraries of custom ops into `registry`.
Status LoadOps(const std::vector<std::string>& paths, OpRegistry* registry);

// What a session runs on.
struct RunsOn {
  std::string driver;                // "host", "cuda"
  std::vector<std::string> devices;  // one for each of the plan's: "virtual device 0", "NVIDIA H200 (0)"
  uint32_t threads = 0;              // of the host driver
  uint32_t processes = 1;            // a device each; `devices` is this one's
  std::string instructions;          // of the host driver: "avx512", "avx2", "baseline"
  uint32_t driver_version = 0;       // of CUDA: 13000
  std::string nccl;                  // of CUDA, of plans for several devices: "2.31.2"
  std::string code;  // of CUDA, of plans with code for several: which runs, and why not the others
  // "driver host, 2 threads, avx512", "driver cuda 13.0, NVIDIA H200 (0)".
  std::string Text() const;
};

using DriverHandle = std::unique_ptr<Driver, void (*)(Driver*)>;

// The driver that `options` names, else the one that `plan` is compiled for, with enough devices. `ops` must
// outlive it. A plan for GPUs runs on the host only if `options` or its targets say so; with `host` among its
// targets, the host takes over where no GPU can run it.
Result<DriverHandle> OpenDriver(const PlanData& plan, const LoadOptions& options,
                                const std::vector<uint32_t>& devices, const OpRegistry& ops);

// Owns everything it made and gives it back in order. If a device was lost, destroying it ends the process.
// Not movable.
class LoadedSession {
 public:
  static Result<std::unique_ptr<LoadedSession>> Open(const std::string& path, const LoadOptions& options);
  // Over a plan that is open already.
  static Result<std::unique_ptr<LoadedSession>> Create(const Plan& plan, const LoadOptions& options);
  LoadedSession(const LoadedSession&) = delete;
  ~LoadedSession();

  const PlanData& data() const { return session.plan().data(); }
  const RunsOn& runs_on() const { return runs_on_; }
  bool on_host() const { return runs_on_.driver == "host"; }
  // The program called `name`; for "" the only one, or kInvalidArgument naming them all.
  Result<uint32_t> Program(const std::string& name) const;

  // One more session over the same plan, with memory of its own; to be destroyed before this object.
  Result<Session> Another() const { return Session::Create(runtime_, session.plan(), limits_); }

  Session session;

 private:
  LoadedSession() = default;
  static Result<std::unique_ptr<LoadedSession>> Make(const Plan& plan, const LoadOptions& options);
  OpRegistry ops_;  // first: the driver calls what it holds
  DriverHandle driver_{nullptr, nullptr};
  std::unique_ptr<Driver> timed_;   // over driver_, or null
  std::unique_ptr<Driver> flight_;  // over either, or null
  Runtime runtime_;
  SessionOptions limits_;
  RunsOn runs_on_;
};

// Keeps the GPUs of a session open when it has gone: what comes next need not make their contexts anew. Null
// on the host.
DriverHandle KeepGpusOpen(const LoadedSession& loaded, const LoadOptions& options);

// The flight recorder around `driver`, if the options have one; else null. Of several processes each has a
// file of its own, with its number behind the name.
Result<std::unique_ptr<Driver>> RecordFlight(Driver* driver, const LoadOptions& options);

// Parses LoadOptions::devices; "" gives none. kInvalidArgument, naming the part that is not a device number
// below 64, or is empty.
Result<std::vector<uint32_t>> ParseDevices(const std::string& text);

// The tensors as inputs of `program`; they must outlive the result. A u16 tensor is taken as the bit patterns
// of a bf16 input: .npy has no such type.
std::vector<Input> InputsOf(const PlanData& plan, uint32_t program, Span<const Tensor> tensors);

// Runs `program` with `inputs` (their names are those of input ports; state may be among them) and returns
// all its outputs on this process's devices, state included, in the order of the program's ports.
Result<std::vector<Tensor>> RunOnTensors(Session& session, uint32_t program,
                                         const std::vector<Tensor>& inputs, const RunOptions& options = {});

// Sets the states of `program` that are among `tensors`, by one run, and removes them from the list; later
// runs carry the state on. Without states nothing runs.
Status SetStates(Session& session, uint32_t program, std::vector<Tensor>* tensors);
// Removes the states of `program` from the list.
void DropStates(const PlanData& plan, uint32_t program, std::vector<Tensor>* tensors);

// A tensor for each input that is not state and not among `given` (whose names are kept): integers 0, floats
// small synthetic numbers. `given` come first.
std::vector<Tensor> FillInputs(const PlanData& plan, uint32_t program, std::vector<Tensor> given);

// A sentence about the first argument that is not of the form NAME=FILE; "" if all are.
std::string NotNamedFile(const std::vector<std::string>& arguments);
// Reads NAME=FILE arguments.
Result<std::vector<Tensor>> ReadNamedTensors(const std::vector<std::string>& arguments);

}  // namespace rondo::tools
