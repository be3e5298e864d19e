// A run's arrays, from what Python gives: chosen program, inputs, outputs.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/buckets/rondo_buckets.hpp"
#include "tools/python/src/arrays.h"

namespace rondo::python {

// The buckets of a session, by what each family is called.
using Families = std::map<std::string, Buckets>;

// Holds all memory of a run. Made and destroyed with the interpreter's lock.
struct PreparedRun {
  uint32_t program = 0;
  Buckets* buckets = nullptr;  // not null: arrays are of true shape, for the least of these
  std::deque<Port> ports;      // outputs of true shape
  std::vector<Array> arrays;
  std::vector<Tensor> inputs, outputs;
  nb::dict results;  // what the run gives: filled by it

  // Until the frameworks' work on the arrays is done. "" or an error's text. Without the interpreter's lock.
  std::string WaitForProducers(Gpus* gpus) const;
};

// `inputs`: {name: array}. `program`: a name or None, the one whose inputs these are. `outputs`: None, all
// but states; names; or {name: array}, to be written. Outputs of a run with an input on a GPU are made there.
// Where no program has the inputs' shapes, or `program` is one of `families`, the least bucket takes them.
PreparedRun Prepare(const OpenPlan& plan, const Place& place, Families* families, nb::handle inputs,
                    nb::handle program, nb::handle outputs);

}  // namespace rondo::python
