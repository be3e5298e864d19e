// The prepared form of attention. Words: see program.h.
#pragma once

#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host {

struct AttentionPart : PartProgram {
  TapeType acc_type = TapeType::kF32;
  float scale = 1, softcap = 0;
  bool nan_to_zero = false;
  Tiling tiling, key_tiling, feature_tiling;  // of groups n, k, and features
  Program epilogue;
  const Access* q = nullptr;
  const Access* keys = nullptr;    // lanes along features
  const Access* values = nullptr;  // lanes along n
  const Access* mask = nullptr;    // lanes along keys
  const Access* limit = nullptr;
  bool keys_direct = false;              // one feature loop of unit stride, one key loop, float dtype
  bool values_direct = false;            // one n loop of unit stride, one key loop
  int64_t key_step = 0, value_step = 0;  // elements from key to key
  int64_t block_rows = 0;                // queries in a task
  int64_t acc_at = 0, acc_stride = 0, query_at = 0, key_at = 0, scores_at = 0, temp_at = 0;
};

}  // namespace rondo::host
