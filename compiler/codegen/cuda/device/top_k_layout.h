// TopKRows: who chooses and orders the first elements of rows (top_k.cuh).
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// All are ints, as those of TileMatmul.
struct TopKRows {
  int elements;  // of a row
  int count;     // the first so many are wanted
  int chunk;     // ranks of a block or cluster
  int cluster;   // blocks that share a row for the same ranks
  int threads;   // of a block
  int bits;      // of a key: 8, 16, 32 or 64

  enum : int {
    kDigit = 8,
    kBins = 1 << kDigit,
    kCounted = 256
  };  // elements put in order by counting, at most

  // Elements that a block puts in order at once, at most: more than its ranks, so that the search for the
  // first and the last rarely goes to the last digit. A power of 2.
  HOST_DEVICE int room() const {
    int room = 32;
    while (room < chunk + chunk / 4 + 32) room *= 2;
    return room;
  }
  HOST_DEVICE int place_bits() const {  // whole digits
    int bits = kDigit;
    while (bits < 32 && (elements - 1) >> bits != 0) bits += kDigit;
    return bits;
  }
  HOST_DEVICE int element_bytes() const { return bits > 32 ? 16 : 8; }
  HOST_DEVICE int shared() const { return room() * element_bytes(); }
};

}  // namespace rondo::cuda
