// How long collectives take, by size and number of ranks. Schedules are compared by it, and it decides
// between NCCL and the cuda driver's kernels over peer memory. Measured on H200 over NVLink, in graphs; other
// GPUs are assumed to be like it. Microseconds and bytes. Pure functions, the same for every rank.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/span.h"

namespace rondo {

// Time of an all-reduce of `bytes` among 2, 8 and 4 devices. us4 = 0: half way between us2 and us8.
struct AllReduceTime {
  double bytes, us2, us8, us4 = 0;
};

// NCCL 2.28 with one GPU a device.
inline constexpr AllReduceTime kNcclTimes[] = {{4 << 10, 7.1, 22.6, 11.2},  {64 << 10, 8.4, 25.5, 12},
                                               {1 << 20, 14.5, 31.6, 17.6}, {4 << 20, 33.8, 49.5, 40.5},
                                               {16 << 20, 76, 121, 112},    {256 << 20, 900, 1356, 1231}};
// NCCL where all devices share one GPU.
inline constexpr AllReduceTime kNcclSharedTimes[] = {
    {4 << 10, 5.9, 21.6, 10.6}, {64 << 10, 9.3, 21.3, 12.9}, {256 << 10, 20.2, 36.9, 25.7},
    {1 << 20, 69.5, 118, 89},   {4 << 20, 121, 276, 205},    {16 << 20, 478, 1082, 775}};

// The cuda driver's kernels over peer memory. They serve no size above the last row's. us8 with one GPU a
// device: the plain one-shot kernel up to 256 KiB; above, the time in which such links carry what two shots
// send.
inline constexpr AllReduceTime kSmallTimes[] = {{4 << 10, 3.1, 6.7, 4.1},     {16 << 10, 3.4, 6.9, 4.2},
                                                {64 << 10, 4.4, 8.0, 5.6},    {256 << 10, 6.6, 13.7, 9.4},
                                                {512 << 10, 8.4, 15.8, 12.7}, {1 << 20, 12.4, 23.2, 19},
                                                {4 << 20, 47.1, 67, 52.1}};
inline constexpr AllReduceTime kSmallSharedTimes[] = {
    {4 << 10, 4.1, 8.2, 5.6},   {64 << 10, 5.2, 13.5, 5.7},   {256 << 10, 5.7, 13.7, 9},
    {512 << 10, 7, 19.9, 11.5}, {1 << 20, 10.9, 263.6, 18.2}, {4 << 20, 51.5, 443.2, 265.9}};

// Looks up a table with ascending sizes. Interpolates between sizes and between numbers of devices (on a log2
// scale); beyond the last row, it extrapolates from the last two.
inline double AllReduceMicroseconds(Span<const AllReduceTime> table, double bytes, double ranks) {
  const double doublings = std::clamp(std::log2(std::max(ranks, 2.0)), 1.0, 3.0) - 1;  // 2 devices: 0, 8: 2
  const auto at = [&](const AllReduceTime& row) {
    const double middle = row.us4 != 0 ? row.us4 : (row.us2 + row.us8) / 2;
    return doublings < 1 ? row.us2 + (middle - row.us2) * doublings
                         : middle + (row.us8 - middle) * (doublings - 1);
  };
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

// Whether a small all-reduce of `bytes` is faster in two shots: each rank sends less, but waits twice. Packs
// (exchange_layout.h) double the bytes on a GPU's links.
constexpr bool TwoShotIsQuicker(double bytes, double ranks) {
  constexpr double kSecondShot = 1.8, kBytesPerMicrosecond = 2.5e5;
  return kSecondShot < 2 * bytes * (ranks - 1) * (1 - 2 / ranks) / kBytesPerMicrosecond;
}

}  // namespace rondo
