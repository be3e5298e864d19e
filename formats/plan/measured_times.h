// MeasuredTimes: times of kernels and collectives, measured on one machine. The cost model prefers them to
// its table. A plan that was compiled with them keeps the ones that concern it as texts among its sources,
// which nothing refers to, so that tools estimate like the compiler.
#pragma once

#include <cstdint>
#include <functional>
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

// Times of launches, by KernelDigest (formats/machine_code).
using KernelTimes = std::map<uint64_t, double>;

// A line through times by bytes.
struct LatencyAndRate {
  double latency = 0;  // microseconds for a message of 0 bytes
  double rate = 0;     // bytes a microsecond; infinite where more bytes take no longer
};

// Collectives of one kind, alone on the machine.
struct MeasuredCollective {
  CollectiveOp op = CollectiveOp::kAllReduce;
  uint32_t ranks = 2;
  bool small = false;  // by kernels over peer memory, not by NCCL (or the host's threads)
  std::map<uint64_t, double> microseconds = {};  // by SyncPoint::bytes

  // The line with the smallest squared relative errors. For a single time: its latency.
  LatencyAndRate Fit() const;
  // Interpolates linearly between two measured sizes. Below the smallest: its time. Up to four times the
  // largest: at the rate of Fit. No value beyond.
  std::optional<double> Of(uint64_t bytes) const;
};

// The fraction of a collective's time that compute beside it loses, from the length of a run: `end_with`
// gives the estimated end of the run for a fraction, and grows with it. From 0 to kMostTaken, in thousandths.
// No value where the fraction makes next to no difference to the run.
inline constexpr double kMostTaken = 0.95;
std::optional<double> FitTaken(double run, const std::function<double(double taken)>& end_with);

struct MeasuredTimes {
  std::string profile;  // for people: `0123456789abcdef of NVIDIA H200, sm_90a`
  KernelTimes kernels = {};
  std::vector<MeasuredCollective> collectives = {};
  std::optional<double> taken = {};  // FitTaken

  std::optional<double> OfKernel(const Kernel& kernel) const;
  std::optional<double> OfCollective(CollectiveOp op, uint64_t bytes, size_t ranks, bool small) const;
  // The largest size up to which kernels over peer memory are faster than NCCL; 0: never. No value unless
  // both were measured.
  std::optional<uint64_t> SmallUpTo(CollectiveOp op, size_t ranks) const;
  // The measurements that concern the kernels and sync points of `plan`.
  MeasuredTimes ThoseOf(const PlanData& plan) const;
};

// The notes of a plan: `times from profile "..."`, `measured kernel 00f3a1...: 12.340 us`, `measured
// all-reduce among 2 by small kernels: 4096 bytes 3.900 us, ...`.
std::vector<std::string> TextsOf(const MeasuredTimes& times);
// No value if no source names a profile. Ignores texts that are not such notes, and notes with impossible
// values.
std::optional<MeasuredTimes> ParseMeasuredTimes(Span<const std::string_view> sources);

// The same for the compiler's estimates of kernels, by the way each is computed: `estimated kernel 00f3a1...:
// 12.340 us`.
std::vector<std::string> TextsOfEstimates(const KernelTimes& times);
KernelTimes ParseEstimates(Span<const std::string_view> sources);
// Microseconds; 0: unknown.
double TimeOf(const KernelTimes& times, const Kernel& kernel);

}  // namespace rondo
