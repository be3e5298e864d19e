// Status and Result<T>: how every function of Rondo that can fail says so.
//
// A Status is either OK or an error with a code and a sentence that names what failed, where, the
// offending value and the limit. Copies share one reference-counted record; a Status may be passed
// between threads, but one Status object must not be mutated by two threads at once. Making an error
// allocates (malloc); when even that fails the error is kept with a fixed text, never lost.
//
//   Result<Plan> plan = Plan::Open(path);
//   if (!plan.ok()) return plan.status().At("while loading the service's plan");
//   Use(*plan);
#pragma once

#include <cstdarg>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

namespace rondo {

// The numbers are part of the C ABI (rondo.h): append only.
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,     // the caller passed something wrong
  kNotFound = 2,            // a name or file does not exist
  kUnsupported = 3,         // valid, but this build, driver or machine cannot do it
  kCorrupt = 4,             // a file contradicts itself or its hash
  kOutOfMemory = 5,         // host or device memory ran out, or a stated limit would be passed
  kFailedPrecondition = 6,  // the object is not in the state that the call needs
  kOutOfRange = 7,          // data met at run time lies outside the declared bounds
  kAborted = 8,             // stopped from outside (abort, another device's failure)
  kInternal = 9,            // a broken promise of Rondo itself
  kIo = 10,                 // the operating system refused a read, write or map
  kCancelled = 11,          // ended because its caller asked for that
  kDeadlineExceeded = 12,   // ended at the time limit that its caller set
};

// "invalid argument", "not found", ...
const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(const Status& other);
  Status(Status&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  Status& operator=(const Status& other);
  Status& operator=(Status&& other) noexcept;
  ~Status();

  static Status Ok() { return Status(); }
  // printf-style. The text is cut at 4 KiB.
  static Status Error(Code code, const char* format, ...) __attribute__((format(printf, 2, 3)));
  static Status ErrorV(Code code, const char* format, va_list args);

  bool ok() const { return rep_ == nullptr; }
  Code code() const;
  // The whole sentence, zero-terminated; "" when ok. Lives as long as any copy of this Status.
  const char* message() const;
  // The model's own node this error came from ("" when unknown).
  const char* source_node() const;

  // The same error with "WHERE: " put in front of its message. OK stays OK.
  Status At(const char* format, ...) const __attribute__((format(printf, 2, 3)));
  // The same error, with the ONNX node (or nodes) it came from recorded.
  Status FromNode(std::string_view node) const;

 private:
  struct Rep;
  explicit Status(Rep* rep) : rep_(rep) {}
  static void Unref(Rep* rep);
  Rep* rep_ = nullptr;
};

// Either a T or the error that prevented it. Reading the value of an error aborts the process: check ok()
// first.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(Status status) : status_(std::move(status)) {  // NOLINT: conversion is the point
    if (status_.ok()) __builtin_trap();
  }
  Result(const T& value) : has_(true) { new (&value_) T(value); }        // NOLINT
  Result(T&& value) : has_(true) { new (&value_) T(std::move(value)); }  // NOLINT
  template <typename U>
  requires(std::is_convertible_v<U, T> && !std::is_same_v<std::decay_t<U>, T> &&
           !std::is_same_v<std::decay_t<U>, Status> && !std::is_same_v<std::decay_t<U>, Result<T>>)
      Result(U&& value)
      : has_(true) {
    new (&value_) T(std::forward<U>(value));
  }  // NOLINT
  Result(Result&& other) noexcept : status_(std::move(other.status_)), has_(other.has_) {
    if (has_) new (&value_) T(std::move(other.value_));
  }
  Result& operator=(Result&& other) noexcept {
    if (this != &other) {
      this->~Result();
      new (this) Result(std::move(other));
    }
    return *this;
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() {
    if (has_) value_.~T();
  }

  bool ok() const { return has_; }
  const Status& status() const { return status_; }
  T& operator*() { return Checked(); }
  const T& operator*() const { return const_cast<Result*>(this)->Checked(); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->Checked(); }
  T Take() { return std::move(Checked()); }

 private:
  T& Checked() {
    if (!has_) __builtin_trap();
    return value_;
  }
  Status status_;
  bool has_ = false;
  union {
    T value_;
  };
};

#define RONDO_CONCAT_INNER(a, b) a##b
#define RONDO_CONCAT(a, b) RONDO_CONCAT_INNER(a, b)

// Returns the error of `expr` (a Status) from the enclosing function, if it is one.
#define RONDO_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (::rondo::Status rondo_status = (expr); !rondo_status.ok()) return rondo_status; \
  } while (0)

// RONDO_ASSIGN_OR_RETURN(auto x, MakeX()): x is the value, or the error is returned.
#define RONDO_ASSIGN_OR_RETURN(lhs, expr) \
  RONDO_ASSIGN_OR_RETURN_IMPL(RONDO_CONCAT(rondo_result_, __LINE__), lhs, expr)
#define RONDO_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return tmp.status();               \
  lhs = tmp.Take()

}  // namespace rondo
