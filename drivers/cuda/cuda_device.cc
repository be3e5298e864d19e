#include "drivers/cuda/cuda_device.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <new>

#include "core/synthetic.h"
#include "drivers/cuda/cuda_collectives.h"
#include "drivers/cuda/cuda_constants.h"
#include "formats/machine_code/architecture.h"
#include "formats/machine_code/binary_check.h"

namespace rondo::cuda {

Result<CudaDevice*> CudaDevice::Create(const Api& api, uint32_t index, const OpRegistry* ops,
                                       const ThreadHooks& hooks, CublasLtOpening* cublaslt, Ending* ending) {
  CudaDevice* device = new (std::nothrow) CudaDevice(api, ops, hooks, cublaslt, ending);
  if (device == nullptr)
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for it", index);
  device->index_ = index;
  Error error = api.device_get(&device->id_, static_cast<int>(index));
  if (error == 0) error = api.device_attribute(&device->major_, kMajorAttribute, device->id_);
  if (error == 0) error = api.device_attribute(&device->minor_, kMinorAttribute, device->id_);
  if (error == 0) error = api.device_attribute(&device->processors_, kProcessorsAttribute, device->id_);
  if (error == 0) error = api.device_attribute(&device->shared_, kBlockSharedAttribute, device->id_);
  if (error == 0) error = api.device_name(device->name_, sizeof(device->name_), device->id_);
  if (error == 0) error = api.context_retain(&device->context_, device->id_);
  Status status = device->Check(error, "opening the device");
  if (!status.ok()) {
    delete device;
    return status;
  }
  return device;
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  {
    Use use(*this);
    if (cublaslt_handle_ != nullptr) cublaslt_->destroy(cublaslt_handle_);
  }
  weight_copy_.reset();
  fill_.Unload();
  small_.Unload();
  api_.context_release(id_);
}

Status CudaDevice::Check(Error error, const char* call) {
  if (error == 0) return Status::Ok();
  if (IsFinal(error)) {
    ending_->Set(
        Status::Error(Code::kInternal,
                      "cuda device %u (%s): %s; that ends CUDA for this process: no session on a GPU "
                      "can go on, and the process must be replaced",
                      index_, name_, ToStatus(api_, error, call).message()));
  }
  RONDO_RETURN_IF_ERROR(ending_->Get());
  return ToStatus(api_, error, call).At("cuda device %u", index_);
}

Status CudaDevice::LoadCode(ModuleHandle* module, const void* binary, const char* call) {
  char log[512] = {};
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log) - 1)};
  const Status status = Check(api_.module_load_logged(module, binary, 2, options, values), call);
  if (status.ok() || log[0] == 0) return status;
  std::replace(log, log + sizeof(log), '\n', ' ');
  return Status::Error(status.code(), "%s: %s", status.message(), log);
}

// ------------------------------------------------------------------------------------- memory

Result<DeviceAddress> CudaDevice::Allocate(uint64_t bytes, uint64_t alignment) {
  Use use(*this);
  Address address = 0;
  const Error error = blocks_.Take(bytes, alignment, &address);
  if (error == 0) return DeviceAddress{address};
  if (error == DeviceBlocks::kNoHostMemory)
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a block of the device's",
                         index_);
  if (error != kOutOfMemoryError) return Check(error, "allocating memory");
  size_t free_bytes = 0, total_bytes = 0;
  api_.memory_info(&free_bytes, &total_bytes);
  return Status::Error(Code::kOutOfMemory,
                       "cuda device %u (%s): %" PRIu64 " bytes cannot be had; %zu of %zu are free", index_,
                       name_, bytes, free_bytes, total_bytes);
}

void CudaDevice::Free(DeviceAddress address, uint64_t) {
  Use use(*this);
  blocks_.Give(address);
}

Status CudaDevice::MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) {
  RONDO_RETURN_IF_ERROR(ending_->Get());
  Use use(*this);
  size_t free_size = 0, total_size = 0;
  RONDO_RETURN_IF_ERROR(Check(api_.memory_info(&free_size, &total_size), "cuMemGetInfo"));
  *free_bytes = free_size;
  *total_bytes = total_size;
  return Status::Ok();
}

Status CudaDevice::CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) {
  if (bytes == 0) return Status::Ok();
  CudaStream* s = ToCuda(stream);
  if (s->staging == nullptr && bytes >= WeightCopy::kLeastBytes &&
      has_weight_copy_.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(copy_mutex_);
    if (weight_copy_ != nullptr) return weight_copy_->Copy(to, host, bytes, s->handle);
  }
  Use use(*this);
  if (s->staging != nullptr) {
    RONDO_ASSIGN_OR_RETURN(const bool ordinary, IsOrdinary(host, bytes));
    if (ordinary) return s->staging->CopyIn(to, host, bytes, s->handle);
  }
  return Check(api_.copy_in(to, host, bytes, s->handle), "copying to the device");
}

// If the first and last byte are ordinary memory, so are the bytes between, by assumption.
Result<bool> CudaDevice::IsOrdinary(const void* memory, uint64_t bytes) {
  const Address first = reinterpret_cast<Address>(memory);
  for (Address at : {first, first + bytes - 1}) {
    int attribute = kMemoryType;
    unsigned type = 0;
    void* values = &type;
    RONDO_RETURN_IF_ERROR(Check(api_.pointer_attributes(1, &attribute, &values, at), "looking at memory"));
    if (type == 0) return true;
  }
  return false;
}

Status CudaDevice::CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream* stream) {
  if (bytes == 0) return Status::Ok();
  CudaStream* s = ToCuda(stream);
  Use use(*this);
  if (s->has_graph) RONDO_RETURN_IF_ERROR(Idle(s));
  if (s->staging != nullptr) {
    RONDO_ASSIGN_OR_RETURN(const bool ordinary, IsOrdinary(host, bytes));
    if (ordinary) return s->staging->CopyOut(host, from, bytes, s->handle);
  }
  return Check(api_.copy_out(host, from, bytes, s->handle), "copying from the device");
}

Status CudaDevice::Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) {
  CudaStream* s = ToCuda(stream);
  RONDO_RETURN_IF_ERROR(Settle(s));
  s->after_kernel = false;
  Use use(*this);
  if (s->has_graph && s->recording == nullptr) RONDO_RETURN_IF_ERROR(Idle(s));
  RONDO_RETURN_IF_ERROR(Check(api_.copy(to, from, bytes, s->handle), "copying on the device"));
  CudaNode node;
  node.bytes = bytes;
  node.addresses = 2;
  Note(s, {kNone, StepKind::kCopy}, &node);
  return Status::Ok();
}

Status CudaDevice::Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) {
  if (bytes == 0) return Status::Ok();
  CudaStream* s = ToCuda(stream);
  RONDO_RETURN_IF_ERROR(Settle(s));
  s->after_kernel = false;
  Note(s, {kNone, StepKind::kCopy});
  Use use(*this);
  return Check(api_.fill(to, byte, bytes, s->handle), "filling device memory");
}

Status CudaDevice::FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                                 Stream* stream) {
  Status made = fill_.Enqueue(to, dtype, elements, key, scale, ToCuda(stream)->handle);
  if (made.ok() || !ending_->Get().ok()) return made;
  // The NVIDIA driver cannot compile the kernel, so that weights go through host memory in pieces.
  constexpr uint64_t kPiece = 1 << 20;
  uint64_t size = static_cast<uint64_t>(ByteSize(dtype));
  const std::unique_ptr<uint8_t[]> piece(new (std::nothrow) uint8_t[std::min(elements, kPiece) * size]);
  if (piece == nullptr)
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for synthetic weights", index_);
  for (uint64_t first = 0; first < elements; first += kPiece) {
    uint64_t count = std::min(kPiece, elements - first);
    FillSyntheticRange(dtype, key, scale, first, count, piece.get());
    RONDO_RETURN_IF_ERROR(CopyIn(to + first * size, piece.get(), count * size, stream));
    Use use(*this);
    RONDO_RETURN_IF_ERROR(
        Check(api_.stream_synchronize(ToCuda(stream)->handle), "filling synthetic weights"));
  }
  return Status::Ok();
}

// ------------------------------------------------------------------------------------- kernels

Result<Module*> CudaDevice::LoadModule(const PlanData& plan) {
  RONDO_ASSIGN_OR_RETURN(Module * module, BeginModule(plan));
  const Status status = FinishModule(module);
  if (status.ok()) return module;
  DestroyModule(module);
  return status;
}

Result<Module*> CudaDevice::BeginModule(const PlanData& plan) {
  const ModuleChoice choice = Choose(plan);
  if (choice.module == nullptr) {
    const GpuTarget* target = TargetFor(major_ * 10 + minor_);
    return Status::Error(Code::kUnsupported, "the plan has no machine code for sm_%d%d (%s): %s%s%s", major_,
                         minor_, name_, choice.others[0] == 0 ? "it has none" : choice.others,
                         target == nullptr ? "" : "; compile it with --target cuda:",
                         target == nullptr ? "" : target->architecture);
  }
  RONDO_RETURN_IF_ERROR(CheckBinaries(plan, *choice.module, false));
  CudaModule* module = new (std::nothrow) CudaModule;
  if (module == nullptr)
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a module", index_);
  modules_.fetch_add(1);
  Status status = LoadKernels(plan, *choice.module, module);
  if (status.ok() && !plan.custom_ops.empty()) {
    Result<CudaCalls*> calls = CudaCalls::Create(*this, plan, ops_);
    status = calls.status();
    if (calls.ok()) module->calls.reset(*calls);
  }
  if (status.ok()) status = PrepareWeightCopy(plan);
  if (!status.ok()) {
    DestroyModule(reinterpret_cast<Module*>(module));
    return status;
  }
  return reinterpret_cast<Module*>(module);
}

Status CudaDevice::LoadKernels(const PlanData& plan, const CodeModule& code, CudaModule* module) {
  Use use(*this);
  Status status;
  const bool ptx = ParseArchitecture(code.architecture)->ptx;
  module->kernels.reset(new (std::nothrow) CudaKernel[plan.kernels.size()]);
  if (module->kernels == nullptr || !module->handles.Reserve(code.codes.size()))
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for %zu kernels", index_,
                         plan.kernels.size());
  module->plan = &plan;
  module->num_kernels = plan.kernels.size();
  status = BeginMatmuls(code, module);
  for (size_t c = 0; c < code.codes.size() && status.ok(); ++c) {
    ModuleHandle handle = nullptr;
    status = LoadCode(&handle, code.codes[c].data(), "loading machine code");
    if (status.ok()) module->handles.push_back(handle);  // capacity is reserved
  }
  for (size_t k = 0; k < plan.kernels.size() && status.ok(); ++k) {
    const KernelBinary& binary = code.binaries[k];
    const char* const entry = module->arena.CopyText(binary.entry).data();
    if (entry == nullptr)
      return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a kernel", index_);
    const uint32_t threads = binary.block == 0 ? code.block : binary.block;
    Function function = nullptr;
    if (binary.kind == BinaryKind::kFunction) {
      status = Check(api_.module_function(&function, module->handles[binary.code], entry), entry);
      if (status.ok() && ptx) status = CheckCompiled(function, binary, threads).At("function \"%s\"", entry);
    }
    if (status.ok() && (plan.kernels[k].num_params > kMostParams || binary.tensor_maps.size() > kMostMaps)) {
      status = Status::Error(Code::kUnsupported, "kernel \"%.*s\" has %u parameters and %zu tensor maps",
                             static_cast<int>(plan.kernels[k].name.size()), plan.kernels[k].name.data(),
                             plan.kernels[k].num_params, binary.tensor_maps.size());
    }
    if (status.ok() && binary.shared > 0) {
      status = Check(api_.function_attribute(function, kMostDynamicShared, static_cast<int>(binary.shared)),
                     "taking shared memory")
                   .At("kernel \"%s\": %u bytes a block", entry, binary.shared);
    }
    CudaKernel& kernel = module->kernels[k];
    kernel.function = function;
    kernel.grid = binary.grid;
    kernel.block = threads;
    kernel.shared = binary.shared;
    kernel.params = plan.kernels[k].num_params;
    kernel.tensor_maps = module->arena.Copy(binary.tensor_maps);
    kernel.waits = binary.waits && major_ >= 9;
    if (const std::optional<NormKernel> norm = NormOf(plan.kernels[k], binary)) {
      kernel.norm = module->arena.Copy(Span<const NormKernel>(&*norm, 1)).data();
      if (kernel.norm == nullptr && status.ok())
        status = Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a kernel", index_);
    }
    if (status.ok() && kernel.tensor_maps.data() == nullptr)
      status = Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a kernel", index_);
  }
  return status;
}

Status CudaDevice::CheckCompiled(Function function, const KernelBinary& binary, uint32_t threads) {
  FunctionNeeds needs;
  const std::pair<int, uint32_t*> kAsked[] = {{kFunctionThreads, &needs.most_threads},
                                              {kFunctionShared, &needs.shared},
                                              {kFunctionRegisters, &needs.registers}};
  for (const auto& [attribute, value] : kAsked) {
    int number = 0;
    RONDO_RETURN_IF_ERROR(
        Check(api_.function_info(&number, attribute, function), "asking for what it needs"));
    *value = static_cast<uint32_t>(number);
  }
  return FitsBlock(needs, threads, binary.shared, static_cast<uint64_t>(shared_));
}

Status CudaDevice::PrepareWeightCopy(const PlanData& plan) {
  uint64_t bytes = 0;  // of the weights copied this way
  for (const Buffer& b : plan.buffers) {
    const bool counts = b.kind == BufferKind::kConstant && b.weight == WeightSource::kBytes;
    if (counts && b.bytes >= WeightCopy::kLeastBytes) bytes += b.bytes;
  }
  std::lock_guard<std::mutex> lock(copy_mutex_);
  if (bytes == 0 || weight_copy_ != nullptr) return Status::Ok();
  RONDO_ASSIGN_OR_RETURN(WeightCopy * made, WeightCopy::Create(*this, hooks_));
  weight_copy_.reset(made);
  has_weight_copy_.store(true, std::memory_order_release);
  return Status::Ok();
}

void CudaDevice::DropWeightCopy(StreamHandle of) {
  if (!has_weight_copy_.load(std::memory_order_acquire)) return;
  std::lock_guard<std::mutex> lock(copy_mutex_);
  if (weight_copy_ == nullptr || weight_copy_->stream() != of) return;
  has_weight_copy_.store(false, std::memory_order_release);
  weight_copy_.reset();
}

Status CudaDevice::FinishModule(Module* module) {
  CudaModule* const m = ToCuda(module);
  if (m->has_thread) hooks_.join(hooks_.user, m->thread);
  m->has_thread = false;
  return m->prepared;
}

void CudaDevice::DestroyModule(Module* module) {
  (void)FinishModule(module);
  DropWeightCopy(nullptr);
  ToCuda(module)->calls.reset();
  Use use(*this);
  for (ModuleHandle handle : ToCuda(module)->handles) api_.module_unload(handle);
  delete ToCuda(module);
  modules_.fetch_sub(1);
}

Status CudaDevice::Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses,
                          Stream* stream, uint32_t step) {
  CudaModule* m = ToCuda(module);
  CudaStream* s = ToCuda(stream);
  if (kernel >= m->num_kernels || addresses.size() < m->kernels[kernel].params) {
    return Status::Error(Code::kInvalidArgument, "kernel %u with %zu addresses cannot be launched", kernel,
                         addresses.size());
  }
  const CudaKernel& k = m->kernels[kernel];
  RecordsNext(s);
  RONDO_ASSIGN_OR_RETURN(const bool launched, LaunchHeld(k, addresses, s));
  if (launched) {
    Note(s, {step, StepKind::kLaunch});
    return Status::Ok();
  }
  if (k.matmul != nullptr) return LaunchMatmul(k.matmul.get(), addresses, s, step);
  Use use(*this);
  // The stream that launches a graph reports the graph's faults.
  CudaStream* const reporting = s->recording != nullptr ? s->recording->origin : s;
  FaultRecord* const faults = reporting->faults;
  reporting->plan = m->plan;
  LaunchParams params;
  RONDO_RETURN_IF_ERROR(params.Build(api_, addresses.subspan(0, k.params), k.tensor_maps, faults, step));
  LaunchAttribute dependent;
  dependent.id = kDependentLaunch;
  dependent.number = 1;
  LaunchConfig config;
  config.grid[0] = k.grid;
  config.block[0] = k.block;
  config.shared_bytes = k.shared;
  config.stream = s->handle;
  config.attributes = &dependent;
  // Every earlier kernel is complete when the last one is: the last one waited too, or began after its
  // predecessor.
  config.num_attributes = s->recording != nullptr && s->after_kernel && k.waits ? 1 : 0;
  s->after_kernel = true;
  RONDO_RETURN_IF_ERROR(Check(api_.launch(&config, k.function, params.get(), nullptr), "launching a kernel"));
  CudaNode node;
  node.module = m;
  node.kernel = kernel;
  node.faults = faults;
  node.addresses = addresses.size();
  Note(s, {step, StepKind::kLaunch}, &node);
  return Status::Ok();
}

Status CudaDevice::Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
                        uint32_t step) {
  const std::unique_ptr<CudaCalls>& calls = ToCuda(module)->calls;
  if (calls == nullptr) return Status::Error(Code::kInvalidArgument, "the plan has no custom ops");
  RONDO_RETURN_IF_ERROR(Settle(ToCuda(stream)));
  ToCuda(stream)->after_kernel = false;
  RONDO_RETURN_IF_ERROR(calls->Run(op, addresses, ToCuda(stream), step));
  Note(ToCuda(stream), {step, StepKind::kCustom});
  return Status::Ok();
}

// ----------------------------------------------------------------------------------- collectives

Status CudaDevice::Settle(CudaStream* stream) {
  if (stream->held.of == nullptr) return Status::Ok();
  RecordsNext(stream);
  return stream->held.of->EnqueueHeld(nullptr, stream);
}

Result<bool> CudaDevice::LaunchHeld(const CudaKernel& kernel, Span<const DeviceAddress> addresses,
                                    CudaStream* stream) {
  const HeldCollective& held = stream->held;
  if (held.of == nullptr) return false;
  std::optional<small::Norm> norm;
  if (kernel.norm != nullptr) norm = NormAfter(*kernel.norm, *held.part.point, held.from, held.to, addresses);
  const bool takes = norm.has_value() && held.of->Takes(*norm, held.part);
  RONDO_RETURN_IF_ERROR(held.of->EnqueueHeld(takes ? &*norm : nullptr, stream));
  return takes;
}

uint64_t CudaDevice::identity() const {
  uint64_t identity = MachineNumber();
  for (int attribute : {kPciDomainAttribute, kPciBusAttribute, kPciDeviceAttribute}) {
    int value = 0;
    api_.device_attribute(&value, attribute, id_);
    identity = (identity ^ static_cast<uint32_t>(value)) * 0x100000001b3ull;  // FNV-1a
  }
  return identity | 1;
}

Status CudaDevice::StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                                   Stream* stream) {
  CudaStream* s = ToCuda(stream);
  RecordsNext(s);
  RONDO_RETURN_IF_ERROR(Settle(s));
  Note(s, {part.step, StepKind::kCollectiveStart});
  auto* collectives = reinterpret_cast<CudaCollectives*>(part.collectives);
  CollectiveNotes* const notes = collectives->NotesBeside(part);
  if (s->recording != nullptr && notes != nullptr && !s->recording->Joins(notes)) {
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a recording", index_);
  }
  return collectives->Start(part, from, to, s);
}

Status CudaDevice::WaitCollective(const CollectivePart& part, Stream* stream) {
  CudaStream* s = ToCuda(stream);
  Note(s, {part.step, StepKind::kCollectiveWait});
  return reinterpret_cast<CudaCollectives*>(part.collectives)->Wait(part, s);
}

}  // namespace rondo::cuda
