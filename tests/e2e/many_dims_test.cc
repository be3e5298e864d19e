// Tensors of up to 12 dims through the C and C++ interfaces.
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "drivers/capi/rondo_host.h"
#include "runtime/rondo.hpp"
#include "tests/e2e/plan_files.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

class ManyDims : public testing::Test {
 protected:
  void Open(const std::vector<int64_t>& dims) {
    ASSERT_TRUE(WriteReversedPlan(folder_.File("plan.rondo"), dims));
    const Error error = Plan::Open(folder_.File("plan.rondo").c_str(), &plan_);
    ASSERT_FALSE(error) << error.message();
  }

  TemporaryFolder folder_;
  Plan plan_;
};

TEST_F(ManyDims, AreReversed) {
  const std::vector<int64_t> dims = {2, 1, 3, 2, 1, 2, 1, 2, 3, 1, 2, 2};
  Open(dims);
  rondo_port port;
  ASSERT_FALSE(plan_.FindOutput(0, "y", &port));
  ASSERT_EQ(port.rank, 12u);
  EXPECT_EQ(std::vector<int64_t>(port.all_dims, port.all_dims + 12),
            std::vector<int64_t>(dims.rbegin(), dims.rend()));
  EXPECT_EQ(std::vector<int64_t>(port.dims, port.dims + 8),
            std::vector<int64_t>(dims.rbegin(), dims.rbegin() + 8));
  Runtime runtime;
  Session session;
  ASSERT_FALSE(Runtime::Create(rondo_host_driver_create(1, 1), &runtime));
  ASSERT_FALSE(Session::Create(runtime, plan_, &session));
  std::vector<float> x(576), y(576);
  std::iota(x.begin(), x.end(), 1.0f);
  const Error error = session.Run(0, {In("x", x, {2, 1, 3, 2, 1, 2, 1, 2, 3, 1, 2, 2})}, {Out("y", y)});
  ASSERT_FALSE(error) << error.message();
  for (size_t i = 0; i < x.size(); ++i) {
    size_t rest = i, at = 0, stride = x.size();
    std::vector<size_t> index(12);
    for (size_t d = 12; d-- > 0; rest /= static_cast<size_t>(dims[d]))
      index[d] = rest % static_cast<size_t>(dims[d]);
    for (size_t d = 12; d-- > 0;) at += index[d] * (stride /= static_cast<size_t>(dims[d]));
    ASSERT_EQ(y[at], -x[i]) << i;
  }
}

TEST_F(ManyDims, AreRefusedToProgramsThatKnowEight) {
  Open({1, 2, 1, 2, 1, 2, 1, 2, 3});
  rondo_port port = {};
  port.size = offsetof(rondo_port, all_dims);
  const Error error(rondo_plan_get_port(plan_.get(), 0, RONDO_INPUT, 0, &port));
  ASSERT_TRUE(error);
  EXPECT_NE(std::string(error.message()).find("too small"), std::string::npos) << error.message();
}

TEST_F(ManyDims, OfEightAreGivenToThem) {
  Open({1, 2, 1, 2, 1, 2, 1, 2});
  rondo_port port = {};
  port.size = offsetof(rondo_port, all_dims);
  ASSERT_FALSE(Error(rondo_plan_get_port(plan_.get(), 0, RONDO_INPUT, 0, &port)));
  EXPECT_EQ(port.dims[7], 2);
}

TEST_F(ManyDims, AboveTwelveDoNotCompile) {
  EXPECT_FALSE(WriteReversedPlan(folder_.File("plan.rondo"), std::vector<int64_t>(13, 1)));
}

}  // namespace
}  // namespace rondo
