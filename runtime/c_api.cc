// The C interface to errors, runtimes and sessions: checks arguments, widens structs of other versions, and
// turns Statuses into error objects.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "core/driver_handle.h"
#include "runtime/c_error.h"
#include "runtime/c_handles.h"
#include "runtime/host_memory.h"
#include "runtime/new_error.h"

using rondo::Code;
using rondo::NullError;
using rondo::Refuse;
using rondo::Result;
using rondo::SessionUse;
using rondo::SizeError;
using rondo::Span;
using rondo::Status;
using rondo::ToError;
using rondo::Widen;

static_assert(RONDO_MAX_RANK == rondo::kMaxRank);
static_assert(RONDO_E5M2 + 1 == rondo::kNumDTypes);
static_assert(RONDO_DEADLINE_EXCEEDED == static_cast<int>(Code::kDeadlineExceeded));

namespace rondo {

rondo_error* ToError(Status status) { return NewError(std::move(status)); }

rondo_error* NullError(const char* function, const char* what) {
  return ToError(Status::Error(Code::kInvalidArgument, "%s: %s is NULL", function, what));
}

thread_local bool in_log = false;

rondo_error* Refuse(const char* function, const void* given, const char* what) {
  if (in_log) {
    return ToError(Status::Error(Code::kFailedPrecondition,
                                 "%s: the log function, which must not call back, called it", function));
  }
  return given == nullptr ? NullError(function, what) : nullptr;
}

rondo_error* SizeError(const char* type) {
  return ToError(Status::Error(Code::kInvalidArgument,
                               "%s: its size is not set or too small; use RONDO_INIT(%s)", type, type));
}

HostAllocator AllocatorOf(const rondo_allocator* given) {
  if (given == nullptr || given->allocate == nullptr || given->deallocate == nullptr) {
    return RuntimeHostAllocator();
  }
  return {given->allocate, given->deallocate, given->user};
}

}  // namespace rondo

namespace {

void DestroyDriver(rondo_driver* driver) {
  if (driver != nullptr && driver->destroy != nullptr) driver->destroy(driver);
}

// Fills `handle`, whose driver is already set.
Status MakeRuntime(rondo_runtime* handle, const rondo_runtime_options& given) {
  if (handle->driver->driver == nullptr) {
    if (!handle->driver->status.ok()) return handle->driver->status;
    return Status::Error(Code::kInvalidArgument, "the driver handle holds no driver");
  }
  if (given.devices == nullptr && given.num_devices != 0) {
    return Status::Error(Code::kInvalidArgument, "%zu devices are given, but the list is NULL",
                         given.num_devices);
  }
  rondo::HostAllocator allocator = rondo::AllocatorOf(given.allocator);
  rondo::RuntimeOptions options;
  options.allocator = &allocator;
  options.devices = {given.devices, given.num_devices};
  handle->log = {given.log, given.log_user};
  options.log = handle->log.Hook(given.least_log_level);
  rondo::ThreadHooks threads;
  if (given.threads != nullptr && given.threads->start != nullptr && given.threads->join != nullptr) {
    threads = {given.threads->start, given.threads->join, given.threads->user};
    options.threads = &threads;
  }
  options.async_workers = given.async_workers;
  options.keep_plan_totals = given.keep_plan_totals != 0;
  RONDO_ASSIGN_OR_RETURN(handle->runtime, rondo::Runtime::Create(handle->driver->driver, options));
  return Status::Ok();
}

// Allocates the arrays for the tensors of the largest program.
Status MakeArrays(rondo_session* handle, const rondo::PlanData& data) {
  size_t inputs = 0, outputs = 0;
  for (const rondo::Program& program : data.programs) {
    if (program.inputs.size() > inputs) inputs = program.inputs.size();
    if (program.outputs.size() > outputs) outputs = program.outputs.size();
  }
  handle->inputs = handle->memory.New<rondo::Input>(inputs);
  handle->outputs = handle->memory.New<rondo::Output>(outputs);
  if (handle->inputs.data() == nullptr || handle->outputs.data() == nullptr) {
    return rondo::NoMemoryFor("tensors");
  }
  return Status::Ok();
}

// A C caller may store any number in an enum. Values that C++ does not define must not be read as the enum.
template <typename E>
int32_t RawValue(const E& value) {
  static_assert(sizeof(E) == sizeof(int32_t));
  int32_t raw = 0;
  std::memcpy(&raw, &value, sizeof(raw));
  return raw;
}

// Element `i` of a caller's array; the first element states the size of all.
Status TensorAt(const rondo_tensor* tensors, size_t i, const char* noun, rondo_tensor* full) {
  const char* base = reinterpret_cast<const char*>(tensors);
  auto* given = reinterpret_cast<const rondo_tensor*>(base + i * tensors->size);
  if (!Widen(given, full) || full->size == 0 || given->size != tensors->size) {
    return Status::Error(Code::kInvalidArgument, "%s %zu: the size of its rondo_tensor is %zu, not %zu", noun,
                         i, given->size, tensors->size);
  }
  if (full->rank > RONDO_MAX_RANK) {
    return Status::Error(Code::kInvalidArgument, "%s %zu: rank %u exceeds %d", noun, i, full->rank,
                         RONDO_MAX_RANK);
  }
  if (full->dims == nullptr && full->rank != 0) {
    return Status::Error(Code::kInvalidArgument, "%s %zu: rank %u, but its dims are NULL", noun, i,
                         full->rank);
  }
  if (int32_t dtype = RawValue(full->dtype); dtype < 0 || dtype >= rondo::kNumDTypes) {
    return Status::Error(Code::kInvalidArgument, "%s %zu: dtype %d is unknown", noun, i, dtype);
  }
  if (int32_t memory = RawValue(full->memory); memory != RONDO_HOST_MEMORY && memory != RONDO_DEVICE_MEMORY) {
    return Status::Error(Code::kInvalidArgument, "%s %zu: memory %d is unknown", noun, i, memory);
  }
  return Status::Ok();
}

Status CheckCount(const rondo_tensor* tensors, size_t count, size_t room, const char* noun) {
  if (count > room) {
    return Status::Error(Code::kInvalidArgument, "%zu %ss are given, but no program has more than %zu", count,
                         noun, room);
  }
  if (count != 0 && tensors == nullptr) {
    return Status::Error(Code::kInvalidArgument, "%zu %ss are given, but the array is NULL", count, noun);
  }
  constexpr size_t kLeast = offsetof(rondo_tensor, memory), kMost = 4096;  // of the first release, of any
  if (count != 0 &&
      (tensors->size < kLeast || tensors->size > kMost || tensors->size % alignof(rondo_tensor) != 0)) {
    return Status::Error(
        Code::kInvalidArgument,
        "%s 0: the size of its rondo_tensor is %zu, no multiple of %zu from %zu to %zu; use RONDO_INIT", noun,
        tensors->size, alignof(rondo_tensor), kLeast, kMost);
  }
  return Status::Ok();
}

void Convert(const rondo_tensor& from, rondo::Input* to) {
  *to = {from.name == nullptr ? "" : from.name,
         from.index,
         static_cast<rondo::DType>(from.dtype),
         rondo::Shape(Span<const int64_t>(from.dims, from.rank)),
         from.data,
         from.bytes,
         static_cast<rondo::MemoryKind>(from.memory)};
}

void Convert(const rondo_tensor& from, rondo::Output* to) {
  *to = {from.name == nullptr ? "" : from.name,
         from.index,
         static_cast<rondo::DType>(from.dtype),
         from.data,
         from.bytes,
         static_cast<rondo::MemoryKind>(from.memory)};
}

template <typename T>
Status ConvertAll(const rondo_tensor* tensors, size_t count, Span<T> room, const char* noun) {
  RONDO_RETURN_IF_ERROR(CheckCount(tensors, count, room.size(), noun));
  for (size_t i = 0; i < count; ++i) {
    rondo_tensor full;
    RONDO_RETURN_IF_ERROR(TensorAt(tensors, i, noun, &full));
    Convert(full, &room[i]);
  }
  return Status::Ok();
}

// The arguments that both ways to run share: the caller's arrays and options as the runtime's.
struct Call {
  Span<const rondo::Input> inputs;
  Span<const rondo::Output> outputs;
  rondo::RunOptions options;

  rondo_error* Read(rondo_session* session, const rondo_tensor* in, size_t num_in, const rondo_tensor* out,
                    size_t num_out, const rondo_run_options* given) {
    rondo_run_options full;
    if (!Widen(given, &full)) return SizeError("rondo_run_options");
    Status status = ConvertAll(in, num_in, session->inputs, "input");
    if (status.ok()) status = ConvertAll(out, num_out, session->outputs, "output");
    if (!status.ok()) return ToError(status);
    inputs = {session->inputs.data(), num_in};
    outputs = {session->outputs.data(), num_out};
    options.stepwise = full.stepwise != 0;
    options.timeout_ns = full.timeout_nanoseconds;
    return nullptr;
  }
};

// Runs, or with `completion` accepts the run.
rondo_error* RunEither(const char* function, rondo_session* session, uint32_t program, const rondo_tensor* in,
                       size_t num_in, const rondo_tensor* out, size_t num_out,
                       const rondo_run_options* options, const rondo::Completion* completion) {
  if (rondo_error* error = Refuse(function, session, "session")) return error;
  SessionUse use(session->impl());
  if (!use.held()) return ToError(use.status());
  Call call;
  if (rondo_error* error = call.Read(session, in, num_in, out, num_out, options)) return error;
  return ToError(completion == nullptr
                     ? rondo::RunHeld(&use, session->impl(), program, call.inputs, call.outputs, call.options)
                     : rondo::RunAsyncHeld(&use, session->impl(), program, call.inputs, call.outputs,
                                           *completion, call.options));
}

}  // namespace

extern "C" {

static_assert(RONDO_VERSION_MAJOR == RONDO_RELEASE_MAJOR && RONDO_VERSION_MINOR == RONDO_RELEASE_MINOR &&
                  RONDO_VERSION_PATCH == RONDO_RELEASE_PATCH,
              "rondo.h says another version than CMakeLists.txt's project()");

uint32_t rondo_version(void) { return RONDO_VERSION_MAJOR << 16 | RONDO_VERSION_MINOR; }

const char* rondo_version_string(void) { return RONDO_VERSION; }

rondo_code rondo_error_code(const rondo_error* error) {
  return error == nullptr ? RONDO_OK : static_cast<rondo_code>(error->status.code());
}

const char* rondo_error_message(const rondo_error* error) {
  return error == nullptr ? "" : error->status.message();
}

const char* rondo_error_source_node(const rondo_error* error) {
  return error == nullptr ? "" : error->status.source_node();
}

void rondo_error_destroy(rondo_error* error) {
  if (error == nullptr || error->immortal) return;
  error->~rondo_error();
  std::free(error);
}

rondo_error* rondo_runtime_create(rondo_driver* driver, const rondo_runtime_options* options,
                                  rondo_runtime** runtime) {
  if (rondo_error* error = Refuse("rondo_runtime_create", driver, "driver")) return error;
  rondo_runtime_options full;
  rondo_error* error = nullptr;
  rondo_runtime* handle = nullptr;
  if (runtime == nullptr) {
    error = NullError("rondo_runtime_create", "runtime");
  } else if (!Widen(options, &full)) {
    error = SizeError("rondo_runtime_options");
  } else if ((handle = rondo::NewObject<rondo_runtime>(rondo::DefaultHostAllocator())) == nullptr) {
    error = ToError(Status::Error(Code::kOutOfMemory, "no host memory for a runtime"));
  } else {
    handle->driver = driver;
    error = ToError(MakeRuntime(handle, full));
  }
  if (error == nullptr) {
    *runtime = handle;
    return nullptr;
  }
  rondo::DeleteObject(rondo::DefaultHostAllocator(), handle);
  DestroyDriver(driver);
  return error;
}

rondo_error* rondo_runtime_supports(const rondo_runtime* runtime, const rondo_plan* plan) {
  if (rondo_error* error = Refuse("rondo_runtime_supports", runtime, "runtime")) return error;
  if (plan == nullptr) return NullError("rondo_runtime_supports", "plan");
  return ToError(runtime->runtime.Supports(plan->plan));
}

rondo_error* rondo_runtime_ready(const rondo_runtime* runtime) {
  if (rondo_error* error = Refuse("rondo_runtime_ready", runtime, "runtime")) return error;
  return ToError(runtime->runtime.Ready());
}

rondo_error* rondo_runtime_destroy(rondo_runtime* runtime) {
  if (runtime == nullptr) return nullptr;
  if (rondo_error* error = Refuse("rondo_runtime_destroy", runtime, "")) return error;
  uint32_t sessions = runtime->runtime.session_count();
  if (sessions != 0) {
    return ToError(Status::Error(Code::kFailedPrecondition,
                                 "the runtime still has %u session(s); destroy them first", sessions));
  }
  if (runtime->runtime.on_worker()) {
    return ToError(Status::Error(Code::kFailedPrecondition,
                                 "the runtime cannot be destroyed on one of its own threads"));
  }
  rondo_driver* driver = runtime->driver;
  rondo::DeleteObject(rondo::DefaultHostAllocator(), runtime);
  DestroyDriver(driver);
  return nullptr;
}

rondo_error* rondo_session_create(rondo_runtime* runtime, const rondo_plan* plan, rondo_session** session) {
  return rondo_session_create_with(runtime, plan, nullptr, session);
}

rondo_error* rondo_session_create_with(rondo_runtime* runtime, const rondo_plan* plan,
                                       const rondo_session_options* options, rondo_session** session) {
  if (rondo_error* error = Refuse("rondo_session_create", runtime, "runtime")) return error;
  if (plan == nullptr) return NullError("rondo_session_create", "plan");
  if (session == nullptr) return NullError("rondo_session_create", "session");
  rondo_session_options full;
  if (!Widen(options, &full)) return SizeError("rondo_session_options");
  Result<rondo::Session> made = rondo::Session::Create(
      runtime->runtime, plan->plan,
      {full.timeout_nanoseconds, full.run_timeout_nanoseconds, full.watchdog_nanoseconds, full.memory_limit});
  if (!made.ok()) return ToError(made.status());
  rondo_session* handle =
      rondo::NewObject<rondo_session>(rondo::DefaultHostAllocator(), rondo::DefaultHostAllocator());
  if (handle == nullptr) {
    return ToError(rondo::NoMemoryFor("handle"));
  }
  handle->session = made.Take();
  Status status = MakeArrays(handle, plan->plan.data());
  if (!status.ok()) {
    rondo::DeleteObject(rondo::DefaultHostAllocator(), handle);
    return ToError(status);
  }
  *session = handle;
  return nullptr;
}

uint32_t rondo_session_chosen_program(const rondo_session* session, uint32_t program) {
  return session == nullptr ? RONDO_NO_INDEX : session->session.chosen(program);
}

const char* rondo_session_why_smaller(const rondo_session* session) {
  return session == nullptr ? "" : session->session.why_smaller().message();
}

rondo_error* rondo_session_destroy(rondo_session* session) {
  if (session == nullptr) return nullptr;
  if (rondo_error* error = Refuse("rondo_session_destroy", session, "")) return error;
  SessionUse use(session->impl());
  if (!use.held()) return ToError(use.status());
  use.Release();
  rondo::DeleteObject(rondo::DefaultHostAllocator(), session);
  return nullptr;
}

rondo_error* rondo_session_run(rondo_session* session, uint32_t program, const rondo_tensor* inputs,
                               size_t num_inputs, const rondo_tensor* outputs, size_t num_outputs,
                               const rondo_run_options* options) {
  return RunEither("rondo_session_run", session, program, inputs, num_inputs, outputs, num_outputs, options,
                   nullptr);
}

rondo_error* rondo_session_run_async(rondo_session* session, uint32_t program, const rondo_tensor* inputs,
                                     size_t num_inputs, const rondo_tensor* outputs, size_t num_outputs,
                                     const rondo_run_options* options, rondo_run_done done, void* user) {
  rondo::Completion completion;
  if (done != nullptr) {
    completion.user = user;
    completion.function = reinterpret_cast<void (*)()>(done);
    completion.call = [](const rondo::Completion& self, const Status& status) {
      reinterpret_cast<rondo_run_done>(self.function)(self.user, ToError(status));
    };
  }
  return RunEither("rondo_session_run_async", session, program, inputs, num_inputs, outputs, num_outputs,
                   options, &completion);
}

rondo_error* rondo_session_wait(rondo_session* session) {
  if (rondo_error* error = Refuse("rondo_session_wait", session, "session")) return error;
  return ToError(session->session.Wait());
}

rondo_error* rondo_session_cancel(rondo_session* session) {
  if (rondo_error* error = Refuse("rondo_session_cancel", session, "session")) return error;
  session->session.Cancel();
  return nullptr;
}

rondo_error* rondo_session_reset_state(rondo_session* session) {
  if (rondo_error* error = Refuse("rondo_session_reset_state", session, "session")) return error;
  return ToError(session->session.ResetState());
}

rondo_error* rondo_session_copy_states(rondo_session* session, rondo_session* from) {
  return rondo_session_copy_positions(session, from, 0, 0, nullptr);
}

rondo_error* rondo_session_copy_positions(rondo_session* session, rondo_session* from, int64_t length,
                                          int64_t first, uint64_t* copied) {
  if (rondo_error* error = Refuse("rondo_session_copy_states", session, "session")) return error;
  if (rondo_error* error = Refuse("rondo_session_copy_states", from, "from")) return error;
  return ToError(session->session.CopyStatesFrom(from->session, {length, first}, copied));
}

rondo_error* rondo_session_write_state(rondo_session* session, const char* name, const void* data,
                                       uint64_t bytes) {
  if (rondo_error* error = Refuse("rondo_session_write_state", session, "session")) return error;
  if (name == nullptr) return NullError("rondo_session_write_state", "name");
  return ToError(session->session.WriteState(name, data, bytes));
}

rondo_error* rondo_session_read_state(rondo_session* session, const char* name, void* data, uint64_t bytes) {
  if (rondo_error* error = Refuse("rondo_session_read_state", session, "session")) return error;
  if (name == nullptr) return NullError("rondo_session_read_state", "name");
  return ToError(session->session.ReadState(name, data, bytes));
}

rondo_error* rondo_session_state_address(rondo_session* session, const char* name, void** address) {
  if (rondo_error* error = Refuse("rondo_session_state_address", session, "session")) return error;
  if (name == nullptr) return NullError("rondo_session_state_address", "name");
  if (address == nullptr) return NullError("rondo_session_state_address", "address");
  Result<void*> found = session->session.StateAddress(name);
  if (!found.ok()) return ToError(found.status());
  *address = *found;
  return nullptr;
}

rondo_error* rondo_session_status(rondo_session* session) {
  if (rondo_error* error = Refuse("rondo_session_status", session, "session")) return error;
  return ToError(SessionUse(session->impl()).status());
}

}  // extern "C"
