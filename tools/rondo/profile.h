// Profile: what `rondo tune` and `rondo profile` measured, as a file that `rondo compile --profile` reads.
//
// JSON in this form. Kernels are in the order of their keys, so that equal profiles are equal files; empty
// members are left out:
//
//   {
//     "rondo_profile": 1,
//     "gpu": "NVIDIA H200", "architecture": "sm_90a", "driver": 13000,   of the host: "host", "host", 0
//     "nccl": "2.31.2",
//     "kernels": [                               rondo tune: how kernels are best computed
//       { "key": "00f3a1…",                      16 hexadecimal digits: KernelDigest of the kernel
//         "kernel": "k3_matmul", "source": "MatMul \"layers.0.q\"",   for people
//         "choice": "mma 64x64x64 2x2x2 cluster 2",                        what compile takes
//         "microseconds": { "mma 64x64x64 2x2x2 cluster 2": 671.25, ... } } of a run with each of them
//     ],
//     "times": [                                 rondo profile: how long kernels take, among the others
//       { "key": "00f3a1…", "kernel": "k3_matmul", "source": "MatMul \"layers.0.q\"",
//         "launches": 8,                         in a run that was measured, for people
//         "microseconds": 12.34 }                of a launch
//     ],
//     "collectives": [                           and collectives, alone on the machine
//       { "op": "all-reduce", "ranks": 2, "by": "nccl",    or "small": kernels over peer memory; or "host"
//         "latency_us": 7.0, "bytes_per_us": 151000.5,     the line through them, for people
//         "microseconds": { "4096": 7.1, ... } }           by SyncPoint::bytes
//     ],
//     "taken": 0.81,                             of a collective's time, what compute beside it loses
//     "runs": [                                  for people: of the plans that were measured
//       { "plan": "89ab…", "program": "main", "devices": 2, "microseconds": 2120.5, "estimated": 2057.1 }
//     ]
//   }
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/kernel_profile.h"
#include "core/status.h"
#include "formats/plan/measured_times.h"

namespace rondo::tools {

struct ProfiledKernel {
  std::string kernel, source, choice;
  std::map<std::string, double> microseconds;  // of a run of the measured plan, by choice
};

struct TimedKernel {
  std::string kernel, source;
  uint64_t launches = 0;    // in the measured runs
  double microseconds = 0;  // of one launch
};

struct TimedRun {
  std::string plan, program;  // the plan by its content hash
  uint32_t devices = 1;
  double microseconds = 0, estimated = 0;
};

struct TuningProfile {
  std::string gpu, architecture, nccl;
  uint32_t driver = 0;                         // version of the GPU's driver
  std::map<uint64_t, ProfiledKernel> kernels;  // by key
  std::map<uint64_t, TimedKernel> times;       // by key
  std::vector<MeasuredCollective> collectives;
  std::optional<double> taken;
  std::vector<TimedRun> runs;
  uint64_t hash = 0;  // of the text that it was read from

  bool has_times() const { return !times.empty() || !collectives.empty(); }
};

// Errors: kIo, or kCorrupt with the file and what is wrong in it.
Result<TuningProfile> ReadProfile(const std::string& path);
Result<TuningProfile> ParseProfile(const std::string& text, const std::string& name);

std::string ProfileJson(const TuningProfile& profile);
Status WriteProfile(const TuningProfile& profile, const std::string& path);

// kInvalidArgument, naming both machines, if `profile` (read from `path`) comes from another machine than
// this one. Times and choices of different machines must not be mixed.
Status SameMachine(const TuningProfile& profile, const TuningProfile& here, const std::string& path);

// The choices for the compiler.
KernelProfile ChoicesOf(const TuningProfile& profile);
// The times for estimates; null if nothing was timed.
std::shared_ptr<const MeasuredTimes> TimesOf(const TuningProfile& profile);

}  // namespace rondo::tools
