// Rondo's errors as Python's: rondo/errors.py has a class for each code.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace rondo::python {

namespace nb = nanobind;

// Numbers of rondo_code and core's Code that the binding itself gives.
constexpr int kInvalidArgument = 1, kNotFound = 2, kUnsupported = 3, kOutOfMemory = 5,
              kFailedPrecondition = 6;

// All functions here are called with the interpreter's lock.
//
// The exception; `code` as in rondo_code. `node`: the model's own node, "" when unknown.
nb::object MakeError(int code, std::string_view message, std::string_view node = "");
[[noreturn]] void Raise(int code, std::string_view message, std::string_view node = "");

// A str of bytes that need not be UTF-8: names come from models.
nb::str Str(std::string_view bytes);

// str(object).
std::string StringOf(nb::handle object);

// "numpy.ndarray": what messages call an object.
std::string TypeName(nb::handle object);

// Nanoseconds of None (0) or a number of seconds above 0. `what` names it in the error.
uint64_t Nanoseconds(nb::handle seconds, const char* what);

}  // namespace rondo::python
