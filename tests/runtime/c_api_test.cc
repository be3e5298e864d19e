// The C interface in a C program (c_api_use.c), and rondo.hpp over it.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/rondo.hpp"
#include "tests/runtime/c_api_use.h"
#include "tests/runtime/tiny_c.h"
#ifdef RONDO_HAVE_HOST
#include "drivers/capi/rondo_host.h"
#endif

namespace {

using rondo::FakeHandle;
using rondo::live_drivers;
using rondo::PlanBytes;

rondo_driver* BrokenHandle() {
  ++live_drivers;
  return new rondo_driver{nullptr, rondo::Status::Error(rondo::Code::kUnsupported, "no such device"),
                          [](rondo_driver* handle) {
                            --live_drivers;
                            delete handle;
                          }};
}

TEST(CApi, WorksFromC) {
  EXPECT_STREQ(UsePlanFromC(PlanBytes().data(), PlanBytes().size(), FakeHandle()), nullptr);
  EXPECT_EQ(live_drivers, 0);
}

TEST(CApi, MistakesAreErrors) {
  EXPECT_STREQ(MisuseFromC(PlanBytes().data(), PlanBytes().size(), FakeHandle(), BrokenHandle()), nullptr);
  EXPECT_EQ(live_drivers, 0);
}

#ifdef RONDO_HAVE_HOST
TEST(CApi, WorksFromCOnTheHostDriver) {
  EXPECT_STREQ(UsePlanFromC(PlanBytes().data(), PlanBytes().size(), rondo_host_driver_create(2, 1)), nullptr);
}

TEST(CApi, AHostDriverThatCannotBeMadeSaysWhyInRuntimeCreate) {
  rondo_runtime* runtime = nullptr;
  rondo_error* error = rondo_runtime_create(rondo_host_driver_create(100000, 1), nullptr, &runtime);
  EXPECT_EQ(rondo_error_code(error), RONDO_INVALID_ARGUMENT) << rondo_error_message(error);
  rondo_error_destroy(error);
}
#endif

TEST(CppWrapper, RunsAPlan) {
  rondo::api::Plan plan;
  rondo::api::Error error = rondo::api::Plan::Open(std::as_bytes(std::span(PlanBytes())), &plan);
  ASSERT_FALSE(error) << error.message();
  rondo_port port;
  error = plan.FindInput(0, "x", &port);
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(port.dims[0], 4);
  rondo::api::Runtime runtime;
  error = rondo::api::Runtime::Create(FakeHandle(), &runtime);
  ASSERT_FALSE(error) << error.message();
  rondo::api::Session session;
  error = rondo::api::Session::Create(runtime, plan, &session);
  ASSERT_FALSE(error) << error.message();
  const float x[] = {10, 20, 30, 40};
  std::vector<float> y(4), total(4);
  error = session.Run(0, {rondo::api::In("x", x, {4})},
                      {rondo::api::Out("y", y), rondo::api::Out("total_out", total)});
  rondo::api::Session next;
  EXPECT_FALSE(rondo::api::Session::Create(runtime, plan, &next));
  EXPECT_FALSE(next.CopyStates(session));
  float copied[4] = {};
  EXPECT_FALSE(next.ReadState("total", std::as_writable_bytes(std::span(copied))));
  EXPECT_EQ(copied[3], total[3]);
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(y, (std::vector<float>{10, 40, 90, 160}));
  EXPECT_EQ(total, y);
  alignas(256) float there[128] = {1, 1, 1, 1};  // this driver's device memory is host memory
  error =
      session.Run(0, {rondo::api::DeviceIn("x", there, {4}, 4)}, {rondo::api::DeviceOut("y", there + 64, 4)});
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(there[67], 4);
  error = session.ReadState("total", std::as_writable_bytes(std::span(total)));
  EXPECT_FALSE(error);
  error = session.Run(0, {}, {});
  EXPECT_TRUE(error);
  EXPECT_EQ(error.code(), RONDO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.message(), "\"x\""), nullptr) << error.message();
}

TEST(CppWrapper, ElementTypesHaveTheirDTypes) {
  EXPECT_EQ(rondo::api::DTypeOf<float>(), RONDO_F32);
  EXPECT_EQ(rondo::api::DTypeOf<int64_t>(), RONDO_I64);
  EXPECT_EQ(rondo::api::DTypeOf<uint8_t>(), RONDO_U8);
  EXPECT_EQ(rondo::api::DTypeOf<int16_t>(), RONDO_I16);
  EXPECT_EQ(rondo::api::DTypeOf<bool>(), RONDO_BOOL);
}

}  // namespace
