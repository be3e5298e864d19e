// One value as three imports of a model know it, for more and more cached positions.
#ifndef RONDO_COMPILER_IMPORT_THREE_IMPORTS_H_
#define RONDO_COMPILER_IMPORT_THREE_IMPORTS_H_

#include <algorithm>

#include "compiler/import/import.h"
#include "core/scalar.h"

namespace rondo::importer {

struct Three {
  const KnownValue* of[3];  // borrowed

  const Shape& shape() const { return of[0]->shape; }
  DType dtype() const { return of[0]->dtype; }
  bool has_data() const { return of[0]->data && of[1]->data && of[2]->data; }
  bool Grows() const { return !(of[0]->shape == of[1]->shape) || !(of[1]->shape == of[2]->shape); }
  // Large ones are weights, which differ in nothing if not in their shape.
  bool Varies() const {
    if (Grows()) return true;
    const auto same = [](const KnownValue& x, const KnownValue& y) {
      return std::equal(x.data->bytes.begin(), x.data->bytes.end(), y.data->bytes.begin(),
                        y.data->bytes.end());
    };
    return has_data() && !(same(*of[0], *of[1]) && same(*of[1], *of[2]));
  }
  double At(int import, int64_t i) const {
    const ir::ConstantData& data = *of[import]->data;
    return scalar::Load<double>(data.dtype, data.bytes.data(), i);
  }
};

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_THREE_IMPORTS_H_
