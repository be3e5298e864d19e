// Runtimes as Python sees them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "tools/python/src/arrays.h"

namespace rondo::python {

// A child of fork has the memory of what its parent made, and none of the threads.
bool MadeHere(pid_t process);

// Shared with its sessions: destroyed after the last of them, on whatever thread that is.
struct OpenRuntime {
  OpenRuntime();
  ~OpenRuntime();
  pid_t process;
  std::string driver;
  Place place;
  Runtime runtime;
};

// While a completion runs on one of a runtime's own threads, which cannot destroy it.
class Completing {
 public:
  Completing();
  ~Completing();
};

struct RuntimeObject {
  std::shared_ptr<OpenRuntime> runtime;
  ~RuntimeObject();
};

// Raises InvalidArgument for what is no driver's name.
void CheckDriverName(const std::string& name);
// A driver by its name, with devices enough for a plan's. May take seconds: without the interpreter's lock.
rondo_driver* MakeDriver(const std::string& name, uint32_t threads, uint32_t devices);

void DeclareRuntime(nb::module_& m);

}  // namespace rondo::python
