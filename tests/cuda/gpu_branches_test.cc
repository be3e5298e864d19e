// An If that is decided at run time, in generated kernels: indices out of range count only in the branch that
// is taken.
#include "tests/cuda/with_gpu.h"
#include "tests/e2e/branch_models.h"

namespace rondo {
namespace {

class GpuBranches : public WithGpu {};

TEST_F(GpuBranches, FaultWhereTheyAreTaken) {
  ModelMaker m;
  m.Input("c", {}, kBool);
  m.Input("data", {64, 32});
  m.Input("index", {4}, kInt64);
  m.Input("row", {2, 1}, kInt64);
  m.Input("updates", {2, 32});
  m.Input("other", {4, 32});
  If(m.graph(), "c", "y", Of("Gather", {"data", "index"}, "y_yes"),
     Of("ScatterND", {"other", "row", "updates"}, "y_no"));
  m.Output("y");
  const auto live = Live(m, driver_);
  std::map<std::string, std::vector<double>> in = {{"c", {1}},        {"data", {5}},  {"index", {3}},
                                                   {"row", {1, -99}}, {"other", {4}}, {"updates", {6}}};
  Ran ran = RunWith(*live, in);
  ASSERT_TRUE(ran.status.ok()) << ran.status.message();
  EXPECT_EQ(ran.y, std::vector<float>(128, 5));
  in["c"] = {0};
  EXPECT_TRUE(Says(RunWith(*live, in).status, {"index -9", "out of range", "ScatterND_y_no"}));
  in["index"] = {99};
  EXPECT_TRUE(Says(RunWith(*live, in).status, {"index -9", "ScatterND_y_no"}));
  in["row"] = {1, 2};
  ran = RunWith(*live, in);
  ASSERT_TRUE(ran.status.ok()) << ran.status.message();
  for (size_t k = 0; k < 128; ++k) EXPECT_EQ(ran.y[k], k / 32 == 1 || k / 32 == 2 ? 6 : 4);
  in["c"] = {1};
  EXPECT_TRUE(Says(RunWith(*live, in).status, {"index 99", "Gather_y_yes"}));
}

}  // namespace
}  // namespace rondo
