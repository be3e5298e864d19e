#include "runtime/runtime.h"

#include "runtime/host_memory.h"
#include "runtime/runtime_impl.h"

namespace rondo {

Result<Device*> RuntimeImpl::OpenDevice(uint32_t index) {
  if (index >= device_count) {
    return Status::Error(Code::kUnsupported, "the plan needs device %u; this runtime has %u", index,
                         device_count);
  }
  if (devices[index] == nullptr) {
    Result<Device*> device = driver->Open(driver_device[index]);
    if (!device.ok()) {
      return device.status().At("opening device %u of driver \"%s\"", driver_device[index],
                                driver->Info().name);
    }
    devices[index] = *device;
  }
  return devices[index];
}

namespace {

Status ChooseDevices(RuntimeImpl* impl, Span<const uint32_t> wanted) {
  const uint32_t available = impl->driver->DeviceCount();
  const DriverInfo info = impl->driver->Info();
  const bool shared = info.processes > 1;
  const uint32_t most = shared ? 1 : kMaxDevices, first = info.process;
  if (shared) impl->local = uint64_t{1} << info.process;
  impl->device_count = shared ? info.processes : available < kMaxDevices ? available : kMaxDevices;
  if (wanted.empty()) {
    for (uint32_t i = 0; i < most && i < available; ++i) impl->driver_device[first + i] = i;
    return Status::Ok();
  }
  if (wanted.size() > most) {
    return Status::Error(Code::kInvalidArgument, "%zu devices asked for; a runtime has at most %u",
                         wanted.size(), most);
  }
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] >= available) {
      return Status::Error(Code::kInvalidArgument, "device %u asked for; driver \"%s\" has %u", wanted[i],
                           info.name, available);
    }
    impl->driver_device[first + i] = wanted[i];
  }
  if (!shared) impl->device_count = static_cast<uint32_t>(wanted.size());
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN([[maybe_unused]] Device * device, impl->OpenDevice(first + i));
  }
  return Status::Ok();
}

}  // namespace

Result<Runtime> Runtime::Create(Driver* driver, const RuntimeOptions& options) {
  if (driver == nullptr) return Status::Error(Code::kInvalidArgument, "a runtime needs a driver, got null");
  const HostAllocator& allocator = options.allocator != nullptr ? *options.allocator : RuntimeHostAllocator();
  RuntimeImpl* impl = NewObject<RuntimeImpl>(allocator, allocator);
  if (impl == nullptr) {
    return Status::Error(Code::kOutOfMemory, "no host memory for a runtime of %zu bytes",
                         sizeof(RuntimeImpl));
  }
  Runtime runtime(impl);
  impl->log = options.log;
  impl->metrics.keep_totals = options.keep_plan_totals;
  impl->driver = driver;
  RONDO_RETURN_IF_ERROR(ChooseDevices(impl, options.devices));
  impl->threads = options.threads != nullptr ? *options.threads : DefaultThreadHooks();
  RONDO_RETURN_IF_ERROR(impl->queue.Start(impl->threads, options.async_workers));
  impl->log(LogLevel::kDebug, "runtime created");
  return runtime;
}

Runtime::Runtime(const Runtime& other) : impl_(other.impl_) {
  if (impl_ != nullptr) impl_->refs.fetch_add(1, std::memory_order_relaxed);
}

Runtime::~Runtime() { Unref(impl_); }

void Runtime::Unref(RuntimeImpl* impl) {
  if (impl == nullptr || impl->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  HostAllocator allocator = impl->allocator;
  DeleteObject(allocator, impl);
}

DriverInfo Runtime::driver_info() const { return impl_->driver->Info(); }

uint32_t Runtime::session_count() const { return impl_->sessions.load(std::memory_order_acquire); }

uint64_t Runtime::weight_bytes() const { return impl_->metrics.weight_bytes.load(std::memory_order_acquire); }

MetricsData Runtime::metrics() const {
  MetricsData data;
  impl_->metrics.Read(&data);
  data.sessions = session_count();
  return data;
}

size_t Runtime::WriteMetrics(char* text, size_t size) const {
  return impl_->metrics.Write(session_count(), text, size);
}

bool Runtime::on_worker() const { return impl_->queue.OnWorker(); }

Status Runtime::Ready() const {
  RONDO_RETURN_IF_ERROR(impl_->launch.lost());
  std::unique_lock<std::mutex> lock(impl_->mutex, std::try_to_lock);
  for (uint32_t i = 0; lock.owns_lock() && i < impl_->device_count; ++i) {
    uint64_t free_bytes = 0, total_bytes = 0;
    if (impl_->devices[i] == nullptr) continue;
    RONDO_RETURN_IF_ERROR(impl_->devices[i]->MemoryInfo(&free_bytes, &total_bytes).At("device %u", i));
  }
  return Status::Ok();
}

namespace {

Status CheckProgram(const Program& program, const DriverInfo& info) {
  const int name_size = static_cast<int>(program.name.size());
  if (program.num_streams > info.max_streams) {
    return Status::Error(Code::kUnsupported, "program \"%.*s\" uses %u streams; driver \"%s\" has %u",
                         name_size, program.name.data(), program.num_streams, info.name, info.max_streams);
  }
  if (!program.sync_points.empty() && !info.collectives) {
    return Status::Error(Code::kUnsupported, "program \"%.*s\" has %zu collectives; driver \"%s\" has none",
                         name_size, program.name.data(), program.sync_points.size(), info.name);
  }
  return Status::Ok();
}

}  // namespace

Status Runtime::Supports(const Plan& plan) const { return impl_->Supports(plan, false); }

Status RuntimeImpl::Supports(const Plan& plan, bool loads_next) {
  if (!plan.valid()) return Status::Error(Code::kInvalidArgument, "the plan is an empty handle");
  const PlanData& data = plan.data();
  DriverInfo info = driver->Info();
  const size_t devices = data.requirements.devices.size();
  if (devices > device_count || (info.processes > 1 && devices != info.processes)) {
    return Status::Error(Code::kUnsupported, "the plan needs %zu devices; this runtime has %u", devices,
                         device_count);
  }
  if (data.requirements.least_driver_version > info.driver_version) {
    return Status::Error(Code::kUnsupported, "the plan needs driver version %u; \"%s\" has %u",
                         data.requirements.least_driver_version, info.name, info.driver_version);
  }
  for (const Program& program : data.programs) RONDO_RETURN_IF_ERROR(CheckProgram(program, info));
  return loads_next ? driver->Expect(data) : driver->Supports(data);
}

}  // namespace rondo
