#include "compiler/import/neutral_number.h"

#include <cmath>
#include <limits>

#include "core/element.h"

namespace rondo::importer {

double NeutralNumber(ir::ReduceKind kind, DType dtype) {
  if (kind == ir::ReduceKind::kSum || kind == ir::ReduceKind::kProd)
    return kind == ir::ReduceKind::kSum ? 0 : 1;
  const bool least = kind == ir::ReduceKind::kMax || kind == ir::ReduceKind::kArgMax;
  if (IsFloat(dtype)) return (least ? -1 : 1) * std::numeric_limits<double>::infinity();
  if (ByteSize(dtype) == 8) return least ? (dtype == DType::kI64 ? -0x1p63 : 0) : 0x1p62;
  const DTypeFacts& facts = FactsOf(dtype);
  const double end = std::ldexp(1.0, facts.digits);
  return !least ? end - 1 : facts.kind == DTypeKind::kSigned ? -end : 0;
}

}  // namespace rondo::importer
