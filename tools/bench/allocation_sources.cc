#include "tools/bench/allocation_sources.h"

#include <link.h>
#include <unwind.h>

#include <atomic>
#include <cstring>

#include "runtime/testing/allocation_counter.h"

namespace rondo::tools {
namespace {

enum class Where : uint8_t { kOwn, kLanguage, kOther };

// One loaded segment of executable code, and whose it is.
struct Segment {
  uintptr_t first, end;
  Where where;
};
constexpr size_t kMostSegments = 1024;
Segment segments[kMostSegments];
size_t num_segments = 0;

std::atomic<uint64_t> own{0}, others{0};

Where KindOf(const char* path) {
  const char* name = std::strrchr(path, '/') == nullptr ? path : std::strrchr(path, '/') + 1;
  for (const char* language :
       {"libc.", "libc-", "libstdc++", "libgcc_s", "ld-linux", "libpthread", "libdl"}) {
    if (std::strncmp(name, language, std::strlen(language)) == 0) return Where::kLanguage;
  }
  return *name == 0 || std::strstr(name, "mimalloc") != nullptr ? Where::kOwn : Where::kOther;
}

int AddSegments(dl_phdr_info* info, size_t, void*) {
  const Where where = KindOf(info->dlpi_name);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0 || num_segments == kMostSegments) continue;
    const uintptr_t first = info->dlpi_addr + header.p_vaddr;
    segments[num_segments++] = {first, first + header.p_memsz, where};
  }
  return 0;
}

Where Find(uintptr_t address) {
  for (size_t i = 0; i < num_segments; ++i) {
    if (address >= segments[i].first && address < segments[i].end) return segments[i].where;
  }
  return Where::kOwn;
}

// State of a walk up the stack: it skips the frames up to `caller`, then stops outside the language's
// libraries.
struct Walk {
  uintptr_t caller;
  bool reached = false;
  Where found = Where::kOwn;
};

_Unwind_Reason_Code Step(_Unwind_Context* context, void* data) {
  Walk* walk = static_cast<Walk*>(data);
  const uintptr_t address = _Unwind_GetIP(context);
  walk->reached |= address == walk->caller;
  if (!walk->reached) return _URC_NO_REASON;
  walk->found = Find(address - 1);
  return walk->found == Where::kLanguage ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void Observe(const void* caller) {
  Walk walk{reinterpret_cast<uintptr_t>(caller)};
  walk.found = Find(walk.caller - 1);
  if (walk.found == Where::kLanguage) {
    walk.found = Where::kOwn;
    _Unwind_Backtrace(Step, &walk);
  }
  (walk.found == Where::kOther ? others : own).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void BeginAllocationSources() {
  num_segments = 0;
  dl_iterate_phdr(AddSegments, nullptr);
  own = others = 0;
  ObserveAllocations(Observe);
}

AllocationSources EndAllocationSources() {
  ObserveAllocations(nullptr);
  return {own.load(), others.load()};
}

}  // namespace rondo::tools
