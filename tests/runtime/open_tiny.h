// A tiny plan opened on a driver, ready for sessions.
#pragma once

#include <gtest/gtest.h>

#include "runtime/session.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {

// `tiny` and `driver` must outlive both.
inline Status OpenTiny(const TinyPlan& tiny, Driver* driver, Plan* plan, Runtime* runtime,
                       const RuntimeOptions& options = {}) {
  RONDO_ASSIGN_OR_RETURN(*plan, Plan::FromData(tiny.data, tiny.weight_bytes()));
  RONDO_ASSIGN_OR_RETURN(*runtime, Runtime::Create(driver, options));
  return Status::Ok();
}

// If there can be no session, fails the calling test and returns an empty handle.
inline Session MakeSession(const Runtime& runtime, const Plan& plan) {
  Result<Session> session = Session::Create(runtime, plan);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? session.Take() : Session();
}

// Computes y = x * w once.
inline Status RunAddOnce(Session& session) {
  const float x[4] = {1, 2, 3, 4};
  float y[4] = {};
  const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
  const Output outputs[] = {{"y", kNone, DType::kF32, y, 16}};
  RONDO_RETURN_IF_ERROR(session.Run(TinyPlan::kAdd, inputs, outputs));
  EXPECT_EQ(y[3], 16);
  return Status::Ok();
}

}  // namespace rondo
