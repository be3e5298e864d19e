#include "runtime/session.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "runtime/host_memory.h"
#include "runtime/session_impl.h"
#include "runtime/text.h"

namespace rondo {

SessionUse::SessionUse(SessionImpl* session) : session_(session) {
  if (session->busy.exchange(true, std::memory_order_acquire)) {
    status_ = Status::Error(Code::kFailedPrecondition, "the session is in use by another call");
    return;
  }
  held_ = true;
  status_ = session->stuck;
}

SessionUse::~SessionUse() {
  if (held_) session_->busy.store(false, std::memory_order_release);
}

Status StickTo(SessionImpl* session, Status status) {
  if (!status.ok() && session->stuck.ok()) session->stuck = status;
  return status;
}

Status NoMemoryFor(const char* what) {
  return Status::Error(Code::kOutOfMemory, "no host memory for a session's %s", what);
}

namespace {

constexpr uint64_t RoundToPages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

Status MakeStreams(SessionImpl* session, SessionDevice* d) {
  uint32_t count = 1;
  for (const Program& program : session->plan.data().programs) {
    if (program.num_streams > count) count = program.num_streams;
  }
  d->streams = session->memory.New<Stream*>(count);
  if (d->streams.data() == nullptr) return NoMemoryFor("streams");
  for (Stream*& stream : d->streams) {
    RONDO_ASSIGN_OR_RETURN(stream, d->device->CreateStream());
    d->device->SetStop(stream, &session->stop);
  }
  if (count > 1) {
    RONDO_ASSIGN_OR_RETURN(d->order, d->device->CreateEvent());
  }
  return Status::Ok();
}

// Allocates arena and state in one block, since a GPU gives memory in large steps. Whole pages are zeroed:
// state begins with zeros, and no page must be mapped at the first run.
// `most`: what the chosen variants take on any device.
Status MakeMemory(SessionDevice* d, const DeviceBytes& needs, uint64_t most, uint32_t index,
                  Metrics* metrics) {
  const uint64_t state = RoundToPages(needs.state);
  const uint64_t arena = std::min(RoundToPages(needs.arena), most - state), bytes = arena + state;
  RONDO_ASSIGN_OR_RETURN(const DeviceAddress block,
                         AllocateOn(d->device, bytes, kPageBytes, "the session's arena and state", index));
  d->arena.address = block;
  d->arena.bytes = arena;
  d->state.address = block + arena;
  d->state.bytes = state;
  metrics->arena_bytes.fetch_add(arena, std::memory_order_relaxed);
  metrics->state_bytes.fetch_add(state, std::memory_order_relaxed);
  return bytes == 0 ? Status::Ok() : d->device->Fill(block, 0, bytes, d->streams[0]);
}

// The largest copies of any program's ports on the device, including those of state that is read or written
// by name.
CopyNeeds NeedsOf(const PlanData& data, uint32_t device) {
  CopyNeeds most;
  const auto bytes_of = [&](uint32_t buffer) {
    const Buffer& b = data.buffers[buffer];
    return b.device != device ? 0 : (b.bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  };
  for (const Program& program : data.programs) {
    uint64_t in = 0, out = 0;
    for (const Port& port : program.inputs) {
      in += bytes_of(port.buffer);
      for (uint32_t replica : port.replicas) in += bytes_of(replica);
    }
    for (const Port& port : program.outputs) out += bytes_of(port.buffer);
    if (in > most.in) most.in = in;
    if (out > most.out) most.out = out;
    if (program.outputs.size() > most.outputs) most.outputs = static_cast<uint32_t>(program.outputs.size());
  }
  return most;
}

Status MakeDevice(SessionImpl* session, uint32_t index) {
  SessionDevice* d = &session->devices[index];
  d->device = session->loaded->devices[index].device;
  d->module = session->loaded->devices[index].module;
  RONDO_RETURN_IF_ERROR(MakeStreams(session, d));
  Metrics& metrics = session->runtime_impl->metrics;
  RONDO_ASSIGN_OR_RETURN(d->staging_bytes,
                         d->device->ReserveStaging(d->streams[0], NeedsOf(session->plan.data(), index)));
  metrics.staging_bytes.fetch_add(d->staging_bytes, std::memory_order_relaxed);
  RONDO_RETURN_IF_ERROR(
      MakeMemory(d, session->plan.data().requirements.devices[index], session->bytes, index, &metrics));
  uint32_t failed_step = kNone;
  return d->device->Synchronize(d->streams[0], &failed_step);
}

Status PlaceBuffers(SessionImpl* session) {
  Span<const Buffer> buffers = session->plan.data().buffers;
  session->addresses = session->memory.New<DeviceAddress>(buffers.size());
  if (session->addresses.data() == nullptr) return NoMemoryFor("buffers");
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = buffers[i];
    const SessionDevice& d = session->devices[b.device];
    switch (b.kind) {
      case BufferKind::kConstant: session->addresses[i] = session->loaded->constants[i]; break;
      case BufferKind::kState: session->addresses[i] = d.state.address + b.offset; break;
      default: session->addresses[i] = d.arena.address + b.offset; break;
    }
  }
  return Status::Ok();
}

Status Supports(SessionImpl* session) { return session->runtime_impl->Supports(session->plan, true); }

// Chooses what each program runs: of itself and its variants, the first that keeps to session->most_bytes.
// Comes to the variants before their programs, and to the smallest first.
Status Choose(SessionImpl* session) {
  const PlanData& data = session->plan.data();
  uint64_t state = 0;
  for (const DeviceBytes& device : data.requirements.devices) state = std::max(state, device.state);
  session->programs = session->memory.New<ArmedProgram>(data.programs.size());
  if (session->programs.data() == nullptr) return NoMemoryFor("programs");
  uint64_t most = 0;
  for (auto p = static_cast<uint32_t>(data.programs.size()); p-- > 0;) {
    const Program& program = data.programs[p];
    const bool last = program.variant_of == kNone;
    ArmedProgram& armed = session->programs[last ? p : program.variant_of];
    const uint64_t bytes = RoundToPages(program.arena_bytes) + RoundToPages(state);
    if (bytes <= session->most_bytes) {
      armed.runs = p;
      armed.bytes = bytes;
    } else {
      session->why_smaller = Status::Error(
          Code::kOutOfMemory,
          "program \"%.*s\": arena and state of %" PRIu64 " bytes; the limit is %" PRIu64
          ": raise it, or compile with --variants",
          static_cast<int>(program.name.size()), program.name.data(), bytes, session->most_bytes);
      if (armed.runs == kNone) return session->why_smaller;
    }
    if (last) most = std::max(most, armed.bytes);
  }
  session->bytes = most;
  return Status::Ok();
}

// Prepares everything except the graphs.
Status Prepare(SessionImpl* session) {
  RONDO_RETURN_IF_ERROR(Choose(session));
  RONDO_ASSIGN_OR_RETURN(session->loaded, AcquirePlan(session->runtime_impl, session->plan, &session->stop));
  session->devices = session->memory.New<SessionDevice>(session->plan.data().requirements.devices.size());
  if (session->devices.data() == nullptr) return NoMemoryFor("devices");
  {
    const Quiet quiet(session->runtime_impl);
    for (uint32_t i = 0; i < session->devices.size(); ++i) {
      if (Has(session->runtime_impl->local, i)) RONDO_RETURN_IF_ERROR(MakeDevice(session, i));
    }
  }
  return PlaceBuffers(session);
}

// Returns `so_far`. With several processes, returns an error if another process has an error or another plan.
Status Agree(SessionImpl* session, const Status& so_far) {
  uint64_t contents = session->plan.contents_hash();
  for (const Program& program : session->plan.data().programs) {
    for (uint64_t certificate : program.certificates) contents = contents * 31 + certificate;
  }
  for (const ArmedProgram& armed : session->programs) contents = contents * 31 + armed.runs;
  return session->runtime_impl->driver->Agree(so_far, session->plan.name(), contents, &session->stop);
}

Status Build(SessionImpl* session) {
  constexpr Status (*kParts[])(SessionImpl*) = {Supports, Prepare, Arm};
  for (Status (*part)(SessionImpl*) : kParts) RONDO_RETURN_IF_ERROR(Agree(session, part(session)));
  return Status::Ok();
}

void DestroyDevice(SessionDevice* d, Metrics* metrics) {
  if (d->device == nullptr) return;
  if (d->order != nullptr) d->device->DestroyEvent(d->order);
  for (Stream* stream : d->streams) {
    if (stream != nullptr) d->device->DestroyStream(stream);
  }
  const uint64_t bytes = d->arena.bytes + d->state.bytes;
  if (bytes != 0) d->device->Free(d->arena.address, bytes);
  metrics->state_bytes.fetch_sub(d->state.bytes, std::memory_order_relaxed);
  metrics->staging_bytes.fetch_sub(d->staging_bytes, std::memory_order_relaxed);
  metrics->arena_bytes.fetch_sub(d->arena.bytes, std::memory_order_relaxed);
}

void Destroy(SessionImpl* session) {
  if (session == nullptr) return;
  session->runtime_impl->queue.Drain(session);
  if (session->abandoned()) {
    session->runtime_impl->log(LogLevel::kError, "a session with a lost device is left as it is");
    return;
  }
  session->runtime_impl->log(LogLevel::kDebug, "session destroyed");
  {
    const Quiet quiet(session->runtime_impl);
    Disarm(session);
    for (SessionDevice& d : session->devices) {
      DestroyDevice(&d, &session->runtime_impl->metrics);
    }
    if (session->loaded != nullptr) ReleasePlan(session->runtime_impl, session->loaded);
  }
  session->runtime_impl->sessions.fetch_sub(1, std::memory_order_acq_rel);
  HostAllocator allocator = session->allocator;
  DeleteObject(allocator, session);
}

void ListStates(const PlanData& data, Text* text) {
  size_t states = 0, seen = 0;
  for (const Buffer& b : data.buffers) states += b.kind == BufferKind::kState;
  text->Add(states == 0 ? "; it has none" : "; its state is ");
  for (const Buffer& b : data.buffers) {
    if (b.kind == BufferKind::kState && !text->AddItem(seen++, states, b.name)) break;
  }
}

// The state that has the name `name`, itself or by a port of any program; kNone if there is none.
uint32_t FindAnyState(const PlanData& data, std::string_view name) {
  for (const Program& program : data.programs) {
    for (Span<const Port> ports : {program.inputs, program.outputs}) {
      for (const Port& port : ports) {
        if (port.is_state && port.name == name) return port.buffer;
      }
    }
  }
  for (uint32_t i = 0; i < data.buffers.size(); ++i) {
    if (data.buffers[i].kind == BufferKind::kState && data.buffers[i].name == name) return i;
  }
  return kNone;
}

// As FindAnyState, for a device of this process.
Result<uint32_t> FindState(const SessionImpl* session, std::string_view name) {
  const PlanData& data = session->plan.data();
  const uint32_t found = FindAnyState(data, name);
  if (found != kNone && session->devices[data.buffers[found].device].device != nullptr) return found;
  Text text;
  text.Add(found == kNone ? "the plan has no state called " : "another process's device has state ");
  text.AddName(name);
  if (found == kNone) ListStates(data, &text);
  return Status::Error(Code::kNotFound, "%s", text.get());
}

// As FindState, and checks that a copy of `bytes` at `data` is the whole state.
Result<uint32_t> FindStateToCopy(const SessionImpl* session, std::string_view name, const void* data,
                                 uint64_t bytes) {
  RONDO_ASSIGN_OR_RETURN(uint32_t index, FindState(session, name));
  const Buffer& b = session->plan.data().buffers[index];
  if (bytes == b.bytes && (data != nullptr || bytes == 0)) return index;
  const int size = static_cast<int>(name.size());
  if (data == nullptr) {
    return Status::Error(Code::kInvalidArgument, "state \"%.*s\": its data is null", size, name.data());
  }
  return Status::Error(Code::kInvalidArgument,
                       "state \"%.*s\" has %" PRIu64 " bytes, but %" PRIu64 " bytes were given", size,
                       name.data(), b.bytes, bytes);
}

// Whether part of the memory at `data` belongs to the session.
bool IsOwn(const SessionImpl* session, const void* data, uint64_t bytes) {
  const auto address = reinterpret_cast<DeviceAddress>(data);
  for (const SessionDevice& d : session->devices) {
    for (const DeviceRegion& own : {d.arena, d.state}) {
      if (address < own.address + own.bytes && own.address < address + bytes) return true;
    }
  }
  return false;
}

// Copies to the state, or from it.
Status CopyState(SessionImpl* session, std::string_view name, void* data, uint64_t bytes, bool in) {
  SessionUse use(session);
  RONDO_RETURN_IF_ERROR(use.status());
  RONDO_ASSIGN_OR_RETURN(uint32_t index, FindStateToCopy(session, name, data, bytes));
  if (!in && IsOwn(session, data, bytes)) {
    return Status::Error(Code::kInvalidArgument,
                         "state \"%.*s\" cannot be read into the session's own memory",
                         static_cast<int>(name.size()), name.data());
  }
  if (bytes == 0) return Status::Ok();
  const SessionDevice& d = session->devices[session->plan.data().buffers[index].device];
  const DeviceAddress state = session->addresses[index];
  Status status = in ? d.device->CopyIn(state, data, bytes, d.streams[0])
                     : d.device->CopyOut(data, state, bytes, d.streams[0]);
  uint32_t failed_step = kNone;
  if (status.ok()) status = d.device->Synchronize(d.streams[0], &failed_step);
  return use.Stick(status);
}

// Copies the positions of state `index` that `only` names, or the whole state.
Status CopyPositions(const SessionImpl* session, const SessionImpl* from, uint32_t index, StatePositions only,
                     uint64_t* copied) {
  const Buffer& b = session->plan.data().buffers[index];
  const SessionDevice& d = session->devices[b.device];
  const int axis = b.shape.rank - 2;
  uint64_t rows = 1, bytes = b.bytes;
  if (axis > 0 && b.shape[axis] == only.length) {
    for (int i = 0; i < axis; ++i) rows *= static_cast<uint64_t>(b.shape[i]);
    bytes = b.bytes / (rows * static_cast<uint64_t>(only.length)) * static_cast<uint64_t>(only.first);
  }
  if (bytes == 0 || d.device == nullptr) return Status::Ok();
  for (uint64_t at = 0; at < b.bytes; at += b.bytes / rows, *copied += bytes) {
    RONDO_RETURN_IF_ERROR(
        d.device->Copy(session->addresses[index] + at, from->addresses[index] + at, bytes, d.streams[0]));
  }
  return Status::Ok();
}

// Copies the states of each device, all at once or one by one.
Status CopyStates(const SessionImpl* session, const SessionImpl* from, StatePositions only,
                  uint64_t* copied) {
  const Span<const Buffer> buffers = session->plan.data().buffers;
  for (uint32_t index = 0; only.length > 0 && index < buffers.size(); ++index) {
    if (buffers[index].kind == BufferKind::kState && buffers[index].aliases == kNone)
      RONDO_RETURN_IF_ERROR(CopyPositions(session, from, index, only, copied));
  }
  for (size_t i = 0; only.length == 0 && i < session->devices.size(); ++i) {
    const SessionDevice& d = session->devices[i];
    if (d.state.bytes == 0) continue;
    *copied += d.state.bytes;
    RONDO_RETURN_IF_ERROR(
        d.device->Copy(d.state.address, from->devices[i].state.address, d.state.bytes, d.streams[0]));
  }
  return Status::Ok();
}

// Sets all state to that of `from`, which the caller holds, or to zeros if `from` is null.
Status SetStates(SessionImpl* session, const SessionImpl* from, StatePositions only, uint64_t* copied) {
  SessionUse use(session);
  if (!use.held() || !IsStop(use.status().code())) RONDO_RETURN_IF_ERROR(use.status());
  session->stuck = Status();
  if (from != nullptr) RONDO_RETURN_IF_ERROR(use.Stick(CopyStates(session, from, only, copied)));
  for (const SessionDevice& d : session->devices) {
    const auto& [to, bytes] = d.state;
    if (bytes == 0) continue;
    if (from == nullptr) RONDO_RETURN_IF_ERROR(use.Stick(d.device->Fill(to, 0, bytes, d.streams[0])));
    uint32_t failed_step = kNone;
    RONDO_RETURN_IF_ERROR(use.Stick(d.device->Synchronize(d.streams[0], &failed_step)));
  }
  return Status::Ok();
}

}  // namespace

Status FindChosen(const SessionImpl* session, uint32_t* program) {
  const uint32_t runs = *program < session->programs.size() ? session->programs[*program].runs : kNone;
  if (runs == kNone) {
    return Status::Error(Code::kInvalidArgument, "program %u does not exist, the plan has %zu", *program,
                         size_t{CountPrograms(session->plan.data())});
  }
  *program = runs;
  return Status::Ok();
}

Result<Session> Session::Create(const Runtime& runtime, const Plan& plan, const SessionOptions& options) {
  if (!runtime.valid()) return Status::Error(Code::kInvalidArgument, "the runtime is an empty handle");
  if (!plan.valid()) return Status::Error(Code::kInvalidArgument, "the plan is an empty handle");
  RuntimeImpl* shared = runtime.impl_;
  Status why;  // the error of the first try
  uint64_t most = options.memory_limit != 0 ? options.memory_limit : ~uint64_t{0};
  for (;;) {
    SessionImpl* impl = NewObject<SessionImpl>(shared->allocator, shared->allocator, runtime, shared, plan);
    if (impl == nullptr) return NoMemoryFor("handle");
    shared->sessions.fetch_add(1, std::memory_order_acq_rel);
    Session session(impl);
    impl->run_timeout_ns = options.run_timeout_ns;
    impl->watchdog_ns = options.watchdog_ns != 0 ? options.watchdog_ns : kDefaultWatchdogNs;
    impl->most_bytes = most;
    impl->stop.Begin(options.timeout_ns);
    Status built = Build(impl);
    impl->stop.End();
    if (!why.ok()) {
      impl->why_smaller = why;
    } else {
      why = built;
    }
    // Over several processes all would have to choose the same.
    most = impl->bytes - 1;
    if (built.code() == Code::kOutOfMemory && impl->bytes != 0 && shared->local == ~uint64_t{0}) continue;
    shared->log(built.ok() ? LogLevel::kDebug : LogLevel::kError,
                built.ok() ? "session created" : why.message());
    if (!built.ok()) return why;
    return session;
  }
}

Session::~Session() { Destroy(impl_); }

const Plan& Session::plan() const { return impl_->plan; }

uint32_t Session::chosen(uint32_t program) const {
  return FindChosen(impl_, &program).ok() ? program : kNone;
}

const Status& Session::why_smaller() const { return impl_->why_smaller; }

bool Session::abandoned() const { return impl_->abandoned(); }

bool Session::idle() const { return !impl_->busy.load(std::memory_order_acquire); }

Status Session::ResetState() { return SetStates(impl_, nullptr, {}, nullptr); }

Status Session::CopyStatesFrom(const Session& other, StatePositions only, uint64_t* copied) {
  uint64_t unasked = 0;
  if (copied == nullptr) copied = &unasked;
  *copied = 0;
  if (only.first < 0 || only.first > only.length) {
    return Status::Error(Code::kInvalidArgument, "%" PRId64 " of %" PRId64 " positions cannot be copied",
                         only.first, only.length);
  }
  if (other.impl_ == impl_) return Status::Ok();
  SessionUse use(other.impl_);
  RONDO_RETURN_IF_ERROR(use.status());
  if (other.impl_->loaded != impl_->loaded) {
    return Status::Error(Code::kInvalidArgument,
                         "states are copied between sessions of one plan and runtime only");
  }
  return SetStates(impl_, other.impl_, only, copied);
}

Status Session::WriteState(std::string_view name, const void* data, uint64_t bytes) {
  return CopyState(impl_, name, const_cast<void*>(data), bytes, true);
}

Status Session::ReadState(std::string_view name, void* data, uint64_t bytes) {
  return CopyState(impl_, name, data, bytes, false);
}

Result<void*> Session::StateAddress(std::string_view name) const {
  DriverInfo info = impl_->runtime.driver_info();
  if (!info.host_memory) {
    return Status::Error(Code::kUnsupported, "state lies in the memory of driver \"%s\", not in this process",
                         info.name);
  }
  RONDO_ASSIGN_OR_RETURN(uint32_t index, FindState(impl_, name));
  return reinterpret_cast<void*>(impl_->addresses[index]);
}

Status Session::status() const { return impl_->stuck; }

Device* Session::device(uint32_t index) const { return impl_->devices[index].device; }
Stream* Session::stream(uint32_t device) const { return impl_->devices[device].streams[0]; }
DeviceRegion Session::arena(uint32_t device) const { return impl_->devices[device].arena; }
DeviceRegion Session::state(uint32_t device) const { return impl_->devices[device].state; }
DeviceAddress Session::BufferAddress(uint32_t buffer) const { return impl_->addresses[buffer]; }

}  // namespace rondo
