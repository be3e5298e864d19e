#include "tools/python/src/verify.h"

#include <nanobind/stl/string.h>

#include "runtime/testing/lifecycle.h"
#include "runtime/testing/peak.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/runtime.h"

namespace rondo::python {
namespace {

nb::str Verify(const PlanObject& plan, const std::string& driver, uint32_t threads) {
  CheckDriverName(driver);
  std::string findings;
  {
    nb::gil_scoped_release unlocked;
    const api::Plan& opened = plan.plan->plan;
    findings = testing::TakeText(
        rondo_testing_verify(opened.get(), MakeDriver(driver, threads, testing::DevicesOf(opened))));
  }
  return Str(findings);
}

nb::str Mismatch(const PlanObject& plan, uint32_t kind, const std::string& value, const std::string& other,
                 const std::string& program, uint64_t bytes) {
  return Str(testing::TakeText(rondo_testing_mismatch(plan.plan->plan.get(), kind, value.c_str(),
                                                      other.c_str(), program.c_str(), bytes)));
}

}  // namespace

void DeclareVerify(nb::module_& m) {
  m.def("_verify", Verify, nb::arg("plan"), nb::arg("driver"), nb::arg("threads"));
  m.def("_mismatch", Mismatch, nb::arg("plan"), nb::arg("kind"), nb::arg("value"), nb::arg("other"),
        nb::arg("program"), nb::arg("bytes"));
  m.def("_peak_text", [](const PlanObject& plan) { return Str(testing::PeakText(plan.plan->plan)); });
  m.attr("_REUSES_MEMORY") = static_cast<int>(RONDO_REUSES_MEMORY);
  m.attr("_SHARES_MEMORY") = static_cast<int>(RONDO_SHARES_MEMORY);
  m.attr("_DIES_AFTER") = static_cast<int>(RONDO_DIES_AFTER);
  m.attr("_UPDATED_IN_PLACE") = static_cast<int>(RONDO_UPDATED_IN_PLACE);
  m.attr("_COPIES_AT_MOST") = static_cast<int>(RONDO_COPIES_AT_MOST);
}

}  // namespace rondo::python
