#include "tools/bench/device_memory/fit_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tools/rondo/report.h"

namespace rondo::bench {
namespace {

using tools::Printf;

// A point to fit: y = a * x[0] + b * x[1].
struct Point {
  double x[2], y;
};

// Least squares with no coefficient below 0. Returns false and sets nothing if all x[0] or all x[1] are 0.
bool Solve(const std::vector<Point>& points, double solution[2]) {
  double xx[2] = {}, xy[2] = {}, cross = 0;
  for (const Point& p : points) {
    for (int i = 0; i < 2; ++i) xx[i] += p.x[i] * p.x[i], xy[i] += p.x[i] * p.y;
    cross += p.x[0] * p.x[1];
  }
  if (xx[0] == 0 || xx[1] == 0) return false;
  const double determinant = xx[0] * xx[1] - cross * cross;
  if (determinant > 1e-9 * xx[0] * xx[1]) {
    solution[0] = (xy[0] * xx[1] - xy[1] * cross) / determinant;
    solution[1] = (xy[1] * xx[0] - xy[0] * cross) / determinant;
    if (solution[0] >= 0 && solution[1] >= 0) return true;
  }
  // Otherwise one coefficient is 0: keep the one that fits better alone.
  const double alone[2] = {std::max(0.0, xy[0] / xx[0]), std::max(0.0, xy[1] / xx[1])};
  const int best = alone[0] * xy[0] > alone[1] * xy[1] ? 0 : 1;
  solution[best] = alone[best];
  solution[1 - best] = 0;
  return true;
}

// Bytes that each further object takes: the slope of a least-squares line through the totals taken(i). It
// leaves out the first quarter and evens out the steps in which the device gives memory.
double Slope(size_t count, const std::function<int64_t(size_t)>& taken) {
  double points = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = count / 4; i < count; ++i) {
    const auto at = static_cast<double>(i), bytes = static_cast<double>(taken(i));
    ++points, x += at, y += bytes, xx += at * at, xy += at * bytes;
  }
  return (points * xy - x * y) / (points * xx - x * x);
}

uint64_t Round(double bytes) { return static_cast<uint64_t>(std::llround(std::max(0.0, bytes))); }

// Fits the bytes that are taken once: FitOnce() finds the `once` for which the sum of |InDeviceSteps(of +
// once) - taken| is least, and the middle of them if several are.
struct First {
  double of = 0;
  int64_t taken = 0;
};
uint64_t FitOnce(const std::vector<First>& firsts) {
  constexpr uint64_t kMost = uint64_t{64} << 20, kUnit = 64 << 10;
  double least = INFINITY;
  uint64_t from = 0, to = 0;
  for (uint64_t once = 0; once <= kMost; once += kUnit) {
    double off = 0;
    for (const First& f : firsts)
      off += std::abs(static_cast<double>(InDeviceSteps(Round(f.of) + once)) - static_cast<double>(f.taken));
    if (off < least) from = once, least = off;
    if (off == least) to = once;
  }
  return (from + to) / 2 / kUnit * kUnit;
}

// Bytes of graphs, streams and whatever else a session takes beside its blocks and code.
int64_t Beside(const TakenBytes& taken) { return taken.all - taken.blocks - taken.code; }
// The same without streams.
int64_t BesideStreams(const TakenBytes& taken) { return Beside(taken) - taken.streams; }

void FitCode(const std::vector<MeasuredPlan>& plans, DeviceMemoryRates* rates) {
  std::vector<Point> points;
  for (const MeasuredPlan& p : plans) {
    if (p.modules.size() < 8) continue;
    const double each = Slope(p.modules.size(), [&](size_t i) { return p.modules[i]; });
    points.push_back(
        {{static_cast<double>(p.needs.code_bytes) / 1024, static_cast<double>(p.needs.codes)}, each});
  }
  double solution[2];
  if (Solve(points, solution)) {
    rates->code_kibibyte = Round(solution[0]);
    rates->code = Round(solution[1]);
  }
  const auto bytes = [&](const DeviceNeeds& n) {
    return static_cast<double>(n.code_bytes * rates->code_kibibyte / 1024 + n.codes * rates->code);
  };
  std::vector<First> firsts;
  for (const MeasuredPlan& p : plans) {
    if (!p.needs.library && !p.sessions.empty()) firsts.push_back({bytes(p.needs), p.sessions[0].code});
  }
  if (!firsts.empty()) rates->code_once = FitOnce(firsts);
  double library = 0;
  size_t with_library = 0;
  for (const MeasuredPlan& p : plans) {
    if (!p.needs.library || p.sessions.empty()) continue;
    ++with_library;
    library += static_cast<double>(p.sessions[0].code) -
               static_cast<double>(InDeviceSteps(Round(bytes(p.needs)) + rates->code_once));
  }
  if (with_library != 0) rates->library = Round(library / static_cast<double>(with_library));
}

void FitStreams(const std::vector<MeasuredPlan>& plans, DeviceMemoryRates* rates) {
  double streams = 0, bytes = 0;
  for (const MeasuredPlan& p : plans) {
    if (p.sessions.size() < 8) continue;
    streams += static_cast<double>(p.needs.streams);
    bytes += Slope(p.sessions.size(), [&](size_t i) { return p.sessions[i].streams; });
  }
  if (streams != 0) rates->stream = Round(bytes / streams);
}

void FitGraphs(const std::vector<MeasuredPlan>& plans, DeviceMemoryRates* rates) {
  std::vector<Point> points;
  for (const MeasuredPlan& p : plans) {
    if (p.sessions.size() < 8) continue;
    const double each = Slope(p.sessions.size(), [&](size_t i) { return BesideStreams(p.sessions[i]); });
    points.push_back({{static_cast<double>(p.needs.nodes), static_cast<double>(p.needs.graphs)}, each});
  }
  double solution[2];
  if (Solve(points, solution)) {
    rates->graph_node = Round(solution[0]);
    rates->graph = Round(solution[1]);
  }
  // The first sessions differ: they use memory that CUDA keeps ready.
  std::vector<First> firsts;
  for (const MeasuredPlan& p : plans) {
    const DeviceMemory memory = EstimateDeviceMemory(p.needs, *rates);
    for (size_t i = 0; i < std::min<size_t>(8, p.sessions.size()); ++i)
      firsts.push_back({static_cast<double>(memory.graphs * (i + 1)), Beside(p.sessions[i])});
  }
  if (!firsts.empty()) rates->graphs_once = FitOnce(firsts);
}

double Mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string Row(const char* part, uint64_t stated, int64_t taken) {
  const auto said = static_cast<int64_t>(stated);
  return Printf("  %-14s %10.2f %10.2f %10.2f", part, Mebibytes(said), Mebibytes(taken),
                Mebibytes(said - taken));
}

}  // namespace

DeviceMemoryRates FitRates(const std::vector<MeasuredPlan>& plans, const DeviceMemoryRates& start) {
  DeviceMemoryRates rates = start;
  FitCode(plans, &rates);
  FitStreams(plans, &rates);
  FitGraphs(plans, &rates);
  std::vector<uint64_t> starts;
  for (const MeasuredPlan& p : plans) {
    if (p.start != 0) starts.push_back(p.start);
  }
  std::sort(starts.begin(), starts.end());
  if (!starts.empty()) rates.start = starts[starts.size() / 2];
  return rates;
}

bool StatementError::good() const {
  const int64_t off = std::abs(difference());
  return off <= int64_t{4} << 20 || off <= taken / 100;
}

std::vector<StatementError> ErrorsOf(const MeasuredPlan& plan, const DeviceMemoryRates& rates) {
  const DeviceMemory stated = EstimateDeviceMemory(plan.needs, rates);
  std::vector<StatementError> errors;
  for (uint64_t sessions : {uint64_t{1}, uint64_t{2}, uint64_t{8}, uint64_t{plan.sessions.size()}}) {
    const bool more = errors.empty() || sessions > errors.back().sessions;
    if (sessions == 0 || sessions > plan.sessions.size() || !more) continue;
    errors.push_back({sessions, BytesOfSessions(stated, sessions), plan.sessions[sessions - 1].all});
  }
  return errors;
}

std::string StageTable(const MeasuredPlan& plan, const DeviceMemoryRates& rates) {
  const DeviceMemory stated = EstimateDeviceMemory(plan.needs, rates);
  std::string text =
      Printf("%-16s %10s %10s %10s   (MiB)\n", plan.name.c_str(), "stated", "taken", "difference");
  if (plan.start != 0) text += Row("CUDA's start", rates.start, static_cast<int64_t>(plan.start)) + "\n";
  if (plan.sessions.empty()) return text;
  const TakenBytes& first = plan.sessions[0];
  text += Row(plan.needs.library ? "code, library" : "code", stated.code + stated.library, first.code) + "\n";
  text += Row("blocks", BlockBytes(stated, 1), first.blocks) + "\n";
  text += Row("graphs, streams", InDeviceSteps(stated.graphs_once + stated.graphs),
              first.graphs + first.streams) +
          "\n";
  const int64_t rest = Beside(first) - first.graphs - first.streams;
  text += Row("runs, others", 0, rest) + "\n";
  for (const StatementError& error : ErrorsOf(plan, rates)) {
    const std::string part = Printf("%llu session%s", static_cast<unsigned long long>(error.sessions),
                                    error.sessions == 1 ? "" : "s");
    text += Row(part.c_str(), error.stated, error.taken) + (error.good() ? "\n" : "  beyond 1 % and 4 MiB\n");
  }
  return text;
}

std::string RatesText(const DeviceMemoryRates& rates) {
  const struct {
    const char* name;
    uint64_t value;
  } fields[] = {
      {"code_kibibyte", rates.code_kibibyte}, {"code", rates.code},       {"code_once", rates.code_once},
      {"graph_node", rates.graph_node},       {"graph", rates.graph},     {"stream", rates.stream},
      {"graphs_once", rates.graphs_once},     {"library", rates.library}, {"start", rates.start}};
  std::string text = "inline constexpr DeviceMemoryRates kDeviceMemoryRates = {";
  for (const auto& field : fields)
    text += Printf("%s\n    .%s = %llu", &field == fields ? "" : ",", field.name,
                   static_cast<unsigned long long>(field.value));
  return text + "};\n";
}

}  // namespace rondo::bench
