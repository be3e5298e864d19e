// What is known of a tape's registers before they are written as text. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernel.h"

namespace rondo::cuda {

// min(max(round(x / scale) + zero, ...), ...) by constants, as quantisation has it: register x in steps of
// `scale`, of which `low` and `high` are the products with the least and the greatest number.
struct Quantisation {
  uint16_t x = 0;
  float scale = 1, reciprocal = 1, low = 0, high = 0, zero = 0;
};
// Whether instruction k of the tape is the end of one; its constants are such that device/quantised_steps.h
// gives the same numbers.
std::optional<Quantisation> QuantisationAt(Tape tape, size_t k);

// x / scale by a constant, of which nothing is made but numbers of E4M3: `most` is the product of the scale
// with the greatest of those.
struct E4M3Quotient {
  uint16_t x = 0;
  float scale = 1, reciprocal = 1, most = 0;
};
// Whether instruction k of the tape is one, by a scale for which device/quantised_steps.h gives the same
// numbers.
std::optional<E4M3Quotient> E4M3QuotientAt(Tape tape, size_t k);

// The same by `scale`, which a run computes: a row scalar, or made of numbers that are the same at all
// points. `zero`: the register that is added, if one is, of a whole number that 8 bits hold.
struct QuantisationInRun {
  uint16_t x = 0, scale = 0;
  std::optional<uint16_t> zero;
  float low = 0, high = 0;
};
std::optional<QuantisationInRun> QuantisationInRunAt(const Part& part, Tape tape, size_t k);

// Whether 32 bits hold the register, a float toward zero (NaN aside): by what made it, or by the dtype of the
// operand that it was loaded from. `small_sums`: they hold the accumulators.
bool FitsInt(const Part& part, Tape tape, uint16_t reg, bool small_sums);

// Whether the float is an integer of 32 bits, rounded: 2^31 is the only one that 32 bits do not hold.
bool IsRoundedInt(const Part& part, Tape tape, uint16_t reg, bool small_sums);
// Whether every value of the type is an int.
bool IsIntType(DType type);

// A register that is a function of a quantised one alone, register `code`, which is one of at most 256 whole
// numbers from `low` on: a table of them is cheaper than computing it at each point.
struct Tabulation {
  uint16_t code = 0, result = 0;
  int low = 0;
};
// Whether register `reg` is made of register `code` and constants alone.
bool MadeOf(Tape tape, size_t reg, size_t code);
// The one of a tape that saves most, where one is worth a table.
std::optional<Tabulation> TabulationOf(const Part& part, Tape tape);

}  // namespace rondo::cuda
