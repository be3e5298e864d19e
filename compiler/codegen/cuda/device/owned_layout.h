// OwnedPlaces: how blocks share points that write to places which data chooses (owned_places.cuh), and what
// lies where in their shared memory.
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// `owners` clusters share the places; the blocks of a cluster look at the points together, and each block
// applies the points of its own places. All are ints, as those of TileMatmul. Sizes in bytes unless said
// otherwise.
struct OwnedPlaces {
  int points;     // that a cluster looks at
  int places;     // where they may write; number `places` itself stands for an index out of range
  int owners;     // clusters that share the places
  int cluster;    // blocks of a cluster
  int lanes;      // threads of a team, which applies the points of a place: neighbouring parts of its row
  int share;      // of a row, that a thread has at a time
  int splits;     // updates of one place may be summed in pieces
  int last_wins;  // only the last point of a place counts

  enum : int {
    kThreads = 512,
    kWarps = kThreads / 32,
    kMostLooks = 32,            // points that a thread looks at between two exchanges in the cluster
    kEach = 8,                  // found points of a thread that are put in order at once
    kList = kThreads * kEach,   // of a block
    kPiece = 32,                // points that a team applies one after the other, if `splits`
    kDigit = 5,                 // bits by which points are sorted at once, at most
    kCounts = kWarps << kDigit  // words: of each digit, for each warp
  };

  HOST_DEVICE int looks() const {
    const int all = (points - 1) / (cluster * kThreads) + 1;
    return all < kMostLooks ? all : kMostLooks;
  }
  HOST_DEVICE int chunk() const { return looks() * kThreads; }  // points of a block between two exchanges
  HOST_DEVICE int lists() const { return (chunk() + kList - 1) / kList; }
  HOST_DEVICE int blocks() const { return owners * cluster; }  // that share the places
  // The greatest number of a block's places, and the one that stands for an index out of range.
  HOST_DEVICE int most_local() const { return places / blocks(); }
  HOST_DEVICE int outside() const { return most_local() + 1; }
  HOST_DEVICE int bits() const {
    int bits = 0;
    while (outside() >> bits != 0) ++bits;
    return bits;
  }
  HOST_DEVICE int passes() const { return (bits() + kDigit - 1) / kDigit; }
  HOST_DEVICE int digit() const { return (bits() + passes() - 1) / passes(); }
  HOST_DEVICE int room() const { return lanes >= 32 ? 1024 : 2048; }  // points sorted at once
  // Sums of pieces: at most two pieces begin in as many points as one has.
  HOST_DEVICE int sums() const { return splits ? 2 * room() / kPiece * lanes * share : 0; }

  // Shared memory: sums, the places and points of the sorted list, counts, totals of warps, where what
  // is collected ends and begins, where each block's part of a list of found points begins, where pieces
  // begin, found points.
  HOST_DEVICE int list_places_at() const { return (sums() + 15) / 16 * 16; }
  HOST_DEVICE int list_points_at() const { return list_places_at() + 4 * room(); }
  HOST_DEVICE int counts_at() const { return list_points_at() + 4 * room(); }
  HOST_DEVICE int totals_at() const { return counts_at() + 4 * kCounts; }
  HOST_DEVICE int ends_at() const { return totals_at() + 4 * kWarps; }
  HOST_DEVICE int parts_at() const { return ends_at() + 4 * 64; }
  HOST_DEVICE int pieces_at() const { return parts_at() + 4 * lists() * (cluster + 1); }
  HOST_DEVICE int found_at() const { return pieces_at() + 2 * room(); }
  HOST_DEVICE int shared() const { return found_at() + 2 * chunk(); }
};

}  // namespace rondo::cuda
