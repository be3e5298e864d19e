// FmaAttention: attention in f32 whose queries, keys and values go through shared memory (attention_fma.cuh),
// as its kernel fixes it; and what lies where there, in floats unless said otherwise.
#pragma once

#include "compiler/codegen/cuda/device/block_threads.h"

namespace rondo::cuda {

// Sixteen neighbouring threads share rows_a_thread queries, kGroups apart; each has its share of a stage's
// keys, and of the values' features. All are ints, as those of TileMatmul.
struct FmaAttention {
  static constexpr int kLanes = 16;
  static constexpr int kGroups = kBlockThreads / kLanes;
  static constexpr int kKeys = 64;  // of a stage

  int rows_a_thread;
  int features, values;
  int stages;  // 1, or 2: one is copied while the other is computed with
  // Elements of a query, a key, a value that are copied at once, as their alignment permits: 4, 2, 1; or 0,
  // where they are no neighbours.
  int query_lanes, key_lanes, value_lanes;

  HOST_DEVICE int rows() const { return kGroups * rows_a_thread; }
  // The features of a value that a thread has, and how many of them lie side by side.
  HOST_DEVICE int columns() const { return (values + kLanes - 1) / kLanes; }
  HOST_DEVICE int vector() const { return columns() % 4 == 0 ? 4 : columns() % 2 == 0 ? 2 : 1; }
  // In shared memory queries and keys end with whole pieces of four; what is beyond their features is zero.
  // From line to line. Of queries and keys an odd number of 16-byte pieces: equal pieces of eight lines lie
  // in different banks.
  HOST_DEVICE int pitch() const { return ((features + 3) / 4 | 1) * 4; }
  HOST_DEVICE int value_pitch() const { return columns() * kLanes; }
  HOST_DEVICE int weight_pitch() const { return kKeys + kLanes; }
  HOST_DEVICE int result_pitch() const { return values + 4; }
  // Queries, weights, then stages: keys, values. Afterwards the same memory holds results.
  HOST_DEVICE int first_weight() const { return rows() * pitch(); }
  HOST_DEVICE int first_stage() const { return first_weight() + rows() * weight_pitch(); }
  HOST_DEVICE int stage() const { return kKeys * (pitch() + value_pitch()); }
  HOST_DEVICE int shared() const {  // bytes
    const int copied = first_stage() + stages * stage(), kept = rows() * result_pitch();
    return 4 * (copied > kept ? copied : kept);
  }
};

}  // namespace rondo::cuda
