// The difference between two computations of one value.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// The greatest error of an element, relative to the larger of its magnitude and the root mean square of all
// elements: an element near 0 may have the same absolute error as the others. NaN equals NaN; NaN or infinity
// against a number is an infinite error. For integers and bools the error is the absolute difference.
struct ValueError {
  double greatest = 0;
  int64_t at = -1;  // row-major index
  double got = 0, want = 0;
};
// `got` and `want` have the same number of elements.
ValueError ErrorOf(const Tensor& got, const Tensor& want);

// The allowed error of a value of a whole network, by the coarsest float type in which the program's kernels
// compute or store: f64 1e-9, f32 5e-4, f16 and tf32 2^-4, bf16 2^-2. A network may lose twice as many digits
// as check --kernels allows for one kernel.
double ToleranceOf(const PlanData& plan, uint32_t program);
// The allowed error for a type: bytes may differ by one quantisation step; other integers and bools must be
// equal.
double ToleranceOf(DType dtype, double of_floats);

// The elements in ascending order, with NaN last. Values that agree, in whatever order, also agree when
// sorted.
std::vector<double> Sorted(const Tensor& tensor);
// Whether two such lists agree. One may repeat each element of the other (a broadcast).
bool Agree(const std::vector<double>& got, const std::vector<double>& want, double tolerance);

}  // namespace rondo::tools
