// FindWrongNodes: of the ONNX nodes that one kernel computes together, finds the first one that it computes
// wrongly.
//
// The reference has the values of these nodes in memory, if it does not fuse them (annotation fuse=off). A
// node is right if a register of the kernel, or a value that it stores, equals the node's value, or if a node
// computed from it is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/rondo/value_comparison.h"

namespace rondo::tools {

struct WrongNodes {
  uint32_t step = kNone;            // of the plan
  std::vector<std::string> first;   // labels of wrong nodes whose inputs are all right
  std::vector<std::string> others;  // wrong nodes after those
  std::vector<std::string> right;
  // The host driver, given the step's inputs, computes the reference's values: kernel and plan are right, and
  // what ran (machine code, a library, the driver) is wrong.
  bool right_on_host = false;
  std::string not_known;  // why nothing is known about single nodes; "" if something is
};

// `step`: of `plan`; its results differ or are unknown. `value`: a value that it writes and that differs, or
// null.
Result<WrongNodes> FindWrongNodes(const ComparedProgram& plan, uint32_t step, const ComparedValue* value,
                                  const ComparedProgram& reference, double tolerance);

}  // namespace rondo::tools
