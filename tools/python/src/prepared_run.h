// A run's arrays, from what Python gives: chosen program, inputs, outputs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/python/src/arrays.h"

namespace rondo::python {

// Holds all memory of a run. Made and destroyed with the interpreter's lock.
struct PreparedRun {
  uint32_t program = 0;
  std::vector<Array> arrays;
  std::vector<Tensor> inputs, outputs;
  nb::dict results;  // what the run gives: filled by it

  // Until the frameworks' work on the arrays is done. "" or an error's text. Without the interpreter's lock.
  std::string WaitForProducers(Gpus* gpus) const;
};

// `inputs`: {name: array}. `program`: a name or None, the one whose inputs these are. `outputs`: None, all
// but states; names; or {name: array}, to be written. Outputs of a run with an input on a GPU are made there.
PreparedRun Prepare(const OpenPlan& plan, const Place& place, nb::handle inputs, nb::handle program,
                    nb::handle outputs);

}  // namespace rondo::python
