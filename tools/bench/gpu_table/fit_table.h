// FitTable: fits the entries of GpuTable so that the compiler's estimates come closest to measured times.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/gpu_table.h"
#include "core/status.h"
#include "tools/bench/gpu_table/bench_cases.h"

namespace rondo::bench {

struct TimedCase {
  BenchCase kernel;
  double cycles = 0;  // of one launch in a series of launches of the same kernel
};

// An entry of the table that can be fitted to times of single kernels.
struct TableEntry {
  const char* name;
  const char* unit;
  double cuda::GpuTable::*value;
};
Span<const TableEntry> TableEntries();

// How far the estimates of one kernel variant are from the times.
struct VariantError {
  std::string variant;
  size_t kernels = 0;
  double median = 0, ninth_decile = 0;  // of |ln(estimated / measured)|
};

struct TableErrors {
  std::vector<VariantError> variants;  // in the order in which they appear
  // What choosing by estimate costs: the time of the case with the best estimate over the best time, as the
  // geometric mean over all problems with at least two cases.
  double choice = 1;
};

struct FittedTable {
  cuda::GpuTable table;          // entries that no case depends on keep their values
  std::vector<bool> determined;  // for each of TableEntries(): some case depends on it
  TableErrors before, after;
};

// Coordinate descent over the logarithms of the entries. It minimises the mean of |ln(estimated / measured)|,
// in which all variants weigh the same. A small penalty keeps entries that the times do not determine near
// `start`. Entries stay positive, and the same times give the same result. `target` must not have its own
// table. Cases without an estimate are left out; kInvalidArgument if none is left.
Result<FittedTable> FitTable(const CudaTarget& target, const cuda::GpuTable& start,
                             const std::vector<TimedCase>& times);

}  // namespace rondo::bench
