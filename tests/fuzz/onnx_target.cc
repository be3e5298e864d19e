// Models go through reader, importer and every pass to the emitted plan. The plan must satisfy verifier and
// checker, and run.
#include "formats/plan/format.h"
#include "runtime/plan.h"
#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/plan_runner.h"
#include "tests/fuzz/plan_seeds.h"
#include "tests/fuzz/target.h"

namespace rondo::fuzz {
namespace {

enum Stage : size_t {
  kRefused,
  kUnsupported,
  kTooManyNodes,
  kTooLarge,
  kNotArmed,
  kRunFailed,
  kStopped,
  kRan
};
constexpr const char* kStages[] = {"refused",
                                   "refused as not supported",
                                   "imported but too many nodes to compile here",
                                   "compiled but too large to run here",
                                   "compiled but not armed",
                                   "ended in an error of the run",
                                   "ended by the run's time limit",
                                   "ran"};

class Models final : public Target {
 public:
  const char* name() const override { return "onnx"; }
  Span<const char* const> stages() const override { return kStages; }
  Bytes Mutate(Span<const uint8_t> input, Random& random) override { return MutateModel(input, random); }
  std::vector<Seed> MakeSeeds() override { return MakeModelSeeds(); }

  size_t Run(Span<const uint8_t> input) override {
    Result<Bytes> bytes = CompileBytes(input);
    if (!bytes.ok()) {
      const Code code = bytes.status().code();
      if (code == Code::kInternal) Broken("%s", bytes.status().message());
      if (code == Code::kAborted) return kTooManyNodes;
      return code == Code::kUnsupported ? kUnsupported : kRefused;
    }
    // In a mapped file weights lie on pages; here they are copied.
    Result<Plan> plan = Plan::Open({bytes->data(), bytes->size()});
    if (!plan.ok()) Broken("a compiled plan is refused: %s", plan.status().message());
    switch (runner_.Run(*plan, HashBytes(input.data(), input.size()))) {
      case RunEnd::kTooLarge: return kTooLarge;
      case RunEnd::kNotArmed: return kNotArmed;
      case RunEnd::kFailed: return kRunFailed;
      case RunEnd::kStopped: return kStopped;
      default: return kRan;
    }
  }

 private:
  PlanRunner runner_;
};

}  // namespace

std::unique_ptr<Target> OnnxTarget() { return std::make_unique<Models>(); }

}  // namespace rondo::fuzz
