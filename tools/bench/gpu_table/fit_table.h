// FitTable: the entries of GpuTable with which the compiler's estimates come closest to measured times.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/gpu_table.h"
#include "core/status.h"
#include "tools/bench/gpu_table/bench_cases.h"

namespace rondo::bench {

struct TimedCase {
  BenchCase kernel;
  double cycles = 0;  // of one launch among launches of it
};

// An entry of the table that times of single kernels can tell.
struct TableEntry {
  const char* name;
  const char* unit;
  double cuda::GpuTable::*value;
};
Span<const TableEntry> TableEntries();

// How far the estimates of a variant are from the times.
struct VariantError {
  std::string variant;
  size_t kernels = 0;
  double median = 0, ninth_decile = 0;  // of |ln(estimated / measured)|
};

struct TableErrors {
  std::vector<VariantError> variants;  // in the order in which they appear
  // Over the problems with two cases and more: time of the case that is estimated to be best over that of the
  // best, as the geometric mean. What a choice by estimate costs.
  double choice = 1;
};

struct FittedTable {
  cuda::GpuTable table;          // entries that no case depends on stay as they were
  std::vector<bool> determined;  // of TableEntries(): some case depends on it
  TableErrors before, after;
};

// Coordinate descent in the logarithms of all entries at once over the mean of |ln(estimated / measured)|
// (variants count alike), with a small weight that keeps what the times do not tell near `start`. Every entry
// stays positive. The same result for the same times. `target` without a table of its own. Cases that the
// target has not are left out; kInvalidArgument if none is left.
Result<FittedTable> FitTable(const CudaTarget& target, const cuda::GpuTable& start,
                             const std::vector<TimedCase>& times);

}  // namespace rondo::bench
