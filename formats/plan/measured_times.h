// MeasuredTimes: how long kernels and collectives take, as measured on one machine: what the cost model takes
// in place of its table wherever it is known. A plan that was compiled with them keeps those that concern it
// as texts among its sources, which nothing refers to, so that tools estimate what its compiler did.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel.h"
#include "core/plan.h"
#include "core/span.h"

namespace rondo {

// All times are microseconds, from kLeastMeasured to kMostMeasured, in thousandths (ToThousandths).
inline constexpr double kLeastMeasured = 1e-3, kMostMeasured = 1e9;
double ToThousandths(double microseconds);

// Of a launch, by KernelDigest (formats/machine_code).
using KernelTimes = std::map<uint64_t, double>;

// A line through times by bytes: a message of none, and how much more goes in a microsecond.
struct LatencyAndRate {
  double latency = 0;  // microseconds
  double rate = 0;     // bytes a microsecond; infinite where more bytes take no longer
};

// Collectives of one kind, alone on the machine.
struct MeasuredCollective {
  CollectiveOp op = CollectiveOp::kAllReduce;
  uint32_t ranks = 2;
  bool small = false;  // by kernels over peer memory, not by NCCL (or the host's threads)
  std::map<uint64_t, double> microseconds = {};  // by SyncPoint::bytes

  // The line that all times are closest to, by the squares of their relative errors. Of one time: its
  // latency.
  LatencyAndRate Fit() const;
  // In proportion between two sizes that were measured; of less than the smallest what that takes; up to four
  // times the largest at the rate of Fit. None beyond.
  std::optional<double> Of(uint64_t bytes) const;
};

struct MeasuredTimes {
  std::string profile;  // for people: `0123456789abcdef of NVIDIA H200, sm_90a`
  KernelTimes kernels = {};
  std::vector<MeasuredCollective> collectives = {};

  std::optional<double> OfKernel(const Kernel& kernel) const;
  std::optional<double> OfCollective(CollectiveOp op, uint64_t bytes, size_t ranks, bool small) const;
  // The largest size up to which kernels over peer memory take less than NCCL; 0: none. Nothing where not
  // both were measured.
  std::optional<uint64_t> SmallUpTo(CollectiveOp op, size_t ranks) const;
  // The part that kernels and sync points of `plan` may ask for.
  MeasuredTimes ThoseOf(const PlanData& plan) const;
};

// The notes of a plan: `times from profile "..."`, `measured kernel 00f3a1...: 12.340 us`, `measured
// all-reduce among 2 by small kernels: 4096 bytes 3.900 us, ...`.
std::vector<std::string> TextsOf(const MeasuredTimes& times);
// None where no source says which profile. Texts that are no such notes, or hold what cannot be, are passed
// over.
std::optional<MeasuredTimes> ParseMeasuredTimes(Span<const std::string_view> sources);

// The same of what the compiler estimated of kernels, by how each is computed: `estimated kernel 00f3a1...:
// 12.340 us`.
std::vector<std::string> TextsOfEstimates(const KernelTimes& times);
KernelTimes ParseEstimates(Span<const std::string_view> sources);
// Microseconds; 0: not among them.
double TimeOf(const KernelTimes& times, const Kernel& kernel);

}  // namespace rondo
