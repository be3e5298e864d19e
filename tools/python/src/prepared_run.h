// Prepares a run from Python's arguments: the chosen program, inputs and outputs.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/buckets/rondo_buckets.hpp"
#include "tools/python/src/arrays.h"

namespace rondo::python {

// The buckets of a session by the name of their family.
using Families = std::map<std::string, Buckets>;

// Holds all memory of a run. Created and destroyed with the interpreter's lock held.
struct PreparedRun {
  uint32_t program = 0;
  Buckets* buckets =
      nullptr;  // if not null, arrays have their true shapes, and the smallest bucket that fits runs
  std::deque<Port> ports;  // outputs with their true shapes
  std::vector<Array> arrays;
  std::vector<Tensor> inputs, outputs;
  nb::dict results;  // the outputs by name; the run fills them

  // Waits until the frameworks' work on the arrays is done. Returns "" or an error's text. Call it without
  // the interpreter's lock.
  std::string WaitForProducers(Gpus* gpus) const;
};

// `inputs`: {name: array}. `program`: a name, or None for the program that has these inputs. `outputs`: None
// for all but states, names, or {name: array} to be written. If an input lies on a GPU, outputs are made
// there. If no program has the inputs' shapes, or `program` names one of `families`, the smallest bucket that
// fits is used.
PreparedRun Prepare(const OpenPlan& plan, const Place& place, Families* families, nb::handle inputs,
                    nb::handle program, nb::handle outputs);

}  // namespace rondo::python
