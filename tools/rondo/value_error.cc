#include "tools/rondo/value_error.h"

#include <algorithm>
#include <cmath>

namespace rondo::tools {
namespace {

// The root mean square of the finite elements among `count`.
template <typename Element>
double Usual(size_t count, const Element& element) {
  double squares = 0, finite = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = element(i);
    if (std::isfinite(value)) squares += value * value, ++finite;
  }
  return finite > 0 ? std::sqrt(squares / finite) : 0;
}

double FloatError(double got, double want, double usual) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) return HUGE_VAL;
  return std::fabs(got - want) / std::max(std::fabs(want), usual);
}

}  // namespace

ValueError ErrorOf(const Tensor& got, const Tensor& want) {
  const int64_t count = want.shape.elements();
  const bool floats = IsFloat(want.dtype) || IsFloat(got.dtype);
  const auto element = [&](size_t i) { return ElementAsDouble(want, static_cast<int64_t>(i)); };
  const double usual = floats ? Usual(static_cast<size_t>(count), element) : 0;
  ValueError error;
  for (int64_t i = 0; i < count; ++i) {
    const double is = ElementAsDouble(got, i), should = ElementAsDouble(want, i);
    const double apart = floats ? FloatError(is, should, usual) : std::fabs(is - should);
    if (error.at >= 0 && !(apart > error.greatest)) continue;
    error = {apart, i, is, should};
  }
  return error;
}

double ToleranceOf(const PlanData& plan, uint32_t program) {
  bool bf16 = false, f16 = false, f32 = false;
  for (const Step& step : plan.programs[program].steps) {
    if (step.kind != StepKind::kLaunch) continue;
    for (const Part& part : plan.kernels[step.kernel].parts) {
      f16 |= part.tf32;
      for (const Operand& operand : part.operands) {
        bf16 |= operand.dtype == DType::kBF16;
        f16 |= operand.dtype == DType::kF16;
        f32 |= operand.dtype == DType::kF32;
      }
    }
  }
  return bf16 ? 0x1p-2 : f16 ? 0x1p-4 : f32 ? 5e-4 : 1e-9;
}

double ToleranceOf(DType dtype, double of_floats) {
  if (IsFloat(dtype)) return of_floats;
  return dtype == DType::kI8 || dtype == DType::kU8 ? 1 : 0;
}

std::vector<double> Sorted(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = ElementAsDouble(tensor, static_cast<int64_t>(i));
  std::sort(values.begin(), values.end(), [](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? !std::isnan(a) && std::isnan(b) : a < b;
  });
  return values;
}

bool Agree(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  const size_t count = std::max(got.size(), want.size());
  if (got.empty() || want.empty() || count % got.size() != 0 || count % want.size() != 0) return false;
  const size_t each_got = count / got.size(), each_want = count / want.size();
  const double usual = Usual(want.size(), [&](size_t i) { return want[i]; });
  for (size_t i = 0; i < count; ++i) {
    if (FloatError(got[i / each_got], want[i / each_want], usual) > tolerance) return false;
  }
  return true;
}

}  // namespace rondo::tools
