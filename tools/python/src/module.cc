// rondo._rondo: the C++ half of the Python package, over rondo.hpp and compiler/compile.h.
#include "runtime/rondo.hpp"
#include "tools/python/src/compile.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/runtime.h"
#include "tools/python/src/session.h"
#include "tools/python/src/verify.h"

NB_MODULE(_rondo, m) {
  nanobind::set_leak_warnings(false);  // objects in a program's globals at exit are no leak
  m.attr("__version__") = rondo_version_string();
  rondo::python::DeclarePlan(m);
  rondo::python::DeclareRuntime(m);
  rondo::python::DeclareSession(m);
  rondo::python::DeclareCompile(m);
  rondo::python::DeclareVerify(m);
}
