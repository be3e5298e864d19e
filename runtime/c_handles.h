// The objects behind the handles of the C interface, and how its versioned structs are read and filled.
// Internal to runtime/.
#pragma once

#include <cstring>

#include "core/arena.h"
#include "core/status.h"
#include "runtime/plan.h"
#include "runtime/rondo.h"
#include "runtime/runtime.h"
#include "runtime/session.h"
#include "runtime/session_impl.h"

namespace rondo {

// Whether the calling thread is inside an embedder's log function.
extern thread_local bool in_log;

// The embedder's log function as a LogHook, whose `user` this object is.
struct LogTarget {
  rondo_log_function log = nullptr;
  void* user = nullptr;

  LogHook Hook(rondo_log_level least) {
    if (log == nullptr) return {};
    return {[](void* self, LogLevel level, const char* text) {
              auto* target = static_cast<LogTarget*>(self);
              in_log = true;
              target->log(target->user, static_cast<rondo_log_level>(level), text);
              in_log = false;
            },
            this, static_cast<LogLevel>(least)};
  }
};

}  // namespace rondo

struct rondo_plan {
  explicit rondo_plan(const rondo::HostAllocator& allocator) : memory(allocator) {}

  rondo::Plan plan;
  rondo::Arena memory;  // owns the zero-terminated names
  const char* target = "";
  rondo::Span<const char*> programs;
  rondo::Span<rondo::Span<const char*>> ports[2];  // by direction, then program, then port
};

struct rondo_runtime {
  rondo_driver* driver = nullptr;
  rondo::LogTarget log;
  rondo::Runtime runtime;
};

// Each run converts its tensors into arrays that are allocated with the session, so that it allocates
// nothing.
struct rondo_session {
  explicit rondo_session(const rondo::HostAllocator& allocator) : memory(allocator) {}

  rondo::Session session;
  rondo::Arena memory;  // owns the arrays
  rondo::Span<rondo::Input> inputs;
  rondo::Span<rondo::Output> outputs;

  rondo::SessionImpl* impl() const { return rondo::ImplOf(session); }
};

namespace rondo {

// Null for OK. Never null for an error, even when no memory is left to describe it.
rondo_error* ToError(Status status);
// "FUNCTION: WHAT is NULL".
rondo_error* NullError(const char* function, const char* what);
// Null, or why `function` refuses the call: `given`, called `what`, is NULL, or the call comes from the log
// function, which may run with locks held.
rondo_error* Refuse(const char* function, const void* given, const char* what);
// The allocator that options name, or the library's choice.
HostAllocator AllocatorOf(const rondo_allocator* given);

// Copies the caller's struct, of any version, into this library's: fields that it lacks are 0. False when its
// size is not set. Null gives the defaults.
template <typename T>
bool Widen(const T* given, T* full) {
  std::memset(full, 0, sizeof(T));
  full->size = sizeof(T);
  if (given == nullptr) return true;
  if (given->size < sizeof(size_t)) return false;
  std::memcpy(full, given, given->size < sizeof(T) ? given->size : sizeof(T));
  return true;
}

// Fills the fields that the caller's struct has, and keeps its size. False when the size is not set.
template <typename T>
bool FillStruct(T full, T* to) {
  if (to->size < sizeof(size_t)) return false;
  full.size = to->size;
  std::memcpy(to, &full, to->size < sizeof(T) ? to->size : sizeof(T));
  return true;
}

// "TYPE.size is 0; set it to sizeof(TYPE)".
rondo_error* SizeError(const char* type);

}  // namespace rondo
