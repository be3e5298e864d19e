// CheckKernels: each kernel of a plan alone, on one driver and on another that is believed, over the same
// canaried memory (kernel_memory.h).
//
// Of each kernel: bytes outside what its contract writes keep their value, inputs and canaries alike; what it
// writes agrees with the other driver's, element by element, within KernelTolerance; and a second launch with
// one index out of its bounds is reported as an error by both and writes nothing it may not.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/driver.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo::tools {

// Greatest error of one element, over the larger of its magnitude and the root mean square of all that its
// operand writes. 0 (equal) for integers, and for parts that only move, select, compare or convert; but bytes
// that floats are quantised to, where those depend on the order in which they are added up, may be one step
// off (an absolute error of 1), in one element of 64 at most. Otherwise
// by the coarsest float type among the part's operands, since what stands between its loops may be rounded to
// it: f64 1e-9, f32 1e-4, f16 and tf32 2^-8, bf16 2^-5; attention in 16 bits twice that, because its
// probabilities are rounded before they weigh values that may cancel.
double KernelTolerance(const Part& part, const Operand& written);

struct KernelVerdict {
  uint32_t kernel = 0;
  uint64_t bytes = 0;                 // of memory laid out for it, canaries included
  uint64_t elements = 0;              // compared
  double greatest_error = 0;          // as KernelTolerance measures it
  double tolerance = 0;               // the loosest that applied
  std::vector<std::string> failures;  // sentences: source node, operand, place, got and expected
};

struct KernelCheckOptions {
  uint64_t seed = 1;
  std::string only;  // a kernel's name; "": all
  // Called after each kernel.
  std::function<void(const KernelVerdict&)> progress;
};

// Verdicts of all kernels; an error when one of the drivers could not be used at all (a device that stopped
// working names the kernel). `plan` must have passed VerifyPlan. Uses device 0 of each driver.
Result<std::vector<KernelVerdict>> CheckKernels(const PlanData& plan, Driver* tested, Driver* believed,
                                                const KernelCheckOptions& options);

// The same for other binaries of one kernel: `others` differ from `plan` in nothing else. Believed is the
// plan's own binary, on the same driver. One verdict for each.
Result<std::vector<KernelVerdict>> CheckBinaries(const PlanData& plan, uint32_t kernel,
                                                 const std::vector<const PlanData*>& others, Driver* driver,
                                                 uint64_t seed);

}  // namespace rondo::tools
