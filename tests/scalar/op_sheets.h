// Sheets: kernels that apply every operation of core/tape_ops.h to every edge value of its types.
//
// A sheet is a map over rows. Each row has up to three inputs, and each column holds the result of one
// operation on them. A column must hold the results of core/scalar.h for the same inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel.h"
#include "tests/host/kernel_maker.h"

namespace rondo::test {

struct OpColumn {
  TapeOp op = TapeOp::kNeg;
  TapeType type = TapeType::kF32;  // the result's type
  int64_t imm = 0;
  DType dtype = DType::kF32;  // the type in which it is stored
};

struct OpSheet {
  std::string name;
  std::vector<DType> inputs;
  std::vector<OpColumn> columns;
  std::vector<std::vector<char>> values;  // of each input, dense
  int64_t rows = 0;

  TapeType InputType(size_t input) const { return NaturalType(inputs[input]); }
  // The parameters are the inputs, then one for each column.
  void Make(PartMaker* maker) const;
  // Memory for `maker`: the inputs, and zeros in the columns.
  Memory Fill(const PartMaker& maker) const;
  TapeInst Instruction(const OpColumn& column) const;
  // The expected bytes of `column`, by core/scalar.h.
  std::vector<char> Expected(const OpColumn& column) const;
  // The first few rows of `column` in which `got` differs from the definition, as text; empty if none.
  std::string Difference(const OpColumn& column, const char* got) const;
};

// Every operation, except leaves and effects, of every type, and every cast between dtypes.
std::vector<OpSheet> EveryOpSheet();

}  // namespace rondo::test
