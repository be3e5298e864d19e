// Prepared: the host driver's prepared form of a part, for tests of the path that it takes.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "drivers/host/module.h"
#include "tests/host/driver_case.h"
#include "tests/host/kernel_plan.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {

// The prepared form of one part, on a machine without dot products of bytes.
class Prepared {
 public:
  explicit Prepared(PartMaker& maker) {
    plan_.Add(maker);
    host::Engine engine = Engines().back();
    engine.bytes = engine.bytes_widened;
    Status status = Status::Ok();
    module_.reset(host::HostModule::Create(plan_.data, engine, {}, nullptr, &status));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  const host::PartProgram& operator*() const { return *module_->kernel(0)->parts[0]; }
  template <typename T>
  const T& As() const {
    return static_cast<const T&>(**this);
  }

 private:
  KernelPlan plan_;
  std::unique_ptr<host::HostModule> module_;
};

}  // namespace rondo::test
