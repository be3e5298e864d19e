#include "drivers/cuda/cuda_driver.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "core/custom_op.h"
#include "core/list.h"
#include "drivers/cuda/cuda_collectives.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/cuda/library_matmuls.h"

namespace rondo {

namespace {

class CudaDriver final : public Driver {
 public:
  CudaDriver(const cuda::Api& api, int version, uint32_t count, const CudaOptions& options)
      : api_(api),
        version_(version),
        ops_(options.ops),
        thread_hooks_(options.thread_hooks),
        count_(count),
        processes_(options.processes != nullptr && options.processes->size() > 1 ? options.processes
                                                                                 : nullptr),
        opening_(options.thread_hooks) {
    means_.peers = &peers_;
    means_.processes = processes_;
    means_.kernels = processes_ == nullptr ? options.collectives : CollectiveKernels::kNccl;
    means_.limit_ns = static_cast<uint64_t>(options.collective_seconds * 1e9);
  }
  ~CudaDriver() override {
    table_.reset();
    for (cuda::CudaDevice* device : devices_) delete device;
  }

  // The fallible part of construction. False if out of memory.
  bool Prepare(const CudaOptions& options) {
    const char* const library_path = options.library_path == nullptr ? "" : options.library_path;
    library_path_ = GrowingList<char>(library_path, std::strlen(library_path) + 1);
    if (library_path_.ok()) opening_.SetPath(library_path_.data());
    devices_ = GrowingList<cuda::CudaDevice*>::Filled(count_, nullptr);
    small_up_to_ = GrowingList<SmallUpTo>(options.small_up_to.data(), options.small_up_to.size());
    means_.small_up_to = {small_up_to_.data(), small_up_to_.size()};
    const bool memory = library_path_.ok() && devices_.ok() && small_up_to_.ok();
    Result<const nccl::Api*> nccl = nccl::OpenApi(library_path);
    means_.nccl_status = nccl.status();
    if (!memory || !nccl.ok()) return memory;
    nccl_version_ = nccl::VersionOf(**nccl);
    table_.reset(new (std::nothrow) cuda::CommunicatorTable(
        **nccl, static_cast<uint64_t>(options.connect_seconds * 1e9), Hooks(), thread_hooks_));
    means_.nccl = table_.get();
    return table_ != nullptr;
  }

  int nccl_version() const { return nccl_version_; }

  DriverInfo Info() const override {
    DriverInfo info;
    info.name = "cuda";
    info.driver_version = static_cast<uint32_t>(version_);
    info.max_streams = 1024;
    info.collectives = true;  // Supports reports a missing NCCL
    info.records_together = true;
    info.rebinds = true;  // nodes of a graph whose handles are known
    if (processes_ != nullptr) {
      info.processes = processes_->size();
      info.process = processes_->rank();
    }
    return info;
  }
  uint32_t DeviceCount() const override { return count_; }

  Result<Device*> Open(uint32_t index) override {
    if (index >= count_) {
      return Status::Error(Code::kInvalidArgument, "cuda driver: device %u of %u does not exist", index,
                           count_);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (devices_[index] == nullptr) {
      RONDO_ASSIGN_OR_RETURN(devices_[index],
                             cuda::CudaDevice::Create(api_, index, ops_, thread_hooks_, &opening_, &ending_));
    }
    return static_cast<Device*>(devices_[index]);
  }

  Status Supports(const PlanData& plan) const override { return Check(plan, true); }
  Status Expect(const PlanData& plan) override { return Check(plan, false); }

  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices) override {
    RONDO_ASSIGN_OR_RETURN(
        cuda::CudaCollectives * made,
        cuda::CudaCollectives::Create(program, {devices_.data(), devices_.size()}, devices, means_));
    return reinterpret_cast<Collectives*>(made);
  }
  void DestroyCollectives(Collectives* collectives) override { delete ToCuda(collectives); }
  Status BeginCollectives(Collectives* collectives) override {
    RONDO_RETURN_IF_ERROR(Others());
    return ToCuda(collectives)->Begin();
  }
  void AbortCollectives(Collectives* collectives, const Status& why, bool) override {
    ToCuda(collectives)->Abort();
    if (processes_ != nullptr) processes_->Abort(why);
  }
  Status Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) override {
    *progress = ToCuda(collectives)->Progress(device);
    RONDO_RETURN_IF_ERROR(Others());
    // A process that ended in order may have done its part before; NCCL does not tell.
    constexpr uint64_t kPatience = uint64_t{2} * 1000000000;
    if (processes_ == nullptr || progress->ended == progress->started) return Status::Ok();
    return processes_->StateWithAll(kPatience);
  }
  Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) override {
    return processes_ == nullptr ? so_far : processes_->Agree(so_far, plan, contents, stop);
  }

 private:
  static cuda::CudaCollectives* ToCuda(Collectives* collectives) {
    return reinterpret_cast<cuda::CudaCollectives*>(collectives);
  }

  // Without `waits`, a library that the plan needs begins to be opened.
  Status Check(const PlanData& plan, bool waits) const {
    if (plan.modules.empty()) {
      return Status::Error(
          Code::kUnsupported,
          "the plan was compiled for \"%.*s\" and has no machine code for a GPU; compile it with "
          "--target cuda:sm_90a",
          static_cast<int>(plan.requirements.target.size()), plan.requirements.target.data());
    }
    if (plan.requirements.least_driver_version > static_cast<uint32_t>(version_)) {
      return Status::Error(Code::kUnsupported, "the plan needs driver version %u; this machine has %d",
                           plan.requirements.least_driver_version, version_);
    }
    RONDO_RETURN_IF_ERROR(SupportsCalls(plan));
    for (const CodeModule& module : plan.modules) {
      if (!cuda::HasLibraryMatmuls(module)) continue;
      if (!waits) {
        opening_.Begin();
        break;
      }
      RONDO_RETURN_IF_ERROR(cuda::NeedsLibrary(plan, module, opening_.Wait().status()));
    }
    for (const Program& program : plan.programs) {
      if (!NeedsNccl(program) || means_.nccl_status.ok()) continue;
      return means_.nccl_status.At("program \"%.*s\" has %zu collectives",
                                   static_cast<int>(program.name.size()), program.name.data(),
                                   program.sync_points.size());
    }
    return Status::Ok();
  }

  // Whether GPUs with peer access can do without NCCL is decided when a session is made.
  bool NeedsNccl(const Program& program) const {
    return std::any_of(program.sync_points.begin(), program.sync_points.end(), [&](const SyncPoint& point) {
      return means_.kernels == CollectiveKernels::kNccl || !cuda::CanBeSmall(point);
    });
  }
  // Custom ops that cannot be enqueued run on the host, between graphs.
  Status SupportsCalls(const PlanData& plan) const {
    for (uint32_t i = 0; i < plan.custom_ops.size(); ++i) {
      RONDO_RETURN_IF_ERROR(CheckCall(ops_, plan, i));
      const CustomOp& op = plan.custom_ops[i];
      if (!op.graph_safe || ops_->FindExact(op.domain, op.name, op.version)->op.enqueue != nullptr) continue;
      const std::string_view node = SourceOfCall(plan, i);
      return Status::Error(Code::kUnsupported,
                           "%.*s: the plan lets a graph contain custom op \"%.*s.%.*s\", which runs on the "
                           "host: compile the model again with --target cuda:sm_90a",
                           static_cast<int>(node.size()), node.data(), static_cast<int>(op.domain.size()),
                           op.domain.data(), static_cast<int>(op.name.size()), op.name.data())
          .FromNode(node);
    }
    return Status::Ok();
  }

  // OK, or the reason why other processes stopped.
  Status Others() { return processes_ == nullptr ? Status::Ok() : processes_->state(); }

  nccl::ProcessHooks Hooks() {
    nccl::ProcessHooks hooks;
    hooks.user = this;
    if (processes_ != nullptr) {
      hooks.process = processes_->rank();
      hooks.others = [](void* user) { return static_cast<CudaDriver*>(user)->Others(); };
    }
    hooks.enter = [](void* user, uint32_t device) {
      auto* self = static_cast<CudaDriver*>(user);
      self->api_.context_push(self->devices_[device]->context());
    };
    hooks.leave = [](void* user) {
      cuda::Context popped;
      static_cast<CudaDriver*>(user)->api_.context_pop(&popped);
    };
    return hooks;
  }

  const cuda::Api& api_;
  const int version_;
  const OpRegistry* const ops_;
  const ThreadHooks thread_hooks_;
  cuda::Ending ending_;
  const uint32_t count_;
  Processes* const processes_;      // null if there is one process
  GrowingList<char> library_path_;  // with its terminating 0
  mutable cuda::CublasLtOpening opening_;
  GrowingList<SmallUpTo> small_up_to_;
  std::mutex mutex_;
  GrowingList<cuda::CudaDevice*> devices_;  // null entries are not opened
  cuda::PeerTable peers_;
  cuda::CollectiveMeans means_;
  int nccl_version_ = 0;
  std::unique_ptr<cuda::CommunicatorTable> table_;  // null without NCCL
};

}  // namespace

Result<Driver*> CreateCudaDriver(const CudaOptions& options) {
  RONDO_ASSIGN_OR_RETURN(const cuda::Api* api, cuda::OpenApi());
  int version = 0, count = 0;
  RONDO_RETURN_IF_ERROR(cuda::ToStatus(*api, api->driver_version(&version), "cuDriverGetVersion"));
  RONDO_RETURN_IF_ERROR(cuda::ToStatus(*api, api->device_count(&count), "cuDeviceGetCount"));
  const bool small =
      options.collectives == CollectiveKernels::kSmall || options.collectives == CollectiveKernels::kFused;
  if (small && options.processes != nullptr && options.processes->size() > 1) {
    return Status::Error(Code::kUnsupported,
                         "small collectives are between GPUs of one process; there are %u processes",
                         options.processes->size());
  }
  if (count <= 0) return Status::Error(Code::kUnsupported, "the NVIDIA driver finds no GPU on this machine");
  CudaDriver* driver = new (std::nothrow) CudaDriver(*api, version, static_cast<uint32_t>(count), options);
  if (driver != nullptr && driver->Prepare(options)) return static_cast<Driver*>(driver);
  delete driver;
  return Status::Error(Code::kOutOfMemory, "no host memory for the cuda driver");
}

Result<CollectiveKernels> ParseCollectiveKernels(std::string_view name) {
  constexpr std::pair<std::string_view, CollectiveKernels> kNames[] = {{"nccl", CollectiveKernels::kNccl},
                                                                       {"small", CollectiveKernels::kSmall},
                                                                       {"fused", CollectiveKernels::kFused},
                                                                       {"auto", CollectiveKernels::kAuto}};
  for (const auto& [known, kernels] : kNames) {
    if (name == known) return CollectiveKernels{kernels};
  }
  return Status::Error(Code::kInvalidArgument, "collectives \"%.*s\" are none of nccl, small, fused and auto",
                       static_cast<int>(name.size()), name.data());
}

void DestroyCudaDriver(Driver* driver) { delete driver; }

int CudaNcclVersion(Driver* driver) { return static_cast<CudaDriver*>(driver)->nccl_version(); }

std::string CudaCodeChoice(Device* device, const PlanData& plan) {
  const cuda::ModuleChoice choice = static_cast<cuda::CudaDevice*>(device)->Choose(plan);
  if (choice.module == nullptr) return "";
  return std::string(choice.module->architecture) +
         (choice.others[0] == 0 ? "" : " (" + std::string(choice.others) + ")");
}

const char* CudaDeviceName(Device* device) { return static_cast<cuda::CudaDevice*>(device)->name(); }

}  // namespace rondo
