// Sheets: kernels that apply every operation of core/tape_ops.h to every edge value of its types.
//
// A sheet is a map over rows; each row has up to three inputs, and each column is the result of one operation
// of them. What core/scalar.h says of the same inputs is what a column must hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel.h"
#include "tests/host/kernel_maker.h"

namespace rondo::test {

struct OpColumn {
  TapeOp op = TapeOp::kNeg;
  TapeType type = TapeType::kF32;  // of the result
  int64_t imm = 0;
  DType dtype = DType::kF32;  // of what it is stored to
};

struct OpSheet {
  std::string name;
  std::vector<DType> inputs;
  std::vector<OpColumn> columns;
  std::vector<std::vector<char>> values;  // of each input, dense
  int64_t rows = 0;

  TapeType InputType(size_t input) const { return NaturalType(inputs[input]); }
  // The inputs as first parameters, then a parameter for each column.
  void Make(PartMaker* maker) const;
  // Memory for `maker`: inputs, and columns of zeros.
  Memory Fill(const PartMaker& maker) const;
  TapeInst Instruction(const OpColumn& column) const;
  // Bytes of `column` by core/scalar.h.
  std::vector<char> Expected(const OpColumn& column) const;
  // Rows of `column` in which `got` is not what the definition says, as text, the first few; empty if none.
  std::string Difference(const OpColumn& column, const char* got) const;
};

// Every operation that is no leaf and no effect, of every type, and every cast between dtypes.
std::vector<OpSheet> EveryOpSheet();

}  // namespace rondo::test
