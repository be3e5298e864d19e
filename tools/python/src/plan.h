// The Python binding of plans, over rondo.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/rondo.hpp"
#include "tools/python/src/errors.h"

namespace rondo::python {

// Raises `error` as an exception, if there is one.
void Check(const Error& error);

// Everything below is immutable once made: any thread may read it, with or without the interpreter's lock.
struct Port {
  std::string name;
  rondo_dtype dtype = RONDO_F32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  bool is_state = false;
  uint32_t device = 0;
  bool given_away = false;  // an input whose memory a run may write: rondo compile --donate
};

struct Program {
  uint32_t index = 0;
  std::string name;
  std::vector<Port> inputs, outputs;
};

const Port* FindPort(const std::vector<Port>& ports, const std::string& name);

// "tokens int64[1, 64]", "cache float32[8, 4] (state)".
std::string TextOf(const Port& port);

// A plan, and its bytes if it was opened from bytes. Shared with its sessions.
struct OpenPlan {
  std::vector<uint8_t> bytes;  // empty: opened from `path`
  std::string path;
  api::Plan plan;
  std::vector<Program> programs;
};

// The object that Python holds.
struct PlanObject {
  std::shared_ptr<const OpenPlan> plan;
};

void DeclarePlan(nb::module_& m);

}  // namespace rondo::python
