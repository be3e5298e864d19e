// The C interface to metrics.
#include "runtime/c_handles.h"
#include "runtime/metrics.h"

static_assert(RONDO_HISTOGRAM_BUCKETS == rondo::kHistogramBuckets);
static_assert(RONDO_METRICS_CODES == rondo::kErrorCodes);

namespace {

void Convert(const rondo::HistogramData& from, rondo_histogram* to) {
  to->count = from.count;
  to->sum_nanoseconds = from.sum_nanoseconds;
  std::memcpy(to->buckets, from.buckets, sizeof(to->buckets));
}

}  // namespace

extern "C" {

uint64_t rondo_histogram_limit(uint32_t bucket) {
  return bucket < rondo::kHistogramBuckets ? rondo::kHistogramLimits[bucket] : UINT64_MAX;
}

rondo_error* rondo_runtime_get_metrics(const rondo_runtime* runtime, rondo_metrics* metrics) {
  if (rondo_error* error = rondo::Refuse("rondo_runtime_get_metrics", runtime, "runtime")) return error;
  if (metrics == nullptr) return rondo::NullError("rondo_runtime_get_metrics", "metrics");
  const rondo::MetricsData from = runtime->runtime.metrics();
  rondo_metrics full = {};
  full.runs = from.runs;
  std::memcpy(full.errors, from.errors, sizeof(full.errors));
  full.input_bytes = from.input_bytes;
  full.output_bytes = from.output_bytes;
  full.sessions = from.sessions;
  full.plans = from.plans;
  full.weight_bytes = from.weight_bytes;
  full.arena_bytes = from.arena_bytes;
  full.state_bytes = from.state_bytes;
  full.staging_bytes = from.staging_bytes;
  Convert(from.run_time, &full.run_time);
  Convert(from.queue_wait, &full.queue_wait);
  return rondo::FillStruct(full, metrics) ? nullptr : rondo::SizeError("rondo_metrics");
}

size_t rondo_runtime_write_metrics(const rondo_runtime* runtime, char* text, size_t size) {
  if (runtime == nullptr) return 0;
  return runtime->runtime.WriteMetrics(text, text == nullptr ? 0 : size);
}

}  // extern "C"
