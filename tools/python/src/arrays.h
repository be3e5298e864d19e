// Arrays of Python's frameworks as tensors of a run, and the other way round, by DLPack and without copies.
#pragma once

#include <nanobind/ndarray.h>

#include <string>
#include <vector>

#include "tools/python/src/dtypes.h"
#include "tools/python/src/gpus.h"
#include "tools/python/src/plan.h"

namespace rondo::python {

// Where a session's memory is, as far as its arrays matter.
struct Place {
  Gpus* gpus = nullptr;           // null: the host's
  std::vector<uint32_t> devices;  // the driver's, of each device of the plan
  int GpuOf(const Port& port) const { return static_cast<int>(devices[port.device]); }
};

// An array of the caller's, or a new one. Holds its memory; made and destroyed with the interpreter's lock.
struct Array {
  nb::ndarray<nb::ro> held;
  const ElementType* type = nullptr;
  rondo_memory memory = RONDO_HOST_MEMORY;
  int gpu = -1;  // whose stream must be waited for first; -1: none

  std::vector<int64_t> shape() const { return {held.shape_ptr(), held.shape_ptr() + held.ndim()}; }
  // For `port`, whose name it borrows.
  Tensor TensorFor(const Port& port) const;
  std::string Text() const;  // "float32[1, 3]"
};

// Takes what the caller gives for `port`. Raises InvalidArgument for what is no array, lies on another
// device, is not dense and row-major, is of a type that Rondo lacks, or, if `output`, cannot be written.
Array TakeArray(nb::handle object, const Port& port, bool output, const Place& place);

// Memory for an output, and what Python sees of it: numpy's on the host; on a GPU, if `on_device`, an object
// with __dlpack__.
struct NewArray {
  Array array;
  nb::object seen;
};
NewArray MakeArray(const Port& port, bool on_device, const Place& place);

}  // namespace rondo::python
