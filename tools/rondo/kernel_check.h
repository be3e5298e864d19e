// CheckKernels: runs each kernel of a plan alone on one driver and on a trusted driver, over the same memory
// with canaries (kernel_memory.h).
//
// It checks each kernel for three things. Bytes outside its contract's writes keep their value, inputs and
// canaries alike. Its written elements agree with the other driver's within KernelTolerance. A second launch
// with one index out of bounds is reported as an error by both drivers, and writes nothing outside the
// contract.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/driver.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo::tools {

// The allowed error of an element, relative to the larger of its magnitude and the root mean square of its
// operand's written elements. It is 0 (equal) for integers, and for parts that only move, select, compare or
// convert. Quantised bytes may differ by one step (an absolute error of 1), in at most one element of 64, if
// they depend on the order of a sum. In all other cases the coarsest float type among the part's operands
// decides, since values between its loops may be rounded to it: f64 1e-9, f32 1e-4, f16 and tf32 2^-8, bf16
// 2^-5. Attention in 16 bits is allowed twice that, because its probabilities are rounded before they weigh
// values that may cancel.
double KernelTolerance(const Part& part, const Operand& written);

struct KernelVerdict {
  uint32_t kernel = 0;
  uint64_t bytes = 0;                 // laid out for it, canaries included
  uint64_t elements = 0;              // elements compared
  double greatest_error = 0;          // in KernelTolerance's measure
  double tolerance = 0;               // the loosest one used
  std::vector<std::string> failures;  // sentences: source node, operand, place, actual and expected value
};

struct KernelCheckOptions {
  uint64_t seed = 1;
  std::string only;  // a kernel's name; "": all
  // Called after each kernel.
  std::function<void(const KernelVerdict&)> progress;
};

// Verdicts of all kernels; an error if a driver could not be used at all (for a device that stopped working
// it names the kernel). `plan` must have passed VerifyPlan. Uses device 0 of each driver.
Result<std::vector<KernelVerdict>> CheckKernels(const PlanData& plan, Driver* tested, Driver* believed,
                                                const KernelCheckOptions& options);

// The same for other binaries of one kernel: `others` differ from `plan` only in them. The plan's own binary
// on the same driver is trusted. One verdict per plan.
Result<std::vector<KernelVerdict>> CheckBinaries(const PlanData& plan, uint32_t kernel,
                                                 const std::vector<const PlanData*>& others, Driver* driver,
                                                 uint64_t seed);

}  // namespace rondo::tools
