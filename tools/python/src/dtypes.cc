#include "tools/python/src/dtypes.h"

#include <cstring>
#include <iterator>

namespace rondo::python {
namespace {

using Code = nanobind::dlpack::dtype_code;

constexpr nanobind::dlpack::dtype Of(Code code, uint8_t bits) {
  return {static_cast<uint8_t>(code), bits, 1};
}

constexpr char kBFloat16[] = "bfloat16", kE4M3[] = "float8_e4m3fn", kE5M2[] = "float8_e5m2";
constexpr char kF32[] = "float32", kF16[] = "float16", kF64[] = "float64", kBool[] = "bool";
constexpr char kI64[] = "int64", kI32[] = "int32", kI16[] = "int16", kI8[] = "int8";
constexpr char kU8[] = "uint8", kU16[] = "uint16", kU32[] = "uint32", kU64[] = "uint64";

// In the order of rondo_dtype.
constexpr ElementType kTypes[] = {
    {RONDO_F32, kF32, Of(Code::Float, 32), kF32},
    {RONDO_F16, kF16, Of(Code::Float, 16), kF16},
    {RONDO_BF16, kBFloat16, Of(Code::Bfloat, 16), kU16},
    {RONDO_F64, kF64, Of(Code::Float, 64), kF64},
    {RONDO_I64, kI64, Of(Code::Int, 64), kI64},
    {RONDO_I32, kI32, Of(Code::Int, 32), kI32},
    {RONDO_I16, kI16, Of(Code::Int, 16), kI16},
    {RONDO_I8, kI8, Of(Code::Int, 8), kI8},
    {RONDO_U8, kU8, Of(Code::UInt, 8), kU8},
    {RONDO_U16, kU16, Of(Code::UInt, 16), kU16},
    {RONDO_U32, kU32, Of(Code::UInt, 32), kU32},
    {RONDO_U64, kU64, Of(Code::UInt, 64), kU64},
    {RONDO_BOOL, kBool, Of(Code::Bool, 8), kBool},
    {RONDO_E4M3, kE4M3, Of(Code::Float8_E4M3FN, 8), kU8},
    {RONDO_E5M2, kE5M2, Of(Code::Float8_E5M2, 8), kU8},
};

}  // namespace

const ElementType& TypeOf(rondo_dtype dtype) {
  static_assert(std::size(kTypes) == RONDO_E5M2 + 1);
  return kTypes[dtype];
}

const ElementType* FindType(nanobind::dlpack::dtype dtype) {
  for (const ElementType& type : kTypes) {
    if (type.dlpack == dtype) return &type;
  }
  return nullptr;
}

const ElementType* FindType(const std::string& name) {
  for (const ElementType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string NameOf(nanobind::dlpack::dtype dtype) {
  if (const ElementType* type = FindType(dtype)) return type->name;
  if (dtype.code == static_cast<uint8_t>(Code::Complex) && dtype.lanes == 1)
    return "complex" + std::to_string(dtype.bits);
  return "code " + std::to_string(dtype.code) + " of " + std::to_string(dtype.bits) + " bits";
}

}  // namespace rondo::python
