// Converts between arrays of Python's frameworks and tensors of a run, by DLPack and without copies.
#pragma once

#include <nanobind/ndarray.h>

#include <string>
#include <vector>

#include "tools/python/src/dtypes.h"
#include "tools/python/src/gpus.h"
#include "tools/python/src/plan.h"

namespace rondo::python {

// Where a session's memory lies, as far as arrays depend on it.
struct Place {
  Gpus* gpus = nullptr;           // null: host memory
  std::vector<uint32_t> devices;  // the driver's number for each device of the plan
  int GpuOf(const Port& port) const { return static_cast<int>(devices[port.device]); }
};

// An array of the caller, or a new one. Keeps its memory alive. Created and destroyed with the interpreter's
// lock held.
struct Array {
  nb::ndarray<nb::ro> held;
  const ElementType* type = nullptr;
  rondo_memory memory = RONDO_HOST_MEMORY;
  int gpu = -1;  // the run must wait for this GPU's stream; -1: none

  std::vector<int64_t> shape() const { return {held.shape_ptr(), held.shape_ptr() + held.ndim()}; }
  // The tensor for `port`; it borrows the port's name.
  Tensor TensorFor(const Port& port) const;
  std::string Text() const;  // "float32[1, 3]"
};

// Takes the caller's object for `port`. Raises InvalidArgument if it is no array, lies on another device, is
// not dense and row-major, has a type that Rondo lacks, or, for an output, is read-only.
Array TakeArray(nb::handle object, const Port& port, bool output, const Place& place);

// Memory for an output, and the object that Python sees: a numpy array on the host, or, if `on_device`, an
// object with __dlpack__ on a GPU.
struct NewArray {
  Array array;
  nb::object seen;
};
NewArray MakeArray(const Port& port, bool on_device, const Place& place);

}  // namespace rondo::python
