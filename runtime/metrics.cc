#include "runtime/metrics.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace rondo {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t Load(const std::atomic<uint64_t>& value) { return value.load(std::memory_order_relaxed); }

// Appends to a buffer of fixed size and counts what all of it would take.
class Page {
 public:
  Page(char* text, size_t size) : text_(text), size_(size) {
    if (size_ != 0) text_[0] = '\0';
  }
  void Add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    const size_t used = bytes_ < size_ ? bytes_ : size_;
    va_list args;
    va_start(args, format);
    int n = std::vsnprintf(size_ == 0 ? nullptr : text_ + used, size_ - used, format, args);
    va_end(args);
    if (n > 0) bytes_ += static_cast<size_t>(n);
  }
  void Describe(const char* name, const char* help, const char* type) {
    Add("# HELP rondo_%s %s\n# TYPE rondo_%s %s\n", name, help, name, type);
  }
  void One(const char* name, const char* help, const char* type, uint64_t value) {
    Describe(name, help, type);
    Add("rondo_%s %" PRIu64 "\n", name, value);
  }
  void Labelled(const char* name, const char* label, const char* text, uint64_t value) {
    Add("rondo_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, text, value);
  }
  // Seconds without floating point, whose text depends on the process's locale.
  void Durations(const char* name, const char* help, const HistogramData& data) {
    Describe(name, help, "histogram");
    uint64_t below = 0;
    for (size_t i = 0; i < kHistogramBuckets; ++i) {
      below += data.buckets[i];
      if (i + 1 == kHistogramBuckets) {
        Labelled(BucketName(name), "le", "+Inf", below);
      } else {
        char limit[32];
        std::snprintf(limit, sizeof(limit), "%" PRIu64 ".%05" PRIu64, kHistogramLimits[i] / kSecond,
                      kHistogramLimits[i] % kSecond / 10'000);
        Labelled(BucketName(name), "le", limit, below);
      }
    }
    Add("rondo_%s_sum %" PRIu64 ".%09" PRIu64 "\n", name, data.sum_nanoseconds / kSecond,
        data.sum_nanoseconds % kSecond);
    Add("rondo_%s_count %" PRIu64 "\n", name, data.count);
  }
  size_t bytes() const { return bytes_; }

 private:
  const char* BucketName(const char* name) {
    std::snprintf(bucket_, sizeof(bucket_), "%s_bucket", name);
    return bucket_;
  }
  char* text_;
  size_t size_;
  size_t bytes_ = 0;
  char bucket_[48];
};

}  // namespace

void Histogram::Read(HistogramData* to) const {
  to->count = 0;
  for (size_t i = 0; i < kHistogramBuckets; ++i) {
    to->buckets[i] = Load(buckets_[i]);
    to->count += to->buckets[i];
  }
  to->sum_nanoseconds = Load(sum_);
}

void Metrics::Read(MetricsData* to) const {
  to->runs = Load(runs);
  for (size_t i = 0; i < kErrorCodes; ++i) to->errors[i] = Load(errors[i]);
  to->input_bytes = Load(input_bytes);
  to->output_bytes = Load(output_bytes);
  to->plans = Load(plans);
  to->weight_bytes = Load(weight_bytes);
  to->arena_bytes = Load(arena_bytes);
  to->state_bytes = Load(state_bytes);
  to->staging_bytes = Load(staging_bytes);
  run_time.Read(&to->run_time);
  queue_wait.Read(&to->queue_wait);
}

size_t WritePrometheus(const MetricsData& data, char* text, size_t size) {
  Page page(text, size);
  page.One("runs_total", "Runs that have ended.", "counter", data.runs);
  page.Describe("run_errors_total", "Runs that failed, by kind of error.", "counter");
  for (size_t i = 1; i <= static_cast<size_t>(Code::kDeadlineExceeded); ++i) {
    page.Labelled("run_errors_total", "code", CodeName(static_cast<Code>(i)), data.errors[i]);
  }
  page.Describe("copied_bytes_total", "Bytes copied to and from devices by runs.", "counter");
  page.Labelled("copied_bytes_total", "direction", "in", data.input_bytes);
  page.Labelled("copied_bytes_total", "direction", "out", data.output_bytes);
  page.One("sessions", "Sessions alive.", "gauge", data.sessions);
  page.One("plans", "Plans loaded.", "gauge", data.plans);
  page.Describe("device_bytes", "Device memory held, by kind.", "gauge");
  page.Labelled("device_bytes", "kind", "weights", data.weight_bytes);
  page.Labelled("device_bytes", "kind", "arena", data.arena_bytes);
  page.Labelled("device_bytes", "kind", "state", data.state_bytes);
  page.One("staging_bytes", "Page-locked host memory held for copies.", "gauge", data.staging_bytes);
  page.Durations("run_seconds", "Time of runs.", data.run_time);
  page.Durations("queue_seconds", "Time that asynchronous runs waited for a worker.", data.queue_wait);
  return page.bytes();
}

}  // namespace rondo
