#include "drivers/host/stream.h"

#include <chrono>
#include <cstring>
#include <new>

namespace rondo::host {
namespace {

struct Launching {
  const PartProgram* part;
  Worker worker;
  int64_t scratch_bytes;
};

void RunShare(void* context, uint32_t share, uint32_t shares) {
  const Launching& launching = *static_cast<const Launching*>(context);
  Worker worker = launching.worker;
  worker.scratch += launching.scratch_bytes * share;
  const int64_t tasks = launching.part->tasks;
  const int64_t first = tasks * share / shares, last = tasks * (share + 1) / shares;
  if (first < last) launching.part->run(*launching.part, worker, first, last);
}

}  // namespace

uint64_t Nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

HostStream::~HostStream() {
  for (ScratchSet* set = scratch_.load(); set != nullptr;) {
    ScratchSet* older = set->older;
    allocator_.deallocate(allocator_.user, set->memory, static_cast<size_t>(set->bytes) * pool_.threads());
    delete set;
    set = older;
  }
}

Status HostStream::Reserve(int64_t bytes) {
  bytes = (bytes + 4095) / 4096 * 4096 + 4096;
  ScratchSet* now = scratch_.load();
  if (now != nullptr && now->bytes >= bytes) return Status::Ok();
  ScratchSet* set = new (std::nothrow) ScratchSet;
  const size_t total = static_cast<size_t>(bytes) * pool_.threads();
  char* memory =
      set == nullptr ? nullptr : static_cast<char*>(allocator_.allocate(allocator_.user, total, 4096));
  if (memory == nullptr) {
    delete set;
    return Status::Error(Code::kOutOfMemory, "host driver: no memory for %zu bytes of scratch", total);
  }
  set->memory = memory;
  set->bytes = bytes;
  set->older = now;  // a launch under way may still use it
  scratch_.store(set);
  return Status::Ok();
}

bool HostStream::Launch(const KernelProgram& kernel, uint32_t index, const DeviceAddress* addresses,
                        uint32_t step) {
  const ScratchSet* scratch = scratch_.load(std::memory_order_acquire);
  Launching launching;
  launching.worker.addresses = addresses;
  launching.worker.fault = &fault_;
  launching.worker.step = step;
  launching.worker.kernel = index;
  for (const PartProgram& part : kernel.parts) {
    if (scratch == nullptr || part.scratch_bytes > scratch->bytes) return false;
    launching.part = &part;
    launching.worker.scratch = scratch->memory;
    launching.scratch_bytes = scratch->bytes;
    const double worth = part.work / work_per_thread_;
    uint32_t shares = worth >= kMaxThreads ? kMaxThreads : static_cast<uint32_t>(worth) + 1;
    if (static_cast<int64_t>(shares) > part.tasks) shares = static_cast<uint32_t>(part.tasks);
    if (shares <= 1) {
      part.run(part, launching.worker, 0, part.tasks);
    } else {
      pool_.Run(RunShare, &launching, shares);
    }
  }
  return true;
}

void HostStream::Replay(const HostGraph& graph) {
  for (const GraphEntry& entry : graph.entries) {
    switch (entry.kind) {
      case GraphEntry::Kind::kLaunch:
        Launch(*entry.program, entry.kernel, graph.addresses.data() + entry.first_address, entry.step);
        break;
      case GraphEntry::Kind::kCopy:
        std::memmove(reinterpret_cast<void*>(entry.to), reinterpret_cast<const void*>(entry.from),
                     entry.bytes);
        break;
      case GraphEntry::Kind::kFill:
        std::memset(reinterpret_cast<void*>(entry.to), entry.byte, entry.bytes);
        break;
      case GraphEntry::Kind::kTime: entry.event->nanoseconds = Nanoseconds(); break;
    }
  }
}

Status HostStream::TakeFault(uint32_t* failed_step) {
  if (fault_.state.load() != 2) return Status::Ok();
  const HostFault fault = fault_.fault;
  fault_.state.store(0);
  if (failed_step != nullptr) *failed_step = fault.step;
  return Status::Error(
      Code::kOutOfRange, "step %u: index %lld of operand %u of kernel %u is outside [0, %lld)", fault.step,
      static_cast<long long>(fault.value), fault.operand, fault.kernel, static_cast<long long>(fault.extent));
}

}  // namespace rondo::host
