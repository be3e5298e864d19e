// StagedAttention: attention whose keys and values go through shared memory (attention_staged.cuh), as its
// kernel fixes it; and what lies where there. Sizes in bytes unless said otherwise.
#pragma once

#include "compiler/codegen/cuda/device/attention_layout.h"

namespace rondo::cuda {

// A block's warps are row_warps, each with 16 queries of its own, by splits() that share the keys of a stage.
// wgmma: both matmuls are by wgmma, else by mma.sync. All are ints, as those of
// TileMatmul; flags are 0 or 1.
struct StagedAttention {
  static constexpr int kWarpRows = 16;
  static constexpr int kAlignment = 1024;  // of what wgmma reads
  // Threads that copy for those that compute (attention_pipelined.cuh), and come after them.
  static constexpr int kCopiers = 128;

  int features, values, row_warps;
  int keys;    // of a stage
  int stages;  // copies in flight
  int wgmma;
  int bf16;  // else f16
  // Elements of a query, a key, a value that are copied at once, as their alignment permits: 8, 4, 2, 1; or
  // 0, where they are no neighbours.
  int query_lanes, key_lanes, value_lanes;

  // In shared memory lines end with whole pieces of 16 bytes; what is beyond their elements is zero.
  HOST_DEVICE int padded(int elements) const { return (elements + 7) / 8 * 8; }
  HOST_DEVICE int panels(int elements) const { return (elements + 63) / 64; }  // of wgmma
  // Of a value, as wgmma computes them: the narrowest of its widths that has an instruction here.
  HOST_DEVICE int wgmma_values() const {
    const int step = values <= 128 ? 16 : 32;
    return (values + step - 1) / step * step;
  }
  HOST_DEVICE int splits() const { return AttentionLayout::kWarps / row_warps; }
  HOST_DEVICE int own() const { return keys / splits(); }  // keys of a stage that a warp computes with
  HOST_DEVICE int rows() const { return row_warps * kWarpRows; }
  // From line to line. ldmatrix reads lines an odd number of 16-byte pieces apart, so that equal pieces of
  // eight lines lie in different banks; wgmma reads panels of 64 elements, their lines swizzled; of
  // the last panel, it reads features up to a multiple of 16, and wgmma_values() values: sums of those beyond
  // a value's elements go nowhere.
  HOST_DEVICE int pitch(int elements) const {
    return wgmma ? panels(elements) * 128 : ((elements + 7) / 8 | 1) * 16;
  }
  HOST_DEVICE int query_bytes() const { return rows() * pitch(features); }
  HOST_DEVICE int key_bytes() const { return keys * pitch(features); }
  HOST_DEVICE int stage() const { return key_bytes() + keys * pitch(values); }
  // Queries, then stages; afterwards the same memory holds what AttentionBlock keeps.
  HOST_DEVICE int shared() const {
    const int copied = (wgmma ? kAlignment : 0) + query_bytes() + stages * stage();
    const int kept = AttentionLayout{kWarpRows, padded(values), splits()}.shared(1);
    return copied > kept ? copied : kept;
  }
};

}  // namespace rondo::cuda
