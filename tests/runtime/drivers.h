// The drivers for tests of the runtime: the fake one, and the host driver if it is built.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/driver.h"
#include "tests/runtime/fake_driver.h"
#ifdef RONDO_HAVE_HOST
#include "drivers/host/host_driver.h"
#endif

namespace rondo {

using DriverHandle = std::unique_ptr<Driver, void (*)(Driver*)>;

inline std::vector<const char*> DriverNames() {
#ifdef RONDO_HAVE_HOST
  return {"fake", "host"};
#else
  return {"fake"};
#endif
}

// Null if it cannot be made.
inline DriverHandle MakeDriver(std::string_view name) {
#ifdef RONDO_HAVE_HOST
  if (name == "host") {
    HostOptions options;
    options.threads = 2;
    Result<Driver*> driver = CreateHostDriver(options);
    return DriverHandle(driver.ok() ? *driver : nullptr, DestroyHostDriver);
  }
#endif
  return DriverHandle(name == "fake" ? new FakeDriver() : nullptr, [](Driver* driver) { delete driver; });
}

}  // namespace rondo
