// The C interface to metrics.
#include <cstddef>

#include "runtime/c_handles.h"
#include "runtime/metrics.h"

static_assert(RONDO_HISTOGRAM_BUCKETS == rondo::kHistogramBuckets);
static_assert(RONDO_METRICS_CODES == rondo::kErrorCodes);

// MetricsData has the layout of rondo_metrics after its size.
static_assert(sizeof(rondo_metrics) == sizeof(size_t) + sizeof(rondo::MetricsData));
static_assert(offsetof(rondo_metrics, runs) == sizeof(size_t));
#define RONDO_SAME_PLACE(field) \
  static_assert(offsetof(rondo_metrics, field) == sizeof(size_t) + offsetof(rondo::MetricsData, field))
RONDO_SAME_PLACE(errors);
RONDO_SAME_PLACE(input_bytes);
RONDO_SAME_PLACE(output_bytes);
RONDO_SAME_PLACE(sessions);
RONDO_SAME_PLACE(plans);
RONDO_SAME_PLACE(weight_bytes);
RONDO_SAME_PLACE(arena_bytes);
RONDO_SAME_PLACE(state_bytes);
RONDO_SAME_PLACE(run_time);
RONDO_SAME_PLACE(queue_wait);
RONDO_SAME_PLACE(staging_bytes);
static_assert(offsetof(rondo_histogram, sum_nanoseconds) == offsetof(rondo::HistogramData, sum_nanoseconds));
static_assert(offsetof(rondo_histogram, buckets) == offsetof(rondo::HistogramData, buckets));

extern "C" {

uint64_t rondo_histogram_limit(uint32_t bucket) {
  return bucket < rondo::kHistogramBuckets ? rondo::kHistogramLimits[bucket] : UINT64_MAX;
}

rondo_error* rondo_runtime_get_metrics(const rondo_runtime* runtime, rondo_metrics* metrics) {
  if (rondo_error* error = rondo::Refuse("rondo_runtime_get_metrics", runtime, "runtime")) return error;
  if (metrics == nullptr) return rondo::NullError("rondo_runtime_get_metrics", "metrics");
  const rondo::MetricsData from = runtime->runtime.metrics();
  rondo_metrics full;
  std::memcpy(reinterpret_cast<char*>(&full) + sizeof(size_t), &from, sizeof(from));
  return rondo::FillStruct(full, metrics) ? nullptr : rondo::SizeError("rondo_metrics");
}

size_t rondo_runtime_write_metrics(const rondo_runtime* runtime, char* text, size_t size) {
  if (runtime == nullptr) return 0;
  return runtime->runtime.WriteMetrics(text, text == nullptr ? 0 : size);
}

}  // extern "C"
