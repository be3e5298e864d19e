#include "tools/python/src/errors.h"

#include <nanobind/stl/string.h>

#include <cmath>

namespace rondo::python {

nb::str Str(std::string_view bytes) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

nb::object MakeError(int code, std::string_view message, std::string_view node) {
  return nb::module_::import_("rondo.errors").attr("make")(code, Str(message), Str(node));
}

void Raise(int code, std::string_view message, std::string_view node) {
  const nb::object error = MakeError(code, message, node);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

std::string Utf8Of(nb::handle text, std::string_view what) {
  std::string bytes;
  if (nb::try_cast(text, bytes)) return bytes;
  PyErr_Clear();
  Raise(kInvalidArgument, std::string(what) + " " + nb::cast<std::string>(nb::repr(text)) +
                              " is no text that UTF-8 can encode");
}

std::string StringOf(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

std::string TypeName(nb::handle object) {
  const nb::handle type = object.type();
  const std::string module = nb::cast<std::string>(type.attr("__module__"));
  return (module == "builtins" ? "" : module + ".") + nb::cast<std::string>(type.attr("__qualname__"));
}

uint64_t Nanoseconds(nb::handle seconds, const char* what) {
  if (seconds.is_none()) return 0;
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
  // Above 2^63 nanoseconds (292 years) there is in effect no limit.
  if (!(value > 0) || std::isinf(value)) {
    Raise(kInvalidArgument, std::string(what) + " is " + nb::cast<std::string>(nb::repr(seconds)) +
                                ": give a number of seconds above 0, or None for no limit");
  }
  return value >= 9.2e9 ? 0 : static_cast<uint64_t>(std::ceil(value * 1e9));
}

}  // namespace rondo::python
