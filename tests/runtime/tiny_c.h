// The tiny plan and the fake driver for tests of the C interface.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/driver_handle.h"
#include "formats/plan/writer.h"
#include "runtime/rondo.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {

inline int live_drivers = 0;

inline rondo_driver* FakeHandle() {
  ++live_drivers;
  return new rondo_driver{new FakeDriver(), {}, [](rondo_driver* handle) {
                            --live_drivers;
                            delete static_cast<FakeDriver*>(handle->driver);
                            delete handle;
                          }};
}

// The tiny plan as the bytes of a file.
inline const std::vector<uint8_t>& PlanBytes() {
  static const std::vector<uint8_t> bytes = [] {
    static TinyPlan tiny;
    std::vector<uint8_t> out;
    Status status = WritePlanBytes(
        tiny.data,
        [](uint32_t, uint64_t first, uint64_t count, uint8_t* to) {
          std::memcpy(to, tiny.weight_bytes().data() + first, count);
          return Status::Ok();
        },
        &out);
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }();
  return bytes;
}

}  // namespace rondo
