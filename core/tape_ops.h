// The one table of tape operations: number, name, class, accuracy. Everything that needs all operations takes
// them from here: the enum, names in dumps and generated code, the verifier's rules, the executors' tables.
// core/scalar.h defines them, and does not compile if an operation has no definition.
//
// A row is X(Name, number, text, accuracy) for TapeOp::kName. Numbers are stored in plans: append only.
// `text` is the name in dumps; generated code calls op_text. To add an operation: a row in the list of its
// class, its definition in core/scalar.h, a function op_text for GPUs (compiler/codegen/cuda). tests/scalar
// compares them.
#pragma once

#include <cstdint>

namespace rondo {

// Types of the registers that an operation reads and defines. T is any tape type, the same within a row.
enum class OpClass : uint8_t {
  kUnknown = 0,  // no operation has this number
  kLeaf,         // -> T
  kEffect,       // T -> no register
  kUnary,        // T -> T
  kBitUnary,     // i64 -> i64
  kTest,         // T -> i64, 0 or 1
  kCast,         // any -> any
  kBinary,       // T, T -> T
  kBitBinary,    // i64, i64 -> i64
  kCompare,      // T, T -> i64, 0 or 1
  kSelect,       // i64, T, T -> T
  kTernary,      // T, T, T -> T
};

// How far two implementations of an operation may differ on the same floats. Integers are exact, unless a
// kFunction of them goes through double.
enum class Accuracy : uint8_t {
  kExact,     // no difference
  kRounded,   // the last place: each step is rounded once, or less often where steps are fused
  kFunction,  // some units in the last place: a function of real numbers, by any formula
};

// Leaves.
#define RONDO_LEAF_OPS(X)                                                              \
  X(Load, 0, "load", kExact)     /* operand `arg`, widened to its NaturalType */       \
  X(Const, 1, "const", kExact)   /* imm (f for kF32 and kF64, i for kI64) */           \
  X(Index, 2, "index", kExact)   /* counter of loop `arg`; type kI64 */                \
  X(Acc, 3, "acc", kRounded)     /* accumulator `arg` of the skeleton, in epilogues */ \
  X(Scalar, 4, "scalar", kExact) /* row scalar `arg`, in reduction stages */           \
  X(Kept, 5, "kept", kExact)     /* kept row value `arg`, in per-element stages */

// Effects. They define no usable register.
#define RONDO_EFFECT_OPS(X)                                                                              \
  X(Store, 8, "store", kExact)             /* narrow register a to operand `arg`, of a's NaturalType */  \
  X(Yield, 9, "yield", kExact)             /* register a is the value of this prologue */                \
  X(SetScalar, 10, "set_scalar", kExact)   /* row scalar `arg` = a (per-row tapes only) */               \
  X(Keep, 11, "keep", kExact)              /* kept row value `arg` of this element = a (per element) */  \
  X(ReduceSum, 12, "reduce_sum", kRounded) /* row scalar `arg` accumulates a (per-element tapes only) */ \
  X(ReduceProd, 13, "reduce_prod", kRounded)                                                             \
  X(ReduceMax, 14, "reduce_max", kExact)                                                                 \
  X(ReduceMin, 15, "reduce_min", kExact)                                                                 \
  /* Row scalar `arg`: position along the flattened reduced loops of the first (imm.i == 0) or last (1)  \
     extreme; type kI64. */                                                                              \
  X(ReduceArgMax, 16, "reduce_argmax", kExact)                                                           \
  X(ReduceArgMin, 17, "reduce_argmin", kExact)                                                           \
  /* Operand `arg`, one element of f32 that all points share, becomes the greater, or the less, of what  \
     it is and a (scalar::Combined). Not in prologues. */                                                \
  X(CombineMax, 18, "combine_max", kExact)                                                               \
  X(CombineMin, 19, "combine_min", kExact)                                                               \
  /* Register a, a float, must be finite, else the run ends with kOutOfRange. imm.i: which one it is of  \
     the kernel's assertions. */                                                                         \
  X(AssertFinite, 20, "assert_finite", kExact)

#define RONDO_UNARY_OPS(X)                         \
  X(Neg, 32, "neg", kExact)                        \
  X(Abs, 33, "abs", kExact)                        \
  X(Sign, 34, "sign", kExact)                      \
  X(Floor, 35, "floor", kExact)                    \
  X(Ceil, 36, "ceil", kExact)                      \
  X(Round, 37, "round", kExact) /* half to even */ \
  X(Trunc, 38, "trunc", kExact)                    \
  X(Sqrt, 39, "sqrt", kRounded)                    \
  X(Reciprocal, 40, "reciprocal", kRounded)        \
  X(Exp, 41, "exp", kFunction)                     \
  X(Log, 42, "log", kFunction)                     \
  X(Sin, 43, "sin", kFunction)                     \
  X(Cos, 44, "cos", kFunction)                     \
  X(Tan, 45, "tan", kFunction)                     \
  X(Asin, 46, "asin", kFunction)                   \
  X(Acos, 47, "acos", kFunction)                   \
  X(Atan, 48, "atan", kFunction)                   \
  X(Sinh, 49, "sinh", kFunction)                   \
  X(Cosh, 50, "cosh", kFunction)                   \
  X(Tanh, 51, "tanh", kFunction)                   \
  X(Asinh, 52, "asinh", kFunction)                 \
  X(Acosh, 53, "acosh", kFunction)                 \
  X(Atanh, 54, "atanh", kFunction)                 \
  X(Erf, 55, "erf", kFunction)                     \
  X(Sigmoid, 56, "sigmoid", kFunction)             \
  X(Rsqrt, 62, "rsqrt", kRounded)                  \
  X(Log1p, 63, "log1p", kFunction)                 \
  X(Expm1, 64, "expm1", kFunction)

#define RONDO_BIT_UNARY_OPS(X) X(BitNot, 58, "bitnot", kExact)

#define RONDO_TEST_OPS(X)                              \
  X(Not, 57, "not", kExact) /* logical: 1 if a == 0 */ \
  X(IsNan, 59, "isnan", kExact)                        \
  X(IsInf, 60, "isinf", kExact) /* imm.i bit 0: detect +inf, bit 1: detect -inf */

// Converts to this instruction's type, then rounds or wraps to the DType in imm.i.
#define RONDO_CAST_OPS(X) X(Cast, 61, "cast", kExact)

#define RONDO_BINARY_OPS(X)                                                      \
  X(Add, 80, "add", kRounded)                                                    \
  X(Sub, 81, "sub", kRounded)                                                    \
  X(Mul, 82, "mul", kRounded)                                                    \
  X(Div, 83, "div", kRounded) /* integers truncate; division by zero gives 0 */  \
  X(Pow, 84, "pow", kFunction)                                                   \
  X(Min, 85, "min", kExact) /* NaN if either is */                               \
  X(Max, 86, "max", kExact)                                                      \
  X(Mod, 87, "mod", kRounded) /* sign of the divisor (Python), of a zero, too */ \
  X(Fmod, 88, "fmod", kExact) /* sign of the dividend (C) */                     \
  X(Atan2, 94, "atan2", kFunction)

#define RONDO_BIT_BINARY_OPS(X)                                                                             \
  X(BitAnd, 89, "bitand", kExact)                                                                           \
  X(BitOr, 90, "bitor", kExact)                                                                             \
  X(BitXor, 91, "bitxor", kExact)                                                                           \
  X(Shl, 92, "shl", kExact)                                                                                 \
  X(Shr, 93, "shr", kExact) /* logical, on the value modulo 2^64; by less than 0 or more than 63: 0, as shl \
                             */

#define RONDO_COMPARE_OPS(X)             \
  X(Less, 104, "less", kExact)           \
  X(LessEqual, 105, "lessequal", kExact) \
  X(Equal, 106, "equal", kExact)

#define RONDO_SELECT_OPS(X) X(Select, 112, "select", kExact) /* a != 0 ? b : c */
#define RONDO_TERNARY_OPS(X) X(Fma, 113, "fma", kRounded)    /* a * b + c */

#define RONDO_TAPE_OPS(X) \
  RONDO_LEAF_OPS(X)       \
  RONDO_EFFECT_OPS(X)     \
  RONDO_UNARY_OPS(X)      \
  RONDO_BIT_UNARY_OPS(X)  \
  RONDO_TEST_OPS(X)       \
  RONDO_CAST_OPS(X)       \
  RONDO_BINARY_OPS(X)     \
  RONDO_BIT_BINARY_OPS(X) \
  RONDO_COMPARE_OPS(X)    \
  RONDO_SELECT_OPS(X)     \
  RONDO_TERNARY_OPS(X)

// Operations that Unary (here) and Binary (below) of core/scalar.h do not define.
#define RONDO_OPS_NOT_UNARY(X) \
  RONDO_LEAF_OPS(X)            \
  RONDO_EFFECT_OPS(X)          \
  RONDO_TEST_OPS(X)            \
  RONDO_CAST_OPS(X)            \
  RONDO_BINARY_OPS(X)          \
  RONDO_BIT_BINARY_OPS(X)      \
  RONDO_COMPARE_OPS(X)         \
  RONDO_SELECT_OPS(X)          \
  RONDO_TERNARY_OPS(X)
#define RONDO_OPS_NOT_BINARY(X) \
  RONDO_LEAF_OPS(X)             \
  RONDO_EFFECT_OPS(X)           \
  RONDO_UNARY_OPS(X)            \
  RONDO_BIT_UNARY_OPS(X)        \
  RONDO_TEST_OPS(X)             \
  RONDO_CAST_OPS(X)             \
  RONDO_COMPARE_OPS(X)          \
  RONDO_SELECT_OPS(X)           \
  RONDO_TERNARY_OPS(X)

// Case labels of a list, for switches.
#define RONDO_OP_CASE(name, number, text, accuracy) case TapeOp::k##name:

// Stored in plans. Semantics of the arithmetic ops are those of ONNX; core/scalar.h is their definition.
enum class TapeOp : uint8_t {
#define RONDO_OP_NUMBER(name, number, text, accuracy) k##name = number,
  RONDO_TAPE_OPS(RONDO_OP_NUMBER)
#undef RONDO_OP_NUMBER
};

// kUnknown for numbers that are no operation's, which a file may hold.
constexpr OpClass ClassOf(TapeOp op) {
  switch (op) {
    RONDO_LEAF_OPS(RONDO_OP_CASE) return OpClass::kLeaf;
    RONDO_EFFECT_OPS(RONDO_OP_CASE) return OpClass::kEffect;
    RONDO_UNARY_OPS(RONDO_OP_CASE) return OpClass::kUnary;
    RONDO_BIT_UNARY_OPS(RONDO_OP_CASE) return OpClass::kBitUnary;
    RONDO_TEST_OPS(RONDO_OP_CASE) return OpClass::kTest;
    RONDO_CAST_OPS(RONDO_OP_CASE) return OpClass::kCast;
    RONDO_BINARY_OPS(RONDO_OP_CASE) return OpClass::kBinary;
    RONDO_BIT_BINARY_OPS(RONDO_OP_CASE) return OpClass::kBitBinary;
    RONDO_COMPARE_OPS(RONDO_OP_CASE) return OpClass::kCompare;
    RONDO_SELECT_OPS(RONDO_OP_CASE) return OpClass::kSelect;
    RONDO_TERNARY_OPS(RONDO_OP_CASE) return OpClass::kTernary;
  }
  return OpClass::kUnknown;
}

// Registers that operations of a class read: a; a and b; a, b and c.
constexpr int Inputs(OpClass c) {
  constexpr int kInputs[] = {0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3};
  return kInputs[static_cast<int>(c)];
}
constexpr int Inputs(TapeOp op) { return Inputs(ClassOf(op)); }

constexpr bool IsBitwise(OpClass c) { return c == OpClass::kBitUnary || c == OpClass::kBitBinary; }
// Results are 0 or 1 of type kI64, whatever the operand's type.
constexpr bool GivesTruth(OpClass c) { return c == OpClass::kTest || c == OpClass::kCompare; }

// Effects that reduce into a row scalar; below, those that keep the position.
constexpr bool Reduces(TapeOp op) { return op >= TapeOp::kReduceSum && op <= TapeOp::kReduceArgMin; }
constexpr bool ReducesToPosition(TapeOp op) {
  return op == TapeOp::kReduceArgMax || op == TapeOp::kReduceArgMin;
}

// Effects that combine a value of all points into one element of memory.
constexpr bool Combines(TapeOp op) { return op == TapeOp::kCombineMax || op == TapeOp::kCombineMin; }

constexpr const char* Name(TapeOp op) {
  switch (op) {
#define RONDO_OP_TEXT(name, number, text, accuracy) \
  case TapeOp::k##name: return text;
    RONDO_TAPE_OPS(RONDO_OP_TEXT)
#undef RONDO_OP_TEXT
  }
  return "?";
}

constexpr Accuracy AccuracyOf(TapeOp op) {
  switch (op) {
#define RONDO_OP_ACCURACY(name, number, text, accuracy) \
  case TapeOp::k##name: return Accuracy::accuracy;
    RONDO_TAPE_OPS(RONDO_OP_ACCURACY)
#undef RONDO_OP_ACCURACY
  }
  return Accuracy::kExact;
}

}  // namespace rondo
