#include "runtime/metrics.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

namespace rondo {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t Load(const std::atomic<uint64_t>& value) { return value.load(std::memory_order_relaxed); }

// Appends to a buffer of fixed size, and counts the bytes that the whole text needs.
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
  void Gauge(const char* name, const char* help, uint64_t value) {
    Describe(name, help, "gauge");
    Add("rondo_%s %" PRIu64 "\n", name, value);
  }
  void Held(const char* kind, uint64_t bytes) {
    Add("rondo_device_bytes{kind=\"%s\"} %" PRIu64 "\n", kind, bytes);
  }
  // A sample of runs. Their labels come first, then `label` and its `value`, which may be empty.
  void Sample(const char* name, const RunCounters& runs, const char* label, const char* value,
              uint64_t number) {
    Add("rondo_%s{%s%s%s} %" PRIu64 "\n", name, runs.labels, label, value, number);
  }
  // The same, if `number` is not 0.
  void Counted(const char* name, const RunCounters& runs, const char* label, const char* value,
               uint64_t number) {
    if (number != 0) Sample(name, runs, label, value, number);
  }
  // Writes seconds without floating point, whose text would depend on the process's locale.
  void Durations(const char* name, const RunCounters& runs, const Histogram& histogram) {
    HistogramData data;
    histogram.AddTo(&data);
    if (data.count == 0) return;
    uint64_t below = 0;
    for (size_t i = 0; i < kHistogramBuckets; ++i) {
      below += data.buckets[i];
      char limit[32] = "+Inf\"";
      if (i + 1 != kHistogramBuckets) {
        std::snprintf(limit, sizeof(limit), "%" PRIu64 ".%05" PRIu64 "\"", kHistogramLimits[i] / kSecond,
                      kHistogramLimits[i] % kSecond / 10'000);
      }
      Sample(name, runs, ",le=\"", limit, below);
    }
    // The name without "_bucket".
    const int size = static_cast<int>(std::strlen(name)) - 7;
    Add("rondo_%.*s_sum{%s} %" PRIu64 ".%09" PRIu64 "\nrondo_%.*s_count{%s} %" PRIu64 "\n", size, name,
        runs.labels, data.sum_nanoseconds / kSecond, data.sum_nanoseconds % kSecond, size, name, runs.labels,
        data.count);
  }
  size_t bytes() const { return bytes_; }

 private:
  char* text_;
  size_t size_;
  size_t bytes_ = 0;
};

// A family of samples about runs; every program has its own sample.
struct Family {
  const char *name, *help, *type;
  void (*add)(Page* page, const RunCounters& runs);
};

constexpr Family kFamilies[] = {
    {"runs_total", "Runs that have ended.", "counter",
     [](Page* page, const RunCounters& runs) { page->Counted("runs_total", runs, "", "", Load(runs.runs)); }},
    {"run_errors_total", "Runs that failed, by kind of error.", "counter",
     [](Page* page, const RunCounters& runs) {
       for (size_t i = 1; i <= static_cast<size_t>(Code::kDeadlineExceeded); ++i) {
         char code[64];
         std::snprintf(code, sizeof(code), "%s\"", CodeName(static_cast<Code>(i)));
         page->Counted("run_errors_total", runs, ",code=\"", code, Load(runs.errors[i]));
       }
     }},
    {"copied_bytes_total", "Bytes copied to and from devices by runs.", "counter",
     [](Page* page, const RunCounters& runs) {
       page->Counted("copied_bytes_total", runs, ",direction=\"in\"", "", Load(runs.input_bytes));
       page->Counted("copied_bytes_total", runs, ",direction=\"out\"", "", Load(runs.output_bytes));
     }},
    {"run_seconds", "Time of runs.", "histogram",
     [](Page* page, const RunCounters& runs) { page->Durations("run_seconds_bucket", runs, runs.run_time); }},
    {"queue_seconds", "Time that asynchronous runs waited for a worker.", "histogram",
     [](Page* page, const RunCounters& runs) {
       page->Durations("queue_seconds_bucket", runs, runs.queue_wait);
     }},
};

// Labels are cut, so that a name from a file cannot fill a page.
constexpr size_t kMostLabel = 128;
constexpr size_t kMostLabels = 4 * kMostLabel + 32;  // two, escaped

// Appends `label="value"` in Prometheus's format: escaped, and valid UTF-8 (ASCII) for any name.
char* AppendLabel(char* to, const char* label, std::string_view value) {
  for (; *label != '\0'; ++label) *to++ = *label;
  for (size_t i = 0; i < value.size() && i < kMostLabel; ++i) {
    const char c = value[i];
    if (c == '"' || c == '\\') *to++ = '\\';
    *to++ = c >= ' ' && c <= '~' ? c : '?';
  }
  *to++ = '"';
  return to;
}

}  // namespace

void Histogram::AddTo(HistogramData* to) const {
  for (size_t i = 0; i < kHistogramBuckets; ++i) {
    const uint64_t count = Load(buckets_[i]);
    to->buckets[i] += count;
    to->count += count;
  }
  to->sum_nanoseconds += Load(sum_);
}

void RunTotals::AddTo(RunTotals* to) const {
  using Number = std::atomic<uint64_t>;
  const auto* from = reinterpret_cast<const Number*>(this);
  auto* sum = reinterpret_cast<Number*>(to);
  for (size_t i = 0; i < sizeof(RunTotals) / sizeof(Number); ++i) {
    sum[i].fetch_add(Load(from[i]), std::memory_order_relaxed);
  }
}

Metrics::~Metrics() {
  while (RunCounters* first = unnamed.next) {
    unnamed.next = first->next;
    allocator_.deallocate(allocator_.user, first, first->bytes);
  }
}

RunCounters* Metrics::Of(std::string_view plan, std::string_view program) {
  char labels[kMostLabels];
  char* end = AppendLabel(AppendLabel(labels, "plan=\"", plan), ",program=\"", program);
  *end++ = '\0';
  const std::lock_guard<std::mutex> lock(mutex_);
  RunCounters* last = &unnamed;
  for (;; last = last->next) {
    if (std::strcmp(last->labels, labels) == 0) {
      ++last->users;
      return last;
    }
    if (last->next == nullptr) break;
  }
  const auto size = static_cast<size_t>(end - labels), bytes = sizeof(RunCounters) + size;
  void* memory = allocator_.allocate(allocator_.user, bytes, alignof(RunCounters));
  if (memory == nullptr) return nullptr;
  char* kept = static_cast<char*>(memory) + sizeof(RunCounters);
  std::memcpy(kept, labels, size);
  last->next = new (memory) RunCounters();
  last->next->labels = kept;
  last->next->bytes = bytes;
  return last->next;
}

void Metrics::Release(RunCounters* counters) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--counters->users != 0 || keep_totals) return;
  RunCounters** link = &unnamed.next;
  while (*link != counters) link = &(*link)->next;
  *link = counters->next;
  counters->AddTo(&gone_);
  allocator_.deallocate(allocator_.user, counters, counters->bytes);
}

void Metrics::Read(MetricsData* to) const {
  RunTotals sum;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone_.AddTo(&sum);
    for (const RunCounters* c = &unnamed; c != nullptr; c = c->next) c->AddTo(&sum);
  }
  to->runs = Load(sum.runs);
  for (size_t i = 0; i < kErrorCodes; ++i) to->errors[i] = Load(sum.errors[i]);
  to->input_bytes = Load(sum.input_bytes);
  to->output_bytes = Load(sum.output_bytes);
  sum.run_time.AddTo(&to->run_time);
  sum.queue_wait.AddTo(&to->queue_wait);
  to->plans = Load(plans);
  to->weight_bytes = Load(weight_bytes);
  to->arena_bytes = Load(arena_bytes);
  to->state_bytes = Load(state_bytes);
  to->staging_bytes = Load(staging_bytes);
}

size_t Metrics::Write(uint64_t sessions, char* text, size_t size) const {
  Page page(text, size);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Family& family : kFamilies) {
      page.Describe(family.name, family.help, family.type);
      for (const RunCounters* c = &unnamed; c != nullptr; c = c->next) family.add(&page, *c);
    }
  }
  page.Gauge("sessions", "Sessions alive.", sessions);
  page.Gauge("plans", "Plans loaded.", Load(plans));
  page.Describe("device_bytes", "Device memory held, by kind.", "gauge");
  page.Held("weights", Load(weight_bytes));
  page.Held("arena", Load(arena_bytes));
  page.Held("state", Load(state_bytes));
  page.Gauge("staging_bytes", "Page-locked host memory held for copies.", Load(staging_bytes));
  return page.bytes();
}

}  // namespace rondo
