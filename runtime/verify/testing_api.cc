// librondo_verify: the functions of runtime/testing/rondo_verify.h. Another copy of the runtime, librondo,
// has opened the plan. Both share layouts and must be of one release.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/driver_handle.h"
#include "core/printable.h"
#include "runtime/c_handles.h"
#include "runtime/testing/rondo_verify.h"
#include "runtime/verify/expectation.h"
#include "runtime/verify/lifecycle_verifier.h"

namespace rondo {
namespace {

// A copy that the caller frees; "" gives NULL.
char* Given(const std::string& lines) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    text += Printable(std::string_view(lines).substr(at, end - at)) + (end < lines.size() ? "\n" : "");
    at = end + 1;
  }
  if (text.empty()) return nullptr;
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

std::string VerifyOn(const Plan& plan, const rondo_driver& driver) {
  if (driver.driver == nullptr) return std::string("there is no driver: ") + driver.status.message();
  const Result<VerifyReport> report = VerifyLifecycle(plan, driver.driver);
  if (!report.ok()) return std::string("the plan could not be tried: ") + report.status().message();
  std::string text;
  for (const Finding& finding : report->findings) text += finding.Text() + "\n";
  return text;
}

}  // namespace
}  // namespace rondo

char* rondo_testing_verify(const rondo_plan* plan, rondo_driver* driver) {
  if (driver == nullptr) return rondo::Given("there is no driver: it is NULL");
  const std::string text = plan == nullptr ? "the plan is not open" : rondo::VerifyOn(plan->plan, *driver);
  driver->destroy(driver);
  return rondo::Given(text);
}

char* rondo_testing_mismatch(const rondo_plan* plan, uint32_t kind, const char* value, const char* other,
                             const char* program, uint64_t bytes) {
  if (plan == nullptr) return rondo::Given("the plan is not open");
  const rondo::MemoryExpectation expectation = {static_cast<rondo::ExpectationKind>(kind),
                                                rondo::TextOf(value), rondo::TextOf(other),
                                                rondo::TextOf(program), bytes};
  return rondo::Given(rondo::Mismatch(plan->plan.data(), expectation));
}

void rondo_testing_free(char* text) { std::free(text); }
