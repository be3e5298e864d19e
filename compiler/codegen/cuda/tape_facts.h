// Facts about a tape's registers, derived before it is written as text. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernel.h"

namespace rondo::cuda {

// A quantisation by constants, min(max(round(x / scale) + zero, ...), ...), of register x. `low` and `high`
// are the scale times the smallest and the largest integer.
struct Quantisation {
  uint16_t x = 0;
  float scale = 1, reciprocal = 1, low = 0, high = 0, zero = 0;
};
// Whether instruction k of the tape ends a quantisation whose constants let device/quantised_steps.h give the
// same results.
std::optional<Quantisation> QuantisationAt(Tape tape, size_t k);

// x / scale by a constant, where the result is only converted to E4M3: `most` is the scale times the largest
// E4M3 number.
struct E4M3Quotient {
  uint16_t x = 0;
  float scale = 1, reciprocal = 1, most = 0;
};
// Whether instruction k of the tape is such a quotient, with a scale for which device/quantised_steps.h gives
// the same results.
std::optional<E4M3Quotient> E4M3QuotientAt(Tape tape, size_t k);

// A quantisation whose `scale` is computed at run time: a row scalar, or made of numbers that are the same at
// all points. `zero`: the register with the zero point, if there is one, an integer of 8 bits.
struct QuantisationInRun {
  uint16_t x = 0, scale = 0;
  std::optional<uint16_t> zero;
  float low = 0, high = 0;
};
std::optional<QuantisationInRun> QuantisationInRunAt(const Part& part, Tape tape, size_t k);

// Whether the register fits in 32 bits, a float truncated toward zero (NaN aside): because of its operation,
// or of the dtype of the operand it was loaded from. `small_sums`: the accumulators fit.
bool FitsInt(const Part& part, Tape tape, uint16_t reg, bool small_sums);

// Whether the float is a rounded 32-bit integer. 2^31 is the only possible value that does not fit.
bool IsRoundedInt(const Part& part, Tape tape, uint16_t reg, bool small_sums);
// Whether every value of the type fits an int.
bool IsIntType(DType type);

// Whether the part stores only floats of 16 bits or fewer, so that functions need no more accuracy.
bool NeedsFewBits(const Part& part);
// Whether a function of device/quick_scalar.cuh then computes the operation: it has no instruction of its
// own.
bool HasQuickFunction(TapeOp op);
// Whether the tape rounds to integers or compares: then a quotient that is an integer must be exactly that.
bool HasSteps(Tape tape);

// A register that depends only on one quantised register, `code`, which has at most 256 integer values from
// `low` on: a table is cheaper than computing it at each point.
struct Tabulation {
  uint16_t code = 0, result = 0;
  int low = 0;
};
// Whether register `reg` depends on register `code` and constants alone.
bool MadeOf(Tape tape, size_t reg, size_t code);
// The tabulation of a tape that saves most, if one is worth a table.
std::optional<Tabulation> TabulationOf(const Part& part, Tape tape);

}  // namespace rondo::cuda
