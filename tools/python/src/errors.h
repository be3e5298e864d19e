// Rondo's errors as Python exceptions. rondo/errors.py has a class for each code.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace rondo::python {

namespace nb = nanobind;

// The codes (rondo_code, core's Code) that the binding itself raises.
constexpr int kInvalidArgument = 1, kNotFound = 2, kUnsupported = 3, kOutOfMemory = 5,
              kFailedPrecondition = 6;

// The caller of all functions here holds the interpreter's lock.
//
// Makes the exception. `code` is one of rondo_code. `node` is the model's own node, "" if unknown.
nb::object MakeError(int code, std::string_view message, std::string_view node = "");
[[noreturn]] void Raise(int code, std::string_view message, std::string_view node = "");

// A str from bytes that need not be UTF-8, as names from models may be.
nb::str Str(std::string_view bytes);

// The UTF-8 of a str; raises an error that begins with `what` if it has none (lone surrogates).
std::string Utf8Of(nb::handle text, std::string_view what);

// str(object).
std::string StringOf(nb::handle object);

// The type's name for messages: "numpy.ndarray".
std::string TypeName(nb::handle object);

// Converts seconds above 0, or None (which gives 0), to nanoseconds. `what` names the argument in the error.
uint64_t Nanoseconds(nb::handle seconds, const char* what);

}  // namespace rondo::python
