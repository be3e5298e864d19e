#include "compiler/import/neutral_number.h"

#include <cstdint>
#include <limits>

namespace rondo::importer {

double NeutralNumber(ir::ReduceKind kind, DType dtype) {
  if (kind == ir::ReduceKind::kSum || kind == ir::ReduceKind::kProd)
    return kind == ir::ReduceKind::kSum ? 0 : 1;
  const bool least = kind == ir::ReduceKind::kMax || kind == ir::ReduceKind::kArgMax;
  if (IsFloat(dtype)) return (least ? -1 : 1) * std::numeric_limits<double>::infinity();
  switch (dtype) {
    case DType::kBool: return least ? 0 : 1;
    case DType::kI8: return least ? INT8_MIN : INT8_MAX;
    case DType::kI16: return least ? INT16_MIN : INT16_MAX;
    case DType::kI32: return least ? INT32_MIN : INT32_MAX;
    case DType::kU8: return least ? 0 : UINT8_MAX;
    case DType::kU16: return least ? 0 : UINT16_MAX;
    case DType::kU32: return least ? 0 : UINT32_MAX;
    default: return least ? (dtype == DType::kI64 ? -0x1p63 : 0) : 0x1p62;
  }
}

}  // namespace rondo::importer
