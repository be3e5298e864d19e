// Rondo's element types with their names in numpy (and ml_dtypes) and their DLPack codes.
#pragma once

#include <nanobind/ndarray.h>

#include <string>

#include "runtime/rondo.hpp"

namespace rondo::python {

struct ElementType {
  rondo_dtype dtype;
  const char* name;  // "float32", "bfloat16", "float8_e4m3fn"
  nanobind::dlpack::dtype dlpack;
  // For types that only ml_dtypes has, the integer type of their bits; else the type itself.
  const char* bits;
  bool in_numpy() const { return name == bits; }
};

const ElementType& TypeOf(rondo_dtype dtype);
const ElementType* FindType(nanobind::dlpack::dtype dtype);  // null if Rondo lacks the type
const ElementType* FindType(const std::string& name);
// "float32", "complex64", "code 17 of 4 bits": for messages.
std::string NameOf(nanobind::dlpack::dtype dtype);

}  // namespace rondo::python
