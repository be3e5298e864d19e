// Times each kernel of a plan by itself: one graph launches it again and again. Unlike `rondo bench`, no
// event follows each step. Weights are not loaded; the kernels run over memory of the right size.
//
//   kernel_times PLAN FIRST_INTEGER SKELETON...
//
// Times the kernels that have a part of one of the skeletons (attention, reduction, map, ...), and their
// alternatives if the plan has some (rondo compile --alternatives). Integer buffers (positions, limits,
// indices) hold FIRST_INTEGER and the numbers after it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "runtime/plan.h"
#include "tools/rondo/kernel_timer.h"

namespace rondo::tools {
namespace {

// The plan with another binary for one kernel. Not movable, because the plan points into this object.
struct Exchanged {
  Exchanged(const PlanData& of, uint32_t k, const KernelBinary& binary)
      : binaries(of.modules[0].binaries.begin(), of.modules[0].binaries.end()),
        module(of.modules[0]),
        plan(of) {
    binaries[k] = binary;
    module.binaries = binaries;
    plan.modules = Span<const CodeModule>(&module, 1);
  }
  Exchanged(const Exchanged&) = delete;
  std::vector<KernelBinary> binaries;
  CodeModule module;
  PlanData plan;
};

// Times the alternatives of kernel k. They stay loaded, so `plans` must live as long as `timer`.
Status TimeAlternatives(const PlanData& data, uint32_t k, KernelTimer* timer, std::deque<Exchanged>* plans) {
  if (data.modules.empty()) return Status::Ok();
  for (const KernelAlternative& alternative : data.modules[0].alternatives) {
    if (alternative.kernel != k) continue;
    plans->emplace_back(data, k, alternative.binary);
    RONDO_ASSIGN_OR_RETURN(const size_t loaded, timer->Load(plans->back().plan));
    RONDO_ASSIGN_OR_RETURN(const double time, timer->Time(k, loaded));
    std::printf("  %-44s %8.2f µs\n", std::string(alternative.choice).c_str(), time);
  }
  return Status::Ok();
}

Status Main(const char* path, int64_t first_integer, const std::set<std::string>& skeletons) {
  RONDO_ASSIGN_OR_RETURN(const Plan plan, Plan::Open(path));
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriver());
  RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
  KernelTimerOptions options;
  options.first_integer = first_integer;
  options.replays = 10;
  std::deque<Exchanged> plans;
  KernelTimer timer(plan.data(), device, options);
  RONDO_RETURN_IF_ERROR(timer.Open());
  RONDO_ASSIGN_OR_RETURN(const size_t binaries, timer.Load(plan.data()));
  for (uint32_t k = 0; k < plan.data().kernels.size(); ++k) {
    const Kernel& kernel = plan.data().kernels[k];
    const bool chosen = std::any_of(kernel.parts.begin(), kernel.parts.end(), [&](const Part& part) {
      return skeletons.count(Name(part.skeleton)) != 0;
    });
    if (!chosen) continue;
    RONDO_ASSIGN_OR_RETURN(const double time, timer.Time(k, binaries));
    std::printf("%-20s %8.2f µs\n", std::string(kernel.name).c_str(), time);
    RONDO_RETURN_IF_ERROR(TimeAlternatives(plan.data(), k, &timer, &plans));
    std::fflush(stdout);
  }
  return Status::Ok();
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: kernel_times PLAN FIRST_INTEGER SKELETON...\n");
    return 2;
  }
  const rondo::Status status =
      rondo::tools::Main(argv[1], std::atoll(argv[2]), std::set<std::string>(argv + 3, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "kernel_times: %s\n", status.message());
  return 1;
}
