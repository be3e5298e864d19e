// WithGpu: for tests of compiled plans on a GPU; skipped without a GPU or libnvrtc.
#pragma once

#include <gtest/gtest.h>

#include "drivers/cuda/cuda_driver.h"
#include "tests/cuda/have_nvrtc.h"

namespace rondo {

// A fixture with a driver of all GPUs. Everything that uses the driver must be destroyed before TearDown.
class WithGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
    const Result<Driver*> driver = CreateCudaDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    driver_ = *driver;
  }
  void TearDown() override {
    if (driver_ != nullptr) DestroyCudaDriver(driver_);
  }

  Driver* driver_ = nullptr;
};

}  // namespace rondo
