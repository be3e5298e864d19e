// FindWrongNodes: of the ONNX nodes that one kernel computes together, which is the first that it computes
// wrongly.
//
// The reference has the values of these nodes in memory of their own, if it does not fuse them (annotation
// fuse=off). A node is right if some register of the kernel, or something it stores, has its value, or if a
// node that is computed from it is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/rondo/value_comparison.h"

namespace rondo::tools {

struct WrongNodes {
  uint32_t step = kNone;            // of the plan
  std::vector<std::string> first;   // labels of nodes that are wrong though all before them are right
  std::vector<std::string> others;  // wrong nodes behind those
  std::vector<std::string> right;
  // The host driver, given what the step was given, computes what the reference has: kernel and plan are
  // right, and what ran (machine code, a library, the driver) is not.
  bool right_on_host = false;
  std::string not_known;  // why nothing can be said of single nodes; "" if something is
};

// `step`: of `plan`; its results differ, or are not known. `value`: one that it writes and that differs, or
// null.
Result<WrongNodes> FindWrongNodes(const ComparedProgram& plan, uint32_t step, const ComparedValue* value,
                                  const ComparedProgram& reference, double tolerance);

}  // namespace rondo::tools
