// Register blocks of matmuls, defined in rows.cc and gemm.cc.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {

// acc[m][j] (rows `acc_row` floats apart) = (add ? acc : 0) + sum over k of a[m * a_row + k] * b(k, j) for m
// < rows (at most kFewRows) and j < columns. WalkRows: b(k, j) = b[k * b_step + j]; Dots: b(k, j) = b[j *
// b_step + k]. b_step in elements of `dtype` (f32, f16, bf16). `fetch`: prefetch distance in elements.
void WalkRows(const float* a, int64_t a_row, int rows, const char* b, DType dtype, int64_t b_step, int64_t k,
              int columns, float* acc, int64_t acc_row, bool add, int64_t fetch);
void Dots(const float* a, int64_t a_row, int rows, const char* b, DType dtype, int64_t b_step, int64_t k,
          int columns, float* acc, int64_t acc_row, bool add);

// acc[m][j] += sum over k < depth of a[m * kLhsRow + k] * panel(k, j); panels of kBlockColumns columns:
// panel(k, j) = b[(j / kBlockColumns * depth + k) * kBlockColumns + j % kBlockColumns].
inline constexpr int kLhsRow = kLanes + 16;  // floats between rows of a packed lhs tile
// Rows of acc are acc_row floats apart, and are written up to the next multiple of kWidth columns.
void MultiplyPanels(const float* a, int rows, const float* b, int depth, int columns, float* acc,
                    int64_t acc_row, bool add);

// Fetches panels of the plan while those before them are multiplied.
struct NextPanels {
  const float* at = nullptr;  // null: none
  int64_t apart = 0;

  void Fetch(int lines) {
    if (at == nullptr) return;
    for (; lines > 0; --lines, at += kStoredColumns) {
      for (int v = 0; v < kBlockColumns; v += kStoredColumns)
        __builtin_prefetch(at + v / kStoredColumns * apart, 0, 2);
    }
  }
};

}  // namespace rondo::host::RONDO_ISA
