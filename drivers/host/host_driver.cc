#include "drivers/host/host_driver.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <new>

#include "drivers/host/allocation_registry.h"
#include "drivers/host/collectives.h"
#include "drivers/host/host_device.h"
#include "drivers/host/module.h"
#include "drivers/host/thread_pool.h"
#include "drivers/ops/calls.h"

namespace rondo {
namespace {

using host::HostCollectives;
using host::HostDevice;

HostCollectives* ToHost(Collectives* c) { return reinterpret_cast<HostCollectives*>(c); }

class HostDriver final : public Driver {
 public:
  explicit HostDriver(const HostOptions& options) : options_(options) {
    host::PickEngine(options.max_isa, &engine_);
  }
  ~HostDriver() override {
    for (HostDevice* device : devices_) delete device;
  }

  const char* InstructionSet() const { return engine_.name; }
  Status Start() { return pool_.Start(options_.threads, options_.thread_hooks); }

  DriverInfo Info() const override {
    DriverInfo info;
    info.name = "host";
    info.host_memory = true;
    info.collectives = true;
    info.rebinds = true;
    info.max_streams = 1024;
    if (options_.processes != nullptr) {
      info.processes = options_.processes->size();
      info.process = options_.processes->rank();
    }
    return info;
  }
  uint32_t DeviceCount() const override { return options_.devices; }

  Result<Device*> Open(uint32_t index) override {
    if (index >= options_.devices) {
      return Status::Error(Code::kInvalidArgument, "host driver: device %u of %u does not exist", index,
                           options_.devices);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (devices_[index] == nullptr) {
      devices_[index] = new (std::nothrow) HostDevice(pool_, engine_, options_, book_, index);
      if (devices_[index] == nullptr) {
        return Status::Error(Code::kOutOfMemory, "host driver: no memory for a device");
      }
    }
    return static_cast<Device*>(devices_[index]);
  }

  Status Supports(const PlanData& plan) const override {
    if (options_.processes == nullptr && plan.requirements.devices.size() > options_.devices) {
      return Status::Error(Code::kUnsupported, "the plan needs %zu devices; the host driver was made with %u",
                           plan.requirements.devices.size(), options_.devices);
    }
    for (uint32_t i = 0; i < plan.custom_ops.size(); ++i) {
      RONDO_RETURN_IF_ERROR(CheckCall(options_.ops, plan, i));
    }
    return Status::Ok();
  }

  // The devices of the ranks do not matter here: each rank brings its memory.
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t>) override {
    std::unique_ptr<host::RemoteExchange> remote;
    if (options_.processes != nullptr && options_.processes->size() > 1) {
      remote.reset(host::RemoteExchange::Create(program, programs_++, *options_.processes, engine_, pool_));
      if (remote == nullptr)
        return Status::Error(Code::kOutOfMemory, "host driver: no memory for collectives");
    }
    HostCollectives* made = HostCollectives::Create(program, engine_, pool_, std::move(remote));
    if (made == nullptr) return Status::Error(Code::kOutOfMemory, "host driver: no memory for collectives");
    return reinterpret_cast<Collectives*>(made);
  }
  void DestroyCollectives(Collectives* collectives) override { delete ToHost(collectives); }
  Status BeginCollectives(Collectives* collectives) override {
    ToHost(collectives)->Begin();
    return State();
  }
  void AbortCollectives(Collectives* collectives, const Status& why, bool wait) override {
    if (options_.processes != nullptr) options_.processes->Abort(why);
    ToHost(collectives)->Abort(wait);
  }
  Status Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) override {
    *progress = ToHost(collectives)->Progress(device);
    return State();
  }
  Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) override {
    return options_.processes == nullptr ? so_far : options_.processes->Agree(so_far, plan, contents, stop);
  }

  // The state of the processes.
  Status State() { return options_.processes == nullptr ? Status::Ok() : options_.processes->state(); }

  HostBooks Books(uint32_t device) { return device < kMaxHostDevices ? book_.Read(device) : HostBooks(); }

 private:
  const HostOptions options_;
  host::Engine engine_;
  host::ThreadPool pool_;
  host::AllocationRegistry book_;
  std::atomic<uint64_t> programs_{0};  // programs with collectives over several processes
  std::mutex mutex_;
  HostDevice* devices_[kMaxHostDevices] = {};
};

}  // namespace

Result<Driver*> CreateHostDriver(const HostOptions& options) {
  if (options.threads < 1 || options.threads > host::kMaxThreads) {
    return Status::Error(Code::kInvalidArgument, "host driver: %u threads asked for; 1 to %u are possible",
                         options.threads, host::kMaxThreads);
  }
  if (options.devices < 1 || options.devices > kMaxHostDevices) {
    return Status::Error(Code::kInvalidArgument, "host driver: %u devices asked for; 1 to %u are possible",
                         options.devices, kMaxHostDevices);
  }
  if (options.processes != nullptr && options.devices != 1) {
    return Status::Error(Code::kInvalidArgument,
                         "host driver: %u devices in each of several processes; 1 is possible",
                         options.devices);
  }
  HostDriver* driver = new (std::nothrow) HostDriver(options);
  if (driver == nullptr) return Status::Error(Code::kOutOfMemory, "host driver: no memory");
  Status status = driver->Start();
  if (!status.ok()) {
    delete driver;
    return status;
  }
  return static_cast<Driver*>(driver);
}

void DestroyHostDriver(Driver* driver) { delete static_cast<HostDriver*>(driver); }

HostBooks ReadHostBooks(Driver* driver, uint32_t device) {
  return static_cast<HostDriver*>(driver)->Books(device);
}

const char* HostInstructionSet(Driver* driver) { return static_cast<HostDriver*>(driver)->InstructionSet(); }

}  // namespace rondo
