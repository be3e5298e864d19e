// How far two computations of one value are apart.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// The greatest error of an element, over the larger of its magnitude and the root mean square of all: so an
// element near 0 may err as much as the others. NaN equals NaN; NaN or infinity beside a number is infinitely
// far. Of integers and bools the difference itself.
struct ValueError {
  double greatest = 0;
  int64_t at = -1;  // row-major index
  double got = 0, want = 0;
};
// `got` and `want` have as many elements.
ValueError ErrorOf(const Tensor& got, const Tensor& want);

// The error that a value of a whole network may have, by the coarsest float type that kernels of the program
// compute or keep values in: f64 1e-9, f32 5e-4, f16 and tf32 2^-4, bf16 2^-2. Twice as many places are lost
// on the way as check --kernels allows one kernel.
double ToleranceOf(const PlanData& plan, uint32_t program);
// Of a value of this type: bytes may be a step of quantisation off, other integers and bools may not differ.
double ToleranceOf(DType dtype, double of_floats);

// The elements in ascending order, NaN last: values that agree, whatever the order in which they lie, agree
// so, too.
std::vector<double> Sorted(const Tensor& tensor);
// Whether two such lists agree; one may hold each element of the other several times (a broadcast).
bool Agree(const std::vector<double>& got, const std::vector<double>& want, double tolerance);

}  // namespace rondo::tools
