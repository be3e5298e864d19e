// Branches that are decided at run time, on the host driver: a branch that is not taken does not run, and a
// replay over poisoned memory gives the same results.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/verify/lifecycle_verifier.h"
#include "tests/e2e/branch_models.h"

namespace rondo {
namespace {

constexpr int64_t kEdge = 64;

// y = c ? x v w + x : tanh(x w), all kEdge x kEdge. If nested, the first branch is x v alone or x v w + x, by
// d.
ModelMaker Products(bool nested) {
  ModelMaker m;
  m.Input("c", {}, kBool);
  if (nested) m.Input("d", {}, kBool);
  for (const char* name : {"x", "v", "w"}) m.Input(name, {kEdge, kEdge});
  const Branch long_way = [](onnx::GraphProto* g) {
    ModelMaker::Node(g, "MatMul", {"xv", "w"}, {"xvw"});
    ModelMaker::Node(g, "Add", {"xvw", "x"}, {"deep"});
  };
  If(
      m.graph(), "c", "y",
      [&](onnx::GraphProto* g) {
        ModelMaker::Node(g, "MatMul", {"x", "v"}, {"xv"});
        if (!nested) {
          long_way(g);
          ModelMaker::Node(g, "Identity", {"deep"}, {"y_yes"});
          return;
        }
        If(g, "d", "y_yes", Of("Identity", {"xv"}, "y_yes_yes"), [&](onnx::GraphProto* inner) {
          long_way(inner);
          ModelMaker::Node(inner, "Identity", {"deep"}, {"y_yes_no"});
        });
      },
      [](onnx::GraphProto* g) {
        ModelMaker::Node(g, "MatMul", {"x", "w"}, {"xw"});
        ModelMaker::Node(g, "Tanh", {"xw"}, {"y_no"});
      });
  m.Output("y");
  return m;
}

std::map<std::string, std::vector<double>> Inputs(bool c, bool d) {
  std::map<std::string, std::vector<double>> in = {{"c", {double(c)}}, {"d", {double(d)}}};
  for (const char* name : {"x", "v", "w"}) {
    for (int k = 0; k < 61; ++k) in[name].push_back((k * 7 % 23 - 11) / 50.0 + name[0] / 1000.0);
  }
  return in;
}

TEST(BranchConditions, ResultsAreThoseOfTheBranchThatIsTaken) {
  const auto live = Live(Products(true));
  size_t conditional = 0;
  for (const Kernel& kernel : live->data().kernels) {
    for (const Part& part : kernel.parts) conditional += part.when.empty() ? 0 : 1;
  }
  EXPECT_GE(conditional, 3u);
  const auto in = Inputs(false, false);
  const auto at = [&](const char* name, int64_t i) {
    const auto& values = in.at(name);
    return values[static_cast<size_t>(i) % values.size()];
  };
  std::vector<double> xv(kEdge * kEdge), xw = xv, xvw = xv;
  const auto product = [&](const auto& a, const auto& b, std::vector<double>* out) {
    for (int64_t i = 0; i < kEdge; ++i) {
      for (int64_t j = 0; j < kEdge; ++j) {
        for (int64_t k = 0; k < kEdge; ++k)
          (*out)[static_cast<size_t>(i * kEdge + j)] += a(i * kEdge + k) * b(k * kEdge + j);
      }
    }
  };
  const auto x = [&](int64_t i) { return at("x", i); };
  const auto v = [&](int64_t i) { return at("v", i); };
  const auto w = [&](int64_t i) { return at("w", i); };
  product(x, v, &xv);
  product(x, w, &xw);
  product([&](int64_t i) { return xv[static_cast<size_t>(i)]; }, w, &xvw);
  for (int taken = 0; taken < 4; ++taken) {
    const bool c = taken < 2, d = taken % 2 == 0;
    const Ran ran = RunWith(*live, Inputs(c, d));
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    for (size_t i = 0; i < ran.y.size(); ++i) {
      const double want = !c ? std::tanh(xw[i]) : d ? xv[i] : xvw[i] + x(static_cast<int64_t>(i));
      ASSERT_NEAR(ran.y[i], want, 1e-3 * (1 + std::abs(want))) << c << d << " element " << i;
    }
  }
}

// Results do not depend on the old bytes in memory that a skipped kernel would have written.
TEST(BranchConditions, ReplayOverPoisonFindsNothing) {
  for (const bool nested : {false, true}) {
    const auto live = Live(Products(nested));
    Driver* driver = CreateHostDriver(HostOptions()).Take();
    for (const bool c : {false, true}) {
      LiveModel::Buffers buffers = live->MakeBuffers(0);
      buffers.input_bytes[0][0] = c ? 1 : 0;
      VerifyOptions options;
      options.inputs = {buffers.inputs};
      options.reopenings = 0;
      const Result<VerifyReport> report = VerifyLifecycle(live->plan(), driver, options);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_TRUE(report->ok()) << report->findings.size();
    }
    delete driver;
  }
}

}  // namespace
}  // namespace rondo
