// Metrics: counters and gauges of a runtime for a service to watch.
//
// Counting is lock-free and allocates nothing. Any thread may read at any time; a reading delays the loading
// and unloading of plans, but no run. A reading is not atomic: numbers that are counted one after the other
// may differ by one run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "core/arena.h"
#include "core/status.h"

namespace rondo {

// Upper limits of the buckets in nanoseconds: 50 us to 10 s; the last bucket takes the rest.
inline constexpr uint64_t kHistogramLimits[] = {
    50'000,      100'000,       250'000,       500'000,       1'000'000,      2'500'000,
    5'000'000,   10'000'000,    25'000'000,    50'000'000,    100'000'000,    250'000'000,
    500'000'000, 1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000, ~uint64_t{0}};
inline constexpr size_t kHistogramBuckets = sizeof(kHistogramLimits) / sizeof(uint64_t);
inline constexpr size_t kErrorCodes = 16;  // by Code; room for codes to come

// A reading of a histogram of durations. `buckets` are not cumulative; `count` is their sum.
struct HistogramData {
  uint64_t count = 0;
  uint64_t sum_nanoseconds = 0;
  uint64_t buckets[kHistogramBuckets] = {};
};

// A reading of everything, with the layout of rondo_metrics after its size. Counters only grow; gauges
// (sessions, plans, bytes held) go up and down.
struct MetricsData {
  uint64_t runs = 0;                  // runs of Run or RunAsync that have ended
  uint64_t errors[kErrorCodes] = {};  // calls of Run and RunAsync that failed, the caller's mistakes included
  uint64_t input_bytes = 0;           // copied in, in all
  uint64_t output_bytes = 0;          // copied out, in all
  uint64_t sessions = 0;              // alive
  uint64_t plans = 0;                 // loaded
  uint64_t weight_bytes = 0;   // device memory of weights (those used in place, in the plan, take none)
  uint64_t arena_bytes = 0;    // device memory taken by arenas
  uint64_t state_bytes = 0;    // device memory taken by state
  HistogramData run_time;      // of runs: from the call, or from the end of the wait in the queue
  HistogramData queue_wait;    // of RunAsync: from the call until a worker takes the run
  uint64_t staging_bytes = 0;  // page-locked host memory taken by sessions for their copies
};

// --- internal to runtime/: what is counted.

class Histogram {
 public:
  void Add(uint64_t nanoseconds) {
    size_t i = 0;
    while (nanoseconds > kHistogramLimits[i]) ++i;
    buckets_[i].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  void AddTo(HistogramData* to) const;

 private:
  std::atomic<uint64_t> buckets_[kHistogramBuckets] = {};
  std::atomic<uint64_t> sum_{0};
};

// Sums over runs: only atomic numbers, one after the other.
struct RunTotals {
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> errors[kErrorCodes] = {};
  std::atomic<uint64_t> input_bytes{0};
  std::atomic<uint64_t> output_bytes{0};
  Histogram run_time;
  Histogram queue_wait;

  void CountError(Code code) {
    errors[static_cast<size_t>(code) % kErrorCodes].fetch_add(1, std::memory_order_relaxed);
  }
  void AddTo(RunTotals* to) const;
};

// The counts of all programs of one name in plans of one name.
struct RunCounters : RunTotals {
  const char* labels = "plan=\"\",program=\"\"";  // as in the text format
  size_t bytes = 0;                               // of this object and the labels behind it
  uint32_t users = 1;                             // programs of loaded plans
  RunCounters* next = nullptr;
};

class Metrics {
 public:
  explicit Metrics(const HostAllocator& allocator) : allocator_(allocator) {}
  ~Metrics();

  RunCounters unnamed;       // of calls that named no existing program
  bool keep_totals = false;  // of programs that no loaded plan has any more, in case one is loaded again
  std::atomic<uint64_t> plans{0};
  std::atomic<uint64_t> weight_bytes{0};
  std::atomic<uint64_t> arena_bytes{0};
  std::atomic<uint64_t> state_bytes{0};
  std::atomic<uint64_t> staging_bytes{0};

  // The counters of these names (their first 128 bytes; non-ASCII bytes become '?'), created if needed; null
  // when out of memory. They live until each success is matched by one Release; with keep_totals, as long as
  // this object.
  RunCounters* Of(std::string_view plan, std::string_view program);
  void Release(RunCounters* counters);
  void Read(MetricsData* to) const;  // all but `sessions`
  // In Prometheus' text format (version 0.0.4), as Runtime::WriteMetrics says.
  size_t Write(uint64_t sessions, char* text, size_t size) const;

 private:
  const HostAllocator allocator_;
  mutable std::mutex mutex_;  // of the list that begins with `unnamed`
  RunTotals gone_;            // sums of the released counters, since totals only grow
};

}  // namespace rondo
