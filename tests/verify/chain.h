// Chain: a small program made by hand, whose memory use tests damage, and a driver to verify it on.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "drivers/host/host_driver.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "runtime/verify/unchecked_plan.h"
#include "tests/plan/plan_maker.h"

namespace rondo {

// Buffers of 64 floats, 256 bytes each, with gaps between them:
//   0 in -> a    1 a -> b    2 b -> s (state)    3 w (constant) -> c    4 b -> c, in place of it    5 c ->
//   out
// a is dead after step 1. Node k is called `Copy "node_k"`.
class Chain : public Maker {
 public:
  static constexpr uint64_t kA = 768, kB = 1280, kC = 1792, kArena = 4096;
  uint32_t a, b, c, s, w;

  Chain() {
    arena_bytes = kArena;
    a = AddBuffer("a", kTemp, 64, kA);
    b = AddBuffer("b", kTemp, 64, kB);
    c = AddBuffer("c", kTemp, 64, kC);
    s = AddBuffer("s", BufferKind::kState, 64, 0);
    w = AddBuffer("w", BufferKind::kConstant, 64, 0);
    buffers[w].weight = WeightSource::kSynthetic;
    buffers[w].synthetic_scale = 1;
    Copy(kIn, a);
    Copy(a, b);
    Copy(b, s);
    Copy(w, c);
    Copy(b, c);
    Copy(c, kOut);
  }
  PlanData MakePlan() {
    std::vector<std::string_view> names;
    for (uint32_t i = 0; i < steps.size(); ++i) {
      names.push_back(arena.CopyText("Copy \"node_" + std::to_string(i) + "\""));
      steps[i].source = i;
    }
    for (Buffer& buffer : buffers) buffer.source = kNone;
    for (uint32_t i = 0; i < steps.size(); ++i) buffers[steps[i].bindings[1].buffer].source = i;
    PlanData plan = Make();
    const_cast<DeviceBytes&>(plan.requirements.devices[0]).state = 1024;
    const_cast<DeviceBytes&>(plan.requirements.devices[0]).weights = 256;
    plan.weights_bytes = 0;
    plan.requirements.target = "host";
    plan.sources = ListOf(arena, names);
    return plan;
  }
};

using HostDriverHandle = std::unique_ptr<Driver, void (*)(Driver*)>;

inline HostDriverHandle MakeHostDriver(uint32_t devices = 1, const OpRegistry* ops = nullptr) {
  HostOptions options;
  options.devices = devices;
  options.ops = ops;
  Result<Driver*> driver = CreateHostDriver(options);
  EXPECT_TRUE(driver.ok()) << driver.status().message();
  return HostDriverHandle(driver.ok() ? *driver : nullptr, DestroyHostDriver);
}

// All findings as text; "" if there are none.
inline std::string FindingsOf(const Plan& plan, Driver* driver, const VerifyOptions& options = {}) {
  Result<VerifyReport> report = VerifyLifecycle(plan, driver, options);
  if (!report.ok()) return std::string("not verified: ") + report.status().message();
  std::string text;
  for (const Finding& finding : report->findings) text += finding.Text() + "\n";
  return text;
}

// The same for a plan that the checker has not seen.
inline std::string FindingsOf(const PlanData& data) {
  const HostDriverHandle driver = MakeHostDriver(static_cast<uint32_t>(data.requirements.devices.size()));
  Result<Plan> plan = UncheckedPlan::FromData(data, {});
  if (!plan.ok()) return std::string("refused: ") + plan.status().message();
  return FindingsOf(*plan, driver.get());
}

}  // namespace rondo

// Expects that `findings` contain `words`.
#define EXPECT_FINDS(findings, words)                                                \
  do {                                                                               \
    const std::string finds_text = (findings);                                       \
    EXPECT_NE(finds_text.find(words), std::string::npos) << "found: " << finds_text; \
  } while (0)
