#include "tests/host/difference.h"

#include <cmath>

namespace rondo::test {

std::string Difference(const PartMaker& maker, const Memory& want, const Memory& got, const Tolerance& t) {
  for (size_t p = 0; p < want.params.size(); ++p) {
    for (int64_t i = 0; i < maker.sizes[p]; ++i) {
      double a, b;
      double step = 0;  // rounding step of the dtype
      if (IsFloat(maker.dtypes[p])) {
        a = scalar::Load<double>(maker.dtypes[p], want.params[p].data(), i);
        b = scalar::Load<double>(maker.dtypes[p], got.params[p].data(), i);
        step = maker.dtypes[p] == DType::kF16 ? 1.0 / 1024 : maker.dtypes[p] == DType::kBF16 ? 1.0 / 128 : 0;
      } else {
        a = static_cast<double>(scalar::Load<int64_t>(maker.dtypes[p], want.params[p].data(), i));
        b = static_cast<double>(scalar::Load<int64_t>(maker.dtypes[p], got.params[p].data(), i));
      }
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double most = std::fabs(a) * (t.relative + step) + t.absolute;
      if (IsFloat(maker.dtypes[p]) && std::fabs(a - b) <= most) continue;
      return "parameter " + std::to_string(p) + " (" + Name(maker.dtypes[p]) + ") element " +
             std::to_string(i) + ": expected " + std::to_string(a) + ", got " + std::to_string(b);
    }
  }
  return "";
}

}  // namespace rondo::test
