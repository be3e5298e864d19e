// How long collectives take, by size and ranks: what schedules are compared with, and what chooses between
// NCCL and the small kernels of the cuda driver. Measured on H200 over NVLink, in graphs; other GPUs are
// taken for one. Microseconds and bytes. Pure functions, the same for every rank.
#ifndef RONDO_CORE_COLLECTIVE_TIME_H_
#define RONDO_CORE_COLLECTIVE_TIME_H_

#include <algorithm>
#include <cmath>

#include "core/span.h"

namespace rondo {

// An all-reduce of so many bytes among 2 and among 8 devices.
struct AllReduceTime {
  double bytes, us2, us8;
};

// NCCL 2.28.
inline constexpr AllReduceTime kNcclTimes[] = {{4 << 10, 7.1, 22.6},
                                               {64 << 10, 8.0, 25.5},
                                               {1 << 20, 14.5, 31.6},
                                               {16 << 20, 73, 121},
                                               {256 << 20, 886, 1356}};

// Kernels over peer memory, which are for no more than the last row. Among 2 devices those of the cuda
// driver, among 8 a plain one-shot kernel.
inline constexpr AllReduceTime kSmallTimes[] = {
    {4 << 10, 3.9, 6.7}, {16 << 10, 3.9, 6.9}, {64 << 10, 5.3, 8.0}, {256 << 10, 8.4, 13.7}};

// Of a table with ascending sizes. Between sizes and numbers of devices of the table in proportion; beyond
// the last row as between the last two.
inline double AllReduceMicroseconds(Span<const AllReduceTime> table, double bytes, double ranks) {
  const double doublings = std::clamp(std::log2(std::max(ranks, 2.0)), 1.0, 3.0) - 1;  // 2 devices: 0, 8: 2
  const auto at = [&](const AllReduceTime& row) { return row.us2 + (row.us8 - row.us2) * doublings / 2; };
  const AllReduceTime *low = &table[0], *high = low;
  for (const AllReduceTime& row : table) {
    low = high;
    high = &row;
    if (row.bytes >= bytes) break;
  }
  if (low == high) return at(*low);
  const double slope = (at(*high) - at(*low)) / (high->bytes - low->bytes);
  return std::max(at(*low) + (bytes - low->bytes) * slope, at(table[0]));
}

// Whether a small all-reduce of `bytes` takes less time in two shots: a rank then sends less, but waits
// twice. Packs double what goes through a GPU's links.
constexpr bool TwoShotIsQuicker(double bytes, double ranks) {
  constexpr double kSecondShot = 1.8, kBytesPerMicrosecond = 2.5e5;
  return kSecondShot < 2 * bytes * (ranks - 1) * (1 - 2 / ranks) / kBytesPerMicrosecond;
}

}  // namespace rondo

#endif  // RONDO_CORE_COLLECTIVE_TIME_H_
