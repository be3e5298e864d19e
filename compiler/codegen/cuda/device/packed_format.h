// PackedFormat: how the codes and scales of a B in fewer bits become numbers (core/packed_weights.h), as a
// kernel fixes it.
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// All are ints, as those of TileMatmul.
struct PackedFormat {
  int type;         // rondo::PackedType
  int bits;         // of a number
  int block;        // numbers along K that share a scale
  int scale_bytes;  // of one
  int scale_bf16;   // of 2 bytes: bf16, else f16
  int zeros;        // blocks have zero points, else all have `zero`
  int zero;
  int bf16;  // what is multiplied: bf16, else f16

  // Of 16 columns: numbers along K in a piece of 512 bytes of codes; bytes of a block's scales, or zero
  // points.
  HOST_DEVICE int piece_k() const { return 256 / bits; }
  HOST_DEVICE int scale_row() const { return 16 * scale_bytes; }
  // Such rows of a block: of its scales, and of its zero points.
  HOST_DEVICE int scale_rows() const { return zeros ? 2 : 1; }
  // Pieces and blocks of k numbers; the last may have fewer.
  HOST_DEVICE int pieces(int k) const { return (k + piece_k() - 1) / piece_k(); }
  HOST_DEVICE int blocks(int k) const { return k / block + (k % block != 0); }
};

}  // namespace rondo::cuda
