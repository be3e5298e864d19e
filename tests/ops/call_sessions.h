// CallSessions: the plan of tests/plan/call_plan.h in sessions on any driver.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/custom_op.h"
#include "runtime/session.h"
#include "tests/plan/call_plan.h"

namespace rondo {

// Its constructor sets the counts of the ops to 0. The driver must be made with `ops`.
struct CallSessions {
  CallSessions() : sample(MakeCallSample()) {
    EXPECT_TRUE(ops.Register("libtest.so", RegisterTestOps).ok());
    OpCounts& counts = CountsOfTestOps();
    counts.created = counts.destroyed = counts.scaled = counts.taps = 0;
  }
  // `driver` must live until Close.
  Status Open(Driver* driver, int count = 1) {
    RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::FromData(sample.data, {}));
    RONDO_ASSIGN_OR_RETURN(runtime, Runtime::Create(driver));
    for (int i = 0; i < count; ++i) {
      RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
      sessions.push_back(std::move(session));
    }
    return Status::Ok();
  }
  void Close() {
    sessions.clear();
    runtime = Runtime();
  }
  // Runs y = 3 x and total += 2 x on vectors of 4 floats.
  Status Run(const std::vector<float>& x, std::vector<float>* y, bool stepwise = false, size_t session = 0) {
    y->assign(4, 0);
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x.data(), 16}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y->data(), 16}};
    RunOptions options;
    options.stepwise = stepwise;
    return sessions[session].Run(0, inputs, outputs, options);
  }
  std::vector<float> Total(size_t session = 0) {
    std::vector<float> total(4);
    EXPECT_TRUE(sessions[session].ReadState("total", total.data(), 16).ok());
    return total;
  }

  Sample sample;
  OpRegistry ops;
  Runtime runtime;
  std::vector<Session> sessions;
};

}  // namespace rondo
