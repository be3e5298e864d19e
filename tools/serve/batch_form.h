// BatchForm: which programs of a plan answer a request of some rows, and how its ports look to clients.
//
// The seam between requests and programs: everything that knows how a plan serves several sizes is here. A
// plan may have a program for each of several sizes, with the same ports but for their first dimension.
// Plain data: indices into the plan's lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/plan.h"
#include "core/shape.h"
#include "core/status.h"

namespace rondo::serve {

struct PortForm {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;             // of the largest program
  uint64_t row_bytes = 0;  // of one row, where rows are joined; else of all
  uint32_t index = kNone;  // the same in each program
};

struct SizedProgram {
  uint32_t program = kNone;
  int64_t rows = 1;  // 1 where rows are not joined
  std::string name;
};

struct BatchForm {
  std::vector<PortForm> inputs, outputs;  // without states
  std::vector<SizedProgram> programs;     // the least first
  // Whether the first dimension of every port is the same, so that requests of fewer rows can go together.
  bool joins = false;
  bool has_state = false;  // which begins anew with each request

  int64_t most_rows() const { return programs.back().rows; }
  // The least program that has room for `rows`, 1 to most_rows().
  const SizedProgram& Choose(int64_t rows) const;
};

// The forms of a plan: programs that differ in the number of rows alone are one. `join`: else no rows are
// joined, and a request has all of them.
std::vector<BatchForm> FindBatchForms(const PlanData& plan, bool join);

}  // namespace rondo::serve
