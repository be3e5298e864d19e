#include "runtime/loaded_plan.h"

#include <cinttypes>
#include <cstdio>

#include "core/synthetic.h"
#include "runtime/host_memory.h"

namespace rondo {
namespace {

// A stream of one device, for the length of a scope.
class ScopedStream {
 public:
  explicit ScopedStream(Device* device) : device_(device), stream_(device->CreateStream()) {}
  ScopedStream(const ScopedStream&) = delete;
  ScopedStream& operator=(const ScopedStream&) = delete;
  ~ScopedStream() {
    if (stream_.ok()) device_->DestroyStream(*stream_);
  }
  const Status& status() const { return stream_.status(); }
  Stream* get() { return *stream_; }

 private:
  Device* device_;
  Result<Stream*> stream_;
};

bool IsConstantOf(const Buffer& buffer, uint32_t device) {
  return buffer.kind == BufferKind::kConstant && buffer.device == device;
}

Status BeyondWeights(const Buffer& b, uint64_t offset, uint64_t limit) {
  return Status::Error(Code::kCorrupt,
                       "weight \"%.*s\" of %" PRIu64 " bytes at offset %" PRIu64
                       " passes the end of the weights at %" PRIu64,
                       static_cast<int>(b.name.size()), b.name.data(), b.bytes, offset, limit);
}

// Gives an address to every constant of the device that can be used directly in the plan's memory. Live
// weights are excluded: they must be in the runtime's memory, so that they can be replaced. Finds out whether
// other constants need memory.
Status MapWeights(LoadedPlan* loaded, uint32_t index, bool can_map, bool* all_mapped) {
  const PlanData& data = loaded->plan.data();
  Span<const uint8_t> weights = loaded->plan.weights();
  *all_mapped = true;
  for (size_t i = 0; i < data.buffers.size(); ++i) {
    const Buffer& b = data.buffers[i];
    if (!IsConstantOf(b, index)) continue;
    if (b.weight == WeightSource::kSynthetic) {
      *all_mapped = false;
      continue;
    }
    if (b.file_offset > weights.size() || b.bytes > weights.size() - b.file_offset) {
      return BeyondWeights(b, b.file_offset, weights.size());
    }
    auto address = reinterpret_cast<uintptr_t>(weights.data()) + b.file_offset;
    if (can_map && b.synthetic_key == 0 && address % (b.alignment == 0 ? 1 : b.alignment) == 0) {
      loaded->constants[i] = address;
    } else {
      *all_mapped = false;
    }
  }
  return Status::Ok();
}

// Generates a synthetic weight, run by run: the elements after a run belong to a weight with another key.
Status FillSynthetic(const Buffer& b, DeviceAddress to, Device* device, Stream* stream, StopSignal* stop) {
  const auto size = static_cast<uint64_t>(ByteSize(b.dtype));
  uint64_t left = b.bytes / size, key = b.synthetic_key;
  while (left > 0) {
    if (stop->Asked()) return stop->status();
    const uint64_t count = b.synthetic_run == 0 || b.synthetic_run > left ? left : b.synthetic_run;
    RONDO_RETURN_IF_ERROR(device->FillSynthetic(to, b.dtype, count, key, b.synthetic_scale, stream));
    key += b.synthetic_step * kSyntheticStride;
    to += count * size;
    left -= count;
  }
  return Status::Ok();
}

// Copies or generates, in the device's block, the constants that MapWeights left without an address. The
// caller must wait for the stream.
Status FillWeights(LoadedPlan* loaded, uint32_t index, Stream* stream, StopSignal* stop) {
  const PlanData& data = loaded->plan.data();
  LoadedDevice& d = loaded->devices[index];
  for (size_t i = 0; i < data.buffers.size(); ++i) {
    const Buffer& b = data.buffers[i];
    if (!IsConstantOf(b, index) || loaded->constants[i] != 0) continue;
    if (b.offset > d.weight_bytes || b.bytes > d.weight_bytes - b.offset) {
      return BeyondWeights(b, b.offset, d.weight_bytes);
    }
    if (stop->Asked()) return stop->status();
    loaded->constants[i] = d.weights + b.offset;
    if (b.bytes == 0) continue;
    Status filled = b.weight == WeightSource::kSynthetic
                        ? FillSynthetic(b, loaded->constants[i], d.device, stream, stop)
                        : d.device->CopyIn(loaded->constants[i],
                                           loaded->plan.weights().data() + b.file_offset, b.bytes, stream);
    if (!filled.ok()) {
      return filled.At("loading weight \"%.*s\"", static_cast<int>(b.name.size()), b.name.data());
    }
  }
  return Status::Ok();
}

// Other sessions' runs continue while weights are copied.
Status LoadWeights(RuntimeImpl* runtime, LoadedPlan* loaded, uint32_t index, Quiet* quiet, StopSignal* stop) {
  LoadedDevice& d = loaded->devices[index];
  uint64_t bytes = loaded->plan.data().requirements.devices[index].weights;
  RONDO_ASSIGN_OR_RETURN(d.weights, AllocateOn(d.device, bytes, kPageBytes, "weights", index));
  d.weight_bytes = bytes;
  runtime->metrics.weight_bytes.fetch_add(bytes, std::memory_order_acq_rel);
  ScopedStream stream(d.device);
  RONDO_RETURN_IF_ERROR(stream.status());
  quiet->Pause();
  Status filled = FillWeights(loaded, index, stream.get(), stop);
  quiet->Resume();
  RONDO_RETURN_IF_ERROR(filled);
  uint32_t failed_step = kNone;
  return d.device->Synchronize(stream.get(), &failed_step);
}

Status LoadDevice(RuntimeImpl* runtime, LoadedPlan* loaded, uint32_t index, StopSignal* stop) {
  LoadedDevice& d = loaded->devices[index];
  Quiet quiet(runtime);
  RONDO_ASSIGN_OR_RETURN(d.device, runtime->OpenDevice(index));
  RONDO_ASSIGN_OR_RETURN(d.module, d.device->BeginModule(loaded->plan.data()));
  bool all_mapped = false;
  RONDO_RETURN_IF_ERROR(MapWeights(loaded, index, runtime->driver->Info().host_memory, &all_mapped));
  if (!all_mapped) RONDO_RETURN_IF_ERROR(LoadWeights(runtime, loaded, index, &quiet, stop));
  return d.device->FinishModule(d.module);
}

void Unload(RuntimeImpl* runtime, LoadedPlan* loaded) {
  for (LoadedDevice& d : loaded->devices) {
    if (d.module != nullptr) d.device->DestroyModule(d.module);
    if (d.weight_bytes != 0) {
      d.device->Free(d.weights, d.weight_bytes);
      runtime->metrics.weight_bytes.fetch_sub(d.weight_bytes, std::memory_order_acq_rel);
    }
  }
  for (RunCounters* counters : loaded->counters) {
    if (counters != nullptr) runtime->metrics.Release(counters);
  }
  DeleteObject(runtime->allocator, loaded);
}

Status Load(RuntimeImpl* runtime, LoadedPlan* loaded, StopSignal* stop) {
  const PlanData& data = loaded->plan.data();
  loaded->devices = loaded->memory.New<LoadedDevice>(data.requirements.devices.size());
  loaded->constants = loaded->memory.New<DeviceAddress>(data.buffers.size());
  loaded->counters = loaded->memory.New<RunCounters*>(data.programs.size());
  bool made = loaded->devices.data() != nullptr && loaded->constants.data() != nullptr &&
              loaded->counters.data() != nullptr;
  for (size_t i = 0; made && i < data.programs.size(); ++i) {
    loaded->counters[i] = runtime->metrics.Of(loaded->plan.name(), data.programs[i].name);
    made = loaded->counters[i] != nullptr;
  }
  if (!made) {
    loaded->devices = {};
    return Status::Error(Code::kOutOfMemory, "no host memory for the addresses of %zu buffers",
                         data.buffers.size());
  }
  for (uint32_t i = 0; i < loaded->devices.size(); ++i) {
    if ((runtime->local >> i & 1) == 0) continue;
    RONDO_RETURN_IF_ERROR(LoadDevice(runtime, loaded, i, stop));
    char text[128];
    std::snprintf(text, sizeof(text), "device %u: plan loaded, %" PRIu64 " bytes of weights allocated", i,
                  loaded->devices[i].weight_bytes);
    runtime->log(LogLevel::kInfo, text);
  }
  return Status::Ok();
}

}  // namespace

Result<DeviceAddress> AllocateOn(Device* device, uint64_t bytes, uint64_t alignment, const char* what,
                                 uint32_t index) {
  if (bytes == 0) return DeviceAddress{0};
  uint64_t free_bytes = 0, total_bytes = 0;
  RONDO_RETURN_IF_ERROR(device->MemoryInfo(&free_bytes, &total_bytes));
  if (bytes > free_bytes) {
    return Status::Error(Code::kOutOfMemory,
                         "device %u: %s of %" PRIu64 " bytes; %" PRIu64 " of %" PRIu64 " bytes are free",
                         index, what, bytes, free_bytes, total_bytes);
  }
  Result<DeviceAddress> address = device->Allocate(bytes, alignment);
  if (!address.ok()) return address.status().At("device %u: %s of %" PRIu64 " bytes", index, what, bytes);
  return address;
}

Result<LoadedPlan*> AcquirePlan(RuntimeImpl* runtime, const Plan& plan, StopSignal* stop) {
  RONDO_RETURN_IF_ERROR(plan.CheckUnchanged());  // before any use of the weights
  std::lock_guard<std::mutex> lock(runtime->mutex);
  for (LoadedPlan* loaded = runtime->loaded; loaded != nullptr; loaded = loaded->next) {
    if (loaded->plan.same(plan)) {
      ++loaded->sessions;
      return loaded;
    }
  }
  LoadedPlan* loaded = NewObject<LoadedPlan>(runtime->allocator, plan, runtime->allocator);
  if (loaded == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory to load a plan");
  Status status = Load(runtime, loaded, stop);
  if (status.ok()) status = plan.CheckUnchanged();  // checks again: the weights were copied meanwhile
  if (!status.ok()) {
    Unload(runtime, loaded);
    return status;
  }
  loaded->sessions = 1;
  runtime->metrics.plans.fetch_add(1, std::memory_order_relaxed);
  loaded->next = runtime->loaded;
  runtime->loaded = loaded;
  return loaded;
}

void ReleasePlan(RuntimeImpl* runtime, LoadedPlan* loaded) {
  std::lock_guard<std::mutex> lock(runtime->mutex);
  if (--loaded->sessions != 0) return;
  LoadedPlan** link = &runtime->loaded;
  while (*link != loaded) link = &(*link)->next;
  *link = loaded->next;
  Unload(runtime, loaded);
  runtime->metrics.plans.fetch_sub(1, std::memory_order_relaxed);
  runtime->log(LogLevel::kInfo, "plan unloaded with its last session");
}

}  // namespace rondo
