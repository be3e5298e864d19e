// ONNX types that the plan supports only as packed weights: INT4, UINT4, INT2, UINT2, FLOAT4E2M1 (two or four
// numbers a byte in the file), FLOAT8E4M3FN, FLOAT8E5M2 and both of FNUZ; and FLOAT8E8M0, powers of two that
// scale such weights. Computed values of these types are stored in a wider type.
#pragma once

#include <optional>

#include "compiler/import/op_context.h"
#include "core/status.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// Bits of a number of such a TensorProto.DataType; 0 for all other types.
int NarrowBits(int data_type);

struct PackedTensor {
  onnx::TensorProto bytes;  // the same data as UINT8, one dimension
  Shape shape;              // of the numbers
  int bits = 0;
  bool is_signed = false;
  PackedType type = PackedType::kNone;
  bool is_fnuz = false;
  bool is_power = false;
};

// kCorrupt or kUnsupported for shapes that are none.
Result<PackedTensor> PackedBytesOf(const onnx::TensorProto& tensor);

// `bytes` (u8, those of `packed`) as i8, u8 or (of float types) f32 numbers of packed.shape.
ir::NodeId Widened(ir::Builder& b, ir::NodeId bytes, const PackedTensor& packed);

// Codes (u8, one number each) of such a type as what they stand for, as Widened gives them.
ir::NodeId NumbersOf(ir::Builder& b, ir::NodeId codes, const NarrowCodes& type);

// The bytes of known numbers as they lie in the file, u8 [..., n * bits / 8] for numbers [..., n]; kNoNode
// where a row is no whole bytes, or a run computes them.
ir::NodeId RowsOfBytes(ir::Builder& b, const NarrowCodes& codes);

// Such a TensorProto.DataType as codes that are not there; none for all other types.
std::optional<NarrowCodes> NarrowTypeOf(int data_type);

// The other way round.
int DataTypeOf(const NarrowCodes& type);

// x (f32) rounded to the nearest number of a float type, ties to even, in f32. What is beyond its range
// becomes its greatest number, or, without `saturates`, infinite or (where the type has no infinity) no
// number. To a power of two it is rounded up.
ir::NodeId RoundedTo(ir::Builder& b, ir::NodeId x, const NarrowCodes& type, bool saturates = true);

// How Cast rounds to FLOAT8E8M0 (`round_mode`).
enum class PowerRounding { kUp, kDown, kNearest };  // kNearest: up from the middle on

// x (f32) rounded to 2^-127, 2^-126, ..., 2^127, in f32; NaN stays NaN. What is less (0 and
// negative numbers, too) or more than those becomes the nearest of them, or, without `saturates`, no number:
// as ONNX Runtime's Cast does where ONNX leaves it open.
ir::NodeId RoundedToPower(ir::Builder& b, ir::NodeId x, PowerRounding mode, bool saturates);

// The number that a code of a float type or FLOAT8E8M0 stands for: infinite, or none, where it is so.
double NumberOf(const NarrowCodes& type, uint32_t code);

// The type that a plan has for it; none of FNUZ types, FP4, FLOAT8E8M0 and integers.
std::optional<DType> Fp8Of(PackedType type, bool is_fnuz);

// A value of such a type of `shape`, whose port is `port` (onnx::PortTypeOf).
Value FromPort(ir::Builder& b, ir::NodeId port, int data_type, const Shape& shape);
// The other way round: the numbers as their port has them.
ir::NodeId ToPort(ir::Builder& b, const Value& value);

inline bool IsReal(const NarrowCodes& type) { return type.type > PackedType::kU8 || type.is_power; }

// `numbers`, as Widened gives them, as a value of such a type.
Value NarrowValue(ir::Builder& b, ir::NodeId numbers, NarrowCodes type);

}  // namespace rondo::importer
