// Rondo in C++ (C++17 or later): a thin, header-only wrapper of rondo.h. Needs no exceptions and no RTTI.
// Lifetimes and threads are as in rondo.h; objects own their C handle and are movable.
//
//   rondo::Plan plan;
//   if (rondo::Error e = rondo::Plan::Open("model.rondo", &plan)) return Complain(e.message());
//   rondo::Runtime runtime;
//   if (rondo::Error e = rondo::Runtime::Create(rondo_host_driver_create(4), &runtime)) ...
//   rondo::Session session;  // declared after the runtime: destroyed before it
//   if (rondo::Error e = rondo::Session::Create(runtime, plan, &session)) ...
//   const int64_t token[] = {42};
//   float logits[256];
//   if (rondo::Error e = session.Run(0, {rondo::In("tokens", token, {1, 1})},
//                                    {rondo::Out("logits", logits)})) ...
//
// Do not include it together with Rondo's own C++ headers (runtime/plan.h and so on): they share names.
#ifndef RONDO_RUNTIME_RONDO_HPP_
#define RONDO_RUNTIME_RONDO_HPP_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "runtime/rondo.h"

#if __cplusplus < 201703L
#error "rondo.hpp needs C++17 or later; rondo.h is plain C, and every C++ can include it"
#elif __cplusplus >= 202002L
#include <span>  // for callers, who may hand in std::span
#endif

namespace rondo {
inline namespace api {  // keeps these symbols apart from the library's own

namespace internal {
// Whether C has size(), and data() that points to elements that a span of T can show.
template <typename C, typename T, typename = void>
struct Holds : std::false_type {};
template <typename C, typename T>
struct Holds<
    C, T,
    std::enable_if_t<
        std::is_convertible_v<std::remove_pointer_t<decltype(std::declval<C&>().data())> (*)[], T (*)[]> &&
        std::is_convertible_v<decltype(std::declval<C&>().size()), size_t>>> : std::true_type {};
}  // namespace internal

// A borrowed view of `size` contiguous elements: std::span for C++17. Made implicitly from arrays and from
// containers with data() and size(), std::span among them. C++20 uses the same type, so that the files of one
// program may be compiled for different standards.
template <typename T>
class span {
 public:
  using element_type = T;

  constexpr span() = default;
  constexpr span(T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr span(T (&array)[N]) : data_(array), size_(N) {}
  template <typename C, typename = std::enable_if_t<internal::Holds<C, T>::value>>
  constexpr span(C& container) : data_(container.data()), size_(container.size()) {}
  // From a temporary container: T must be const, or the container itself a view.
  template <typename C, typename = std::enable_if_t<internal::Holds<const C, T>::value>>
  constexpr span(const C& container) : data_(container.data()), size_(container.size()) {}

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr size_t size_bytes() const { return size_ * sizeof(T); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// The bytes of the elements of a container or array, for ReadState, WriteState and Plan::Open.
template <typename C>
span<const std::byte> AsBytes(const C& elements) {
  return {reinterpret_cast<const std::byte*>(std::data(elements)),
          std::size(elements) * sizeof(*std::data(elements))};
}
template <typename C>
span<std::byte> AsWritableBytes(C&& elements) {
  return {reinterpret_cast<std::byte*>(std::data(elements)),
          std::size(elements) * sizeof(*std::data(elements))};
}

// An error, or none: converts to true if there is an error. Owns its text.
class [[nodiscard]] Error {
 public:
  Error() = default;
  explicit Error(rondo_error* error) : error_(error) {}
  Error(Error&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Error& operator=(Error&& other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~Error() { rondo_error_destroy(error_); }

  explicit operator bool() const { return error_ != nullptr; }
  rondo_code code() const { return rondo_error_code(error_); }
  const char* message() const { return rondo_error_message(error_); }
  const char* source_node() const { return rondo_error_source_node(error_); }

 private:
  rondo_error* error_ = nullptr;
};

// The rondo_dtype of a C++ element type. 16-bit floats have none: use the Tensor constructor below.
template <typename T>
constexpr rondo_dtype DTypeOf() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_integral_v<T>,
                "elements are float, double, bool or integers; for others, make a rondo::Tensor");
  if constexpr (std::is_same_v<T, float>) return RONDO_F32;
  if constexpr (std::is_same_v<T, double>) return RONDO_F64;
  if constexpr (std::is_same_v<T, bool>) return RONDO_BOOL;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr rondo_dtype kSigned[] = {RONDO_I8, RONDO_I16, RONDO_I32, RONDO_I64};
    constexpr rondo_dtype kUnsigned[] = {RONDO_U8, RONDO_U16, RONDO_U32, RONDO_U64};
    constexpr int kIndex = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[kIndex] : kUnsigned[kIndex];
  }
}

// One input or output of a run. Borrows the name and the data; holds its dims itself. With
// RONDO_DEVICE_MEMORY, `data` is an address in the memory of the port's device.
class Tensor {
 public:
  Tensor(const char* name, rondo_dtype dtype, span<const int64_t> dims, void* data, uint64_t bytes,
         rondo_memory memory = RONDO_HOST_MEMORY) {
    tensor_.name = name;
    tensor_.dtype = dtype;
    tensor_.rank = static_cast<uint32_t>(dims.size());
    tensor_.data = data;
    tensor_.bytes = bytes;
    tensor_.memory = memory;
    for (size_t i = 0; i < dims.size() && i < RONDO_MAX_RANK; ++i) dims_[i] = dims[i];
  }
  // The C view; valid while this object is.
  rondo_tensor view() const {
    rondo_tensor tensor = tensor_;
    tensor.dims = dims_;
    return tensor;
  }

 private:
  rondo_tensor tensor_ = RONDO_INIT(rondo_tensor);
  int64_t dims_[RONDO_MAX_RANK] = {};
};

// An input: a contiguous container or array of elements, read only.
template <typename C>
Tensor In(const char* name, const C& elements, std::initializer_list<int64_t> dims) {
  using T = std::remove_cv_t<std::remove_reference_t<decltype(*std::data(elements))>>;
  return Tensor(name, DTypeOf<T>(), {dims.begin(), dims.size()}, const_cast<T*>(std::data(elements)),
                std::size(elements) * sizeof(T));
}

// An output: a contiguous container or array of exactly its elements.
template <typename C>
Tensor Out(const char* name, C&& elements) {
  using T = std::remove_reference_t<decltype(*std::data(elements))>;
  static_assert(!std::is_const_v<T>, "an output's elements are written, and these are const");
  return Tensor(name, DTypeOf<T>(), {}, std::data(elements), std::size(elements) * sizeof(T));
}

// An input or output of `count` elements in the memory of the port's device: see rondo_memory.
template <typename T>
Tensor DeviceIn(const char* name, const T* data, std::initializer_list<int64_t> dims, uint64_t count) {
  return Tensor(name, DTypeOf<T>(), {dims.begin(), dims.size()}, const_cast<T*>(data), count * sizeof(T),
                RONDO_DEVICE_MEMORY);
}
template <typename T>
Tensor DeviceOut(const char* name, T* data, uint64_t count) {
  return Tensor(name, DTypeOf<T>(), {}, data, count * sizeof(T), RONDO_DEVICE_MEMORY);
}

class Plan {
 public:
  Plan() = default;
  Plan(Plan&& other) noexcept : plan_(std::exchange(other.plan_, nullptr)) {}
  Plan& operator=(Plan&& other) noexcept {
    std::swap(plan_, other.plan_);
    return *this;
  }
  ~Plan() { rondo_plan_destroy(plan_); }

  static Error Open(const char* path, Plan* plan, const rondo_plan_options* options = nullptr) {
    rondo_plan* opened = nullptr;
    Error error(rondo_plan_open(path, options, &opened));
    if (!error) *plan = Plan(opened);
    return error;
  }
  // `bytes` must outlive the plan and its sessions.
  static Error Open(span<const std::byte> bytes, Plan* plan, const rondo_plan_options* options = nullptr) {
    rondo_plan* opened = nullptr;
    Error error(rondo_plan_open_bytes(bytes.data(), bytes.size(), options, &opened));
    if (!error) *plan = Plan(opened);
    return error;
  }

  uint32_t program_count() const { return rondo_plan_program_count(plan_); }
  const char* program_name(uint32_t program) const { return rondo_plan_program_name(plan_, program); }
  Error FindProgram(const char* name, uint32_t* program) const {
    return Error(rondo_plan_find_program(plan_, name, program));
  }
  uint32_t input_count(uint32_t program) const { return rondo_plan_port_count(plan_, program, RONDO_INPUT); }
  uint32_t output_count(uint32_t program) const {
    return rondo_plan_port_count(plan_, program, RONDO_OUTPUT);
  }
  Error GetInput(uint32_t program, uint32_t index, rondo_port* port) const {
    return GetPort(program, RONDO_INPUT, index, port);
  }
  Error GetOutput(uint32_t program, uint32_t index, rondo_port* port) const {
    return GetPort(program, RONDO_OUTPUT, index, port);
  }
  Error FindInput(uint32_t program, const char* name, rondo_port* port) const {
    return FindPort(program, RONDO_INPUT, name, port);
  }
  Error FindOutput(uint32_t program, const char* name, rondo_port* port) const {
    return FindPort(program, RONDO_OUTPUT, name, port);
  }
  Error GetRequirements(rondo_requirements* requirements) const {
    *requirements = RONDO_INIT(rondo_requirements);
    return Error(rondo_plan_get_requirements(plan_, requirements));
  }
  Error GetDeviceBytes(uint32_t device, rondo_device_bytes* bytes) const {
    *bytes = RONDO_INIT(rondo_device_bytes);
    return Error(rondo_plan_get_device_bytes(plan_, device, bytes));
  }
  uint32_t BufferCount() const { return rondo_plan_buffer_count(plan_); }
  Error GetBuffer(uint32_t index, rondo_buffer* buffer) const {
    *buffer = RONDO_INIT(rondo_buffer);
    return Error(rondo_plan_get_buffer(plan_, index, buffer));
  }
  // The C handle, which this object keeps owning.
  const rondo_plan* get() const { return plan_; }

 private:
  explicit Plan(rondo_plan* plan) : plan_(plan) {}
  Error GetPort(uint32_t program, rondo_direction direction, uint32_t index, rondo_port* port) const {
    *port = RONDO_INIT(rondo_port);
    return Error(rondo_plan_get_port(plan_, program, direction, index, port));
  }
  Error FindPort(uint32_t program, rondo_direction direction, const char* name, rondo_port* port) const {
    *port = RONDO_INIT(rondo_port);
    return Error(rondo_plan_find_port(plan_, program, direction, name, nullptr, port));
  }
  rondo_plan* plan_ = nullptr;
};

// Destroy it after its sessions: a runtime with sessions is never freed.
class Runtime {
 public:
  Runtime() = default;
  Runtime(Runtime&& other) noexcept : runtime_(std::exchange(other.runtime_, nullptr)) {}
  Runtime& operator=(Runtime&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    return *this;
  }
  ~Runtime() { rondo_error_destroy(rondo_runtime_destroy(runtime_)); }

  // Takes over `driver`, even when it fails.
  static Error Create(rondo_driver* driver, Runtime* runtime,
                      const rondo_runtime_options* options = nullptr) {
    rondo_runtime* created = nullptr;
    Error error(rondo_runtime_create(driver, options, &created));
    if (!error) *runtime = Runtime(created);
    return error;
  }
  Error Supports(const Plan& plan) const { return Error(rondo_runtime_supports(runtime_, plan.get())); }
  Error Ready() const { return Error(rondo_runtime_ready(runtime_)); }
  Error GetMetrics(rondo_metrics* metrics) const {
    *metrics = RONDO_INIT(rondo_metrics);
    return Error(rondo_runtime_get_metrics(runtime_, metrics));
  }
  // Prometheus text; returns the bytes of the whole text.
  size_t WriteMetrics(span<char> text) const {
    return rondo_runtime_write_metrics(runtime_, text.data(), text.size());
  }
  rondo_runtime* get() const { return runtime_; }

 private:
  explicit Runtime(rondo_runtime* runtime) : runtime_(runtime) {}
  rondo_runtime* runtime_ = nullptr;
};

class Session {
 public:
  Session() = default;
  Session(Session&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  // Waits for an asynchronous run. A completion that has started another run must not destroy its session,
  // which would then never be freed.
  ~Session() {
    if (session_ != nullptr) rondo_error_destroy(rondo_session_wait(session_));
    rondo_error_destroy(rondo_session_destroy(session_));
  }

  static Error Create(const Runtime& runtime, const Plan& plan, Session* session,
                      const rondo_session_options* options = nullptr) {
    rondo_session* created = nullptr;
    Error error(rondo_session_create_with(runtime.get(), plan.get(), options, &created));
    if (!error) *session = Session(created);
    return error;
  }

  // Allocates only for programs with more than 32 inputs or 32 outputs.
  Error Run(uint32_t program, span<const Tensor> inputs, span<const Tensor> outputs,
            const rondo_run_options* options = nullptr) {
    Views in(inputs), out(outputs);
    return Error(
        rondo_session_run(session_, program, in.data(), inputs.size(), out.data(), outputs.size(), options));
  }
  Error Run(uint32_t program, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> outputs,
            const rondo_run_options* options = nullptr) {
    return Run(program, span(inputs.begin(), inputs.size()), span(outputs.begin(), outputs.size()), options);
  }
  // Calls `done` with `user` and the error, if any, when the run has ended: see rondo_run_done. The tensors'
  // data must live until then; the Tensor objects need not.
  using Done = void (*)(void* user, rondo_error* error);
  Error RunAsync(uint32_t program, span<const Tensor> inputs, span<const Tensor> outputs, Done done,
                 void* user, const rondo_run_options* options = nullptr) {
    Views in(inputs), out(outputs);
    return Error(rondo_session_run_async(session_, program, in.data(), inputs.size(), out.data(),
                                         outputs.size(), options, done, user));
  }
  Error RunAsync(uint32_t program, std::initializer_list<Tensor> inputs,
                 std::initializer_list<Tensor> outputs, Done done, void* user,
                 const rondo_run_options* options = nullptr) {
    return RunAsync(program, span(inputs.begin(), inputs.size()), span(outputs.begin(), outputs.size()), done,
                    user, options);
  }
  // Returns when no asynchronous run is under way. Completions must not call it: see rondo_session_wait.
  Error Wait() { return Error(rondo_session_wait(session_)); }
  // Ends the run under way, from any thread: see rondo_session_cancel.
  void Cancel() { rondo_error_destroy(rondo_session_cancel(session_)); }
  Error ResetState() { return Error(rondo_session_reset_state(session_)); }
  // Copies all state from `from`, on the device: see rondo_session_copy_states.
  Error CopyStates(const Session& from) { return Error(rondo_session_copy_states(session_, from.get())); }
  // Copies only the first `first` positions of caches with `length`: see rondo_session_copy_positions.
  Error CopyPositions(const Session& from, int64_t length, int64_t first, uint64_t* copied = nullptr) {
    return Error(rondo_session_copy_positions(session_, from.get(), length, first, copied));
  }
  Error WriteState(const char* name, span<const std::byte> from) {
    return Error(rondo_session_write_state(session_, name, from.data(), from.size()));
  }
  Error ReadState(const char* name, span<std::byte> to) {
    return Error(rondo_session_read_state(session_, name, to.data(), to.size()));
  }
  Error StateAddress(const char* name, void** address) {
    return Error(rondo_session_state_address(session_, name, address));
  }
  // What runs of a program with variants execute, and why it is not the fastest: see
  // rondo_session_chosen_program.
  uint32_t ChosenProgram(uint32_t program) const { return rondo_session_chosen_program(session_, program); }
  const char* WhySmaller() const { return rondo_session_why_smaller(session_); }
  Error status() { return Error(rondo_session_status(session_)); }
  rondo_session* get() const { return session_; }

 private:
  explicit Session(rondo_session* session) : session_(session) {}
  // The C views of some tensors; null data when out of memory, which the library reports.
  class Views {
   public:
    explicit Views(span<const Tensor> tensors) {
      if (tensors.size() > kInline) {
        heap_.reset(new (std::nothrow) rondo_tensor[tensors.size()]);
        data_ = heap_.get();
      }
      for (size_t i = 0; data_ != nullptr && i < tensors.size(); ++i) data_[i] = tensors[i].view();
    }
    const rondo_tensor* data() const { return data_; }

   private:
    static constexpr size_t kInline = 32;
    rondo_tensor inline_[kInline];
    std::unique_ptr<rondo_tensor[]> heap_;
    rondo_tensor* data_ = inline_;
  };
  rondo_session* session_ = nullptr;
};

}  // namespace api
}  // namespace rondo

#endif  // RONDO_RUNTIME_RONDO_HPP_
