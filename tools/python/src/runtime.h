// The Python binding of runtimes.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "tools/python/src/arrays.h"

namespace rondo::python {

// Whether this process made the object. A child of fork has the memory of its parent's objects, but none of
// their threads.
bool MadeHere(pid_t process);

// Shared with its sessions. Destroyed after the last of them, on that thread.
struct OpenRuntime {
  OpenRuntime();
  ~OpenRuntime();
  pid_t process;
  std::string driver;
  Place place;
  Runtime runtime;
};

// Exists while a completion runs on a thread of a runtime. Such a thread cannot destroy the runtime.
class Completing {
 public:
  Completing();
  ~Completing();
};

struct RuntimeObject {
  std::shared_ptr<OpenRuntime> runtime;
  ~RuntimeObject();
};

// Raises InvalidArgument if no driver has that name.
void CheckDriverName(const std::string& name);
// A driver by its name, with enough devices for a plan. May take seconds: call it without the interpreter's
// lock.
rondo_driver* MakeDriver(const std::string& name, uint32_t threads, uint32_t devices);

void DeclareRuntime(nb::module_& m);

}  // namespace rondo::python
