#include "drivers/host/stream.h"

#include <chrono>
#include <cstring>
#include <numeric>

namespace rondo::host {
namespace {

struct Launching {
  const PartProgram* part;
  Worker worker;
  int64_t scratch_bytes;
  uint32_t shares = 1;  // actual number
};

void RunShare(void* context, uint32_t share, uint32_t shares) {
  Launching& launching = *static_cast<Launching*>(context);
  if (share == 0) launching.shares = shares;
  Worker worker = launching.worker;
  worker.scratch += launching.scratch_bytes * share;
  if (worker.range != nullptr) worker.range += kRangeBytes * share;
  const int64_t tasks = launching.part->tasks;
  const int64_t first = tasks * share / shares, last = tasks * (share + 1) / shares;
  if (first < last) launching.part->run(*launching.part, worker, first, last);
}

bool IsSkipped(const PartProgram& part, const DeviceAddress* addresses) {
  for (const Condition& c : part.when) {
    const auto* const value = reinterpret_cast<const uint8_t*>(addresses[c.param]) + c.offset;
    if ((*value != 0) != c.holds) return true;
  }
  return false;
}

}  // namespace

bool StopNow(Worker& worker) {
  constexpr uint32_t kLooksAClock = 16;
  return worker.stop->Known() || (++worker.looks % kLooksAClock == 0 && worker.stop->Asked());
}

uint64_t Nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

HostStream::~HostStream() { ReleaseScratch(); }

void HostStream::ReleaseScratch() {
  if (scratch_ == nullptr) return;
  allocator_.deallocate(allocator_.user, scratch_, static_cast<size_t>(scratch_bytes_) * pool_.threads());
  scratch_ = nullptr;
  scratch_bytes_ = 0;
}

Status HostStream::Reserve(int64_t bytes) {
  if (bytes <= scratch_bytes_) return Status::Ok();
  bytes = (bytes + 4095) / 4096 * 4096 + 4096;
  ReleaseScratch();
  const size_t total = static_cast<size_t>(bytes) * pool_.threads();
  scratch_ = static_cast<char*>(allocator_.allocate(allocator_.user, total, 4096));
  if (scratch_ == nullptr) {
    return Status::Error(Code::kOutOfMemory, "host driver: no memory for %zu bytes of scratch", total);
  }
  scratch_bytes_ = bytes;
  return Status::Ok();
}

void HostStream::Launch(const KernelProgram& kernel, uint32_t index, const DeviceAddress* addresses,
                        uint32_t step) {
  plan_ = kernel.plan;
  Launching launching;
  launching.worker.addresses = addresses;
  launching.worker.fault = &fault_;
  launching.worker.step = step;
  launching.worker.kernel = index;
  launching.worker.stop = stop_;
  launching.worker.range = range_;
  for (const PartProgram* const each : kernel.parts) {
    const PartProgram& part = *each;
    if (IsSkipped(part, addresses)) continue;
    launching.part = &part;
    launching.worker.scratch = launching.worker.shared = scratch_;
    launching.scratch_bytes = scratch_bytes_;
    uint32_t shares = sharing_.Shares(part.work);
    if (static_cast<int64_t>(shares) > part.tasks) shares = static_cast<uint32_t>(part.tasks);
    for (int phase = 0; phase < part.phases && !stop_->Known(); ++phase) {
      launching.worker.phase = phase;
      if (phase == 0 && known_range_ != nullptr) {
        launching.shares = 1;
        part.take_range(part, launching.worker, known_range_, range_workers_);
      } else if (shares <= 1) {
        RunShare(&launching, 0, 1);
      } else {
        pool_.Run(RunShare, &launching, shares);
      }
      if (part.end_phase != nullptr)
        part.end_phase(part, launching.worker, launching.shares, launching.scratch_bytes);
    }
    if (stop_->Known()) break;
  }
  if (range_ != nullptr) range_workers_ = launching.shares;
}

Status HostStream::Try(const GraphEntry& entry, const DeviceAddress* addresses) {
  const bool start = entry.kind == GraphEntry::Kind::kStart, wait = entry.kind == GraphEntry::Kind::kWait;
  RONDO_RETURN_IF_ERROR(faults_.Before(start  ? HostCall::kStartCollective
                                       : wait ? HostCall::kWaitCollective
                                              : HostCall::kStep,
                                       entry.step));
  switch (entry.kind) {
    case GraphEntry::Kind::kLaunch: Launch(*entry.program, entry.kernel, addresses, entry.step); break;
    case GraphEntry::Kind::kCopy:
      if (entry.bytes == 0) break;
      std::memmove(reinterpret_cast<void*>(entry.to), reinterpret_cast<const void*>(entry.from), entry.bytes);
      break;
    case GraphEntry::Kind::kFill:
      if (entry.bytes != 0) std::memset(reinterpret_cast<void*>(entry.to), entry.byte, entry.bytes);
      break;
    case GraphEntry::Kind::kStart:
      return reinterpret_cast<HostCollectives*>(entry.part.collectives)
          ->Start(entry.part, {entry.from, entry.to}, &collectives_);
    case GraphEntry::Kind::kWait:
      return reinterpret_cast<HostCollectives*>(entry.part.collectives)->Wait(entry.part);
    case GraphEntry::Kind::kCall: return entry.call->Run(addresses);
    case GraphEntry::Kind::kTime: entry.event->nanoseconds = Nanoseconds(); break;
  }
  return Status::Ok();
}

bool HostStream::Execute(const GraphEntry& entry, const DeviceAddress* addresses) {
  if (!error_.ok()) return false;
  if (!stop_->Asked()) error_ = Try(entry, addresses);
  if (error_.ok() && stop_->Known()) error_ = stop_->status();
  if (error_.ok()) return true;
  error_step_ = entry.step;
  return false;
}

void HostStream::Replay(HostGraph* graph) {
  if (faults_.reorder()) return ReplayInRandomOrder(graph);
  known_range_ = range_ = nullptr;
  for (size_t i = 0; i < graph->entries.size(); ++i) {
    const GraphEntry& entry = graph->entries[i];
    range_ = graph->WritesWhatIsRead(i) ? graph->ranges.data() : nullptr;
    if (!Execute(entry, graph->addresses.data() + entry.first_address)) break;
    known_range_ = range_;
  }
  known_range_ = range_ = nullptr;
}

void HostStream::ReplayInRandomOrder(HostGraph* graph) {
  ReplayOrder& order = graph->order;
  order.ready.clear();
  for (uint32_t i = 0; i < graph->entries.size(); ++i) {
    order.left[i] = static_cast<uint32_t>(graph->entries[i].num_before);
    if (order.left[i] == 0) order.ready.push_back(i);
  }
  while (!order.ready.empty()) {
    uint32_t& place = order.ready[faults_.Random() % order.ready.size()];
    const uint32_t next = place;
    place = order.ready.back();
    order.ready.pop_back();
    const GraphEntry& entry = graph->entries[next];
    if (!Execute(entry, graph->addresses.data() + entry.first_address)) return;
    for (uint32_t k = order.first_after[next]; k < order.first_after[next + 1]; ++k) {
      if (--order.left[order.after[k]] == 0) order.ready.push_back(order.after[k]);
    }
  }
}

Status HostStream::TakeFault(uint32_t* failed_step) {
  failed_assertion_ = kNone;
  if (!error_.ok()) {
    const Status error = error_;
    error_ = Status();
    fault_.state.store(0);
    if (failed_step != nullptr) *failed_step = error_step_;
    return error;
  }
  if (fault_.state.load() != 2) return Status::Ok();
  const HostFault fault = fault_.fault;
  fault_.state.store(0);
  if (failed_step != nullptr) *failed_step = fault.step;
  if (fault.assertion >= 0) {
    failed_assertion_ = static_cast<uint32_t>(fault.assertion);
    return NotFinite(*plan_, fault.step, failed_assertion_, fault.seen);
  }
  return Status::Error(Code::kOutOfRange, "index %lld of operand %u of kernel %u is outside [0, %lld)",
                       static_cast<long long>(fault.value), fault.operand, fault.kernel,
                       static_cast<long long>(fault.extent));
}

// A start is enqueued after the stream's work so far and, to keep the order of collectives, after the
// previous start; the stream does not wait for it. A wait comes after its start, in whichever stream that
// was.
bool HostGraph::Append(HostStream* stream, GraphEntry entry, StepKind kind) {
  const uint32_t index = static_cast<uint32_t>(entries.size());
  entry.first_before = before.size();
  for (uint32_t earlier : stream->last) before.push_back(earlier);
  if (entry.kind == GraphEntry::Kind::kStart) {
    if (last_start != kNone) before.push_back(last_start);
    last_start = index;
  } else {
    for (uint32_t i = 0; entry.kind == GraphEntry::Kind::kWait && i < index; ++i) {
      const bool starts_it = entries[i].kind == GraphEntry::Kind::kStart &&
                             entries[i].part.sync_point == entry.part.sync_point &&
                             entries[i].part.collectives == entry.part.collectives;
      if (starts_it) before.push_back(i);
    }
    stream->last.clear();
    stream->last.push_back(index);
  }
  entry.num_before = before.size() - entry.first_before;
  if (entry.program != nullptr && entry.program->scratch_bytes > scratch_bytes) {
    scratch_bytes = entry.program->scratch_bytes;
  }
  if (!before.ok() || !stream->last.ok() || !entries.push_back(entry)) return false;
  if (entry.kind == GraphEntry::Kind::kTime) return true;
  return entry_of.push_back(index) && nodes.push_back({entry.step, kind});
}

namespace {

// The only part of a launch; null if the entry is no launch, or has several parts.
const PartProgram* OnlyPart(const GraphEntry& entry) {
  const bool one = entry.kind == GraphEntry::Kind::kLaunch && entry.program->parts.size() == 1;
  return one ? entry.program->parts[0] : nullptr;
}

DeviceAddress StartOf(const Access& access, const DeviceAddress* addresses) {
  return addresses[access.param] + static_cast<uint64_t>(access.offset) * access.size;
}

}  // namespace

bool HostGraph::FindRanges(uint32_t threads) {
  bool any = false;
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    const PartProgram *const writer = OnlyPart(entries[i]), *const reader = OnlyPart(entries[i + 1]);
    if (writer == nullptr || reader == nullptr || writer->written == nullptr ||
        reader->take_range == nullptr || !writer->when.empty() || !reader->when.empty())
      continue;
    entries[i].gives_range = writer->nest.points[1] * writer->nest.points[2] == reader->nest.points[1];
    any |= entries[i].gives_range;
  }
  if (any) ranges = GrowingList<char>::Filled(threads * static_cast<size_t>(kRangeBytes), 0);
  return ranges.ok();
}

bool HostGraph::WritesWhatIsRead(size_t index) const {
  if (!entries[index].gives_range) return false;
  const PartProgram &writer = *OnlyPart(entries[index]), &reader = *OnlyPart(entries[index + 1]);
  return StartOf(*writer.written, addresses.data() + entries[index].first_address) ==
         StartOf(*reader.ranged, addresses.data() + entries[index + 1].first_address);
}

bool HostGraph::PrepareOrder() {
  const size_t count = entries.size();
  order.first_after = GrowingList<uint32_t>::Filled(count + 2, 0);
  order.after = GrowingList<uint32_t>::Filled(before.size(), 0);
  order.left = GrowingList<uint32_t>::Filled(count, 0);
  order.ready = GrowingList<uint32_t>::Filled(count, 0);
  if (!order.first_after.ok() || !order.after.ok() || !order.left.ok() || !order.ready.ok()) return false;
  for (uint32_t earlier : before) ++order.first_after[earlier + 2];
  std::partial_sum(order.first_after.begin(), order.first_after.end(), order.first_after.begin());
  for (uint32_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < entries[i].num_before; ++k) {
      order.after[order.first_after[before[entries[i].first_before + k] + 1]++] = i;
    }
  }
  return true;
}

}  // namespace rondo::host
