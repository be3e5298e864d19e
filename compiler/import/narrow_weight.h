// ONNX types that the plan supports only as packed weights: INT4, UINT4, INT2, UINT2, FLOAT4E2M1 (two or four
// numbers per byte in the file), FLOAT8E4M3FN, FLOAT8E5M2, and both FNUZ types; also FLOAT8E8M0, powers of
// two that scale such weights. Computed values of these types are stored in a wider type.
#pragma once

#include <optional>

#include "compiler/import/op_context.h"
#include "core/status.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// Bits per number of such a TensorProto.DataType; 0 for all other types.
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

// kCorrupt or kUnsupported for invalid shapes.
Result<PackedTensor> PackedBytesOf(const onnx::TensorProto& tensor);

// The numbers in `bytes` (u8, those of `packed`), of packed.shape: i8 or u8 for integer types, f32 for float
// types.
ir::NodeId Widened(ir::Builder& b, ir::NodeId bytes, const PackedTensor& packed);

// The numbers of `codes` (u8, one per number) of such a type, with the element type that Widened gives.
ir::NodeId NumbersOf(ir::Builder& b, ir::NodeId codes, const NarrowCodes& type);

// The bytes of known numbers as in the file, u8 [..., n * bits / 8] for numbers [..., n]. kNoNode if a row is
// not a whole number of bytes, or if the numbers are computed at run time.
ir::NodeId RowsOfBytes(ir::Builder& b, const NarrowCodes& codes);

// The type of such a TensorProto.DataType, without codes; nullopt for all other types.
std::optional<NarrowCodes> NarrowTypeOf(int data_type);

// The inverse of NarrowTypeOf.
int DataTypeOf(const NarrowCodes& type);

// x (f32) rounded to the nearest number of a float type, ties to even, in f32; for FLOAT8E8M0 rounded up. A
// number beyond the type's range becomes the greatest number of its sign; without `saturates` it becomes
// infinite, or NaN if the type has no infinity.
ir::NodeId RoundedTo(ir::Builder& b, ir::NodeId x, const NarrowCodes& type, bool saturates = true);

// How Cast rounds to FLOAT8E8M0 (`round_mode`).
enum class PowerRounding { kUp, kDown, kNearest };  // kNearest: up from the middle on

// x (f32) rounded to 2^-127, 2^-126, ..., 2^127, in f32; NaN stays NaN. A number below these (also 0 and
// negative numbers) or above them becomes the nearest of them; without `saturates` it becomes NaN. ONNX
// leaves these cases open; ONNX Runtime's Cast does the same.
ir::NodeId RoundedToPower(ir::Builder& b, ir::NodeId x, PowerRounding mode, bool saturates);

// The number of a code of a float type or FLOAT8E8M0; it may be infinite or NaN.
double NumberOf(const NarrowCodes& type, uint32_t code);

// The plan's FP8 type; nullopt for FNUZ types, FP4, FLOAT8E8M0 and integers.
std::optional<DType> Fp8Of(PackedType type, bool is_fnuz);

// The value of type `data_type` and shape `shape` that the port `port` holds (onnx::PortTypeOf).
Value FromPort(ir::Builder& b, ir::NodeId port, int data_type, const Shape& shape);
// The inverse of FromPort: `value` in the form of its port.
ir::NodeId ToPort(ir::Builder& b, const Value& value);

inline bool IsReal(const NarrowCodes& type) { return type.type > PackedType::kU8 || type.is_power; }

// `numbers`, with the element type that Widened gives, as a value of such a type.
Value NarrowValue(ir::Builder& b, ir::NodeId numbers, NarrowCodes type);

}  // namespace rondo::importer
