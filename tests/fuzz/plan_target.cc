// The plan: container, flatbuffer, semantic verifier, checker, then armed and run on the host driver.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "formats/plan/check/checker.h"
#include "formats/plan/decode.h"
#include "formats/plan/format.h"
#include "formats/plan/reader.h"
#include "formats/plan/verifier.h"
#include "tests/fuzz/memory_meter.h"
#include "tests/fuzz/plan_bytes.h"
#include "tests/fuzz/plan_mutator.h"
#include "tests/fuzz/plan_runner.h"
#include "tests/fuzz/plan_seeds.h"
#include "tests/fuzz/target.h"

namespace rondo::fuzz {
namespace {

enum Stage : size_t {
  kContainer,
  kFlatbuffer,
  kVerifier,
  kChecker,
  kTooLarge,
  kNotArmed,
  kRunFailed,
  kStopped,
  kRan,
};
constexpr const char* kStages[] = {
    "refused by the container",     "refused by the flatbuffer",       "refused by the verifier",
    "refused by the checker",       "valid but too large to arm here", "valid but not armed",
    "ended in an error of the run", "ended by the run's time limit",   "ran"};

// Memory that reading, verifying and checking a file may use: a multiple of the flatbuffer's size plus a
// base.
constexpr uint64_t kBytesPerByte = 128, kBaseBytes = 1 << 20;

// A copy of the input on pages, like a mapped file, followed by an inaccessible page.
class PageCopy {
 public:
  explicit PageCopy(Span<const uint8_t> bytes) : size_(bytes.size()) {
    void* block = nullptr;
    if (posix_memalign(&block, kPlanPage, size_ + (size_ == 0)) != 0) Broken("no memory for the input");
    bytes_ = static_cast<uint8_t*>(block);
    if (size_ != 0) std::memcpy(bytes_, bytes.data(), size_);
  }
  PageCopy(const PageCopy&) = delete;
  PageCopy& operator=(const PageCopy&) = delete;
  ~PageCopy() { std::free(bytes_); }
  Span<const uint8_t> get() const { return {bytes_, size_}; }

 private:
  uint8_t* bytes_ = nullptr;
  size_t size_;
};

class Plans final : public Target {
 public:
  const char* name() const override { return "plan"; }
  Span<const char* const> stages() const override { return kStages; }
  Bytes Mutate(Span<const uint8_t> input, Random& random) override { return MutatePlan(input, random); }
  std::vector<Seed> MakeSeeds() override { return MakePlanSeeds(); }

  size_t Run(Span<const uint8_t> input) override {
    const PageCopy file(input);
    meter_.Reset();
    const Stage stage = Check(file.get());
    if (meter_.peak() > kBaseBytes + kBytesPerByte * input.size()) {
      Broken("checking a plan of %zu bytes took %llu bytes of memory", input.size(),
             static_cast<unsigned long long>(meter_.peak()));
    }
    if (stage != kRan) return stage;
    return Execute(file.get());
  }

 private:
  Stage Check(Span<const uint8_t> file) {
    Arena arena(meter_.allocator());
    ReadOptions options;
    options.allocator = meter_.allocator();
    Result<PlanFile> plan = ReadPlan(file, options, arena);
    if (!plan.ok()) return IsFlatbufferAtFault(file) ? kFlatbuffer : kContainer;
    if (!VerifyPlan(plan->data, meter_.allocator()).ok()) return kVerifier;
    if (!CheckPlan(plan->data, meter_.allocator()).ok()) return kChecker;
    return kRan;
  }

  // For a plan that could not be read: whether the flatbuffer, not the container, is at fault.
  bool IsFlatbufferAtFault(Span<const uint8_t> file) {
    PlanParts parts;
    Bytes sealed(file.begin(), file.end());
    Reseal(&sealed);
    const bool intact = std::equal(sealed.begin(), sealed.end(), file.begin());
    if (!intact || !TakeApart(file, &parts)) return false;  // a wrong hash is the container's fault
    Arena arena(meter_.allocator());
    PlanData plan;
    return !DecodePlan({parts.flatbuffer.data(), parts.flatbuffer.size()},
                       {parts.code.data(), parts.code.size()}, arena, &plan)
                .ok();
  }

  // Opens the plan again, as an embedder does, and runs it.
  Stage Execute(Span<const uint8_t> file) {
    const HostAllocator allocator = meter_.allocator();
    PlanOptions options;
    options.allocator = &allocator;
    Result<Plan> plan = Plan::Open(file, options);
    if (!plan.ok()) Broken("a plan that was read, verified and checked: %s", plan.status().message());
    switch (runner_.Run(*plan, HashBytes(file.data(), file.size()))) {
      case RunEnd::kTooLarge: return kTooLarge;
      case RunEnd::kNotArmed: return kNotArmed;
      case RunEnd::kFailed: return kRunFailed;
      case RunEnd::kStopped: return kStopped;
      default: return kRan;
    }
  }

  MemoryMeter meter_;
  PlanRunner runner_;
};

}  // namespace

std::unique_ptr<Target> PlanTarget() { return std::make_unique<Plans>(); }

}  // namespace rondo::fuzz
