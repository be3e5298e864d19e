#include "compiler/schedule/least_memory.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/exact_order.h"
#include "compiler/schedule/greedy_orders.h"
#include "compiler/schedule/least_peak.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {
namespace {

// Work in single ops looked at: by all exact searches together (half a second), and in steps of trial moves.
constexpr int64_t kSearchWork = 20'000'000, kMoveSteps = 40'000'000;
constexpr int64_t kQuickWork = 200;  // per op, in the first exact search, which settles the easy segments

// Ops that stand together in every order, as a separate problem.
struct Segment {
  MemoryModel model;
  Dependences deps;
  std::vector<int> order;  // the best known order
  int64_t peak = 0;        // its peak
  int64_t least = 0;       // proven bound: no order of the segment, or of the whole, has a lower peak
  const char* method = "given order";
  bool searched = false;
};

struct Method {
  const char* name;
  std::vector<int> (*order)(const MemoryModel&, const Dependences&);
};

template <Greedy kGreedy>
std::vector<int> GreedyBy(const MemoryModel& model, const Dependences& deps) {
  return GreedyOrder(model, deps, kGreedy);
}

constexpr Method kMethods[] = {
    {"least growth", GreedyBy<Greedy::kLeastGrowth>},
    {"least while running", GreedyBy<Greedy::kLeastDuring>},
    {"newest first", GreedyBy<Greedy::kNewestFirst>},
    {"depth first", DepthFirstOrder},
    {"deepest valley", GreedyBy<Greedy::kDeepestValley>},
};
constexpr Method kBackwards[] = {
    {"least growth, backwards", GreedyBy<Greedy::kLeastGrowth>},
    {"least while running, backwards", GreedyBy<Greedy::kLeastDuring>},
    {"deepest valley, backwards", GreedyBy<Greedy::kDeepestValley>},
};

// The program's segments, each in the given order.
std::vector<Segment> SegmentsOf(const MemoryModel& model, const Dependences& deps) {
  const std::vector<int> seams = deps.Seams();
  std::vector<MemoryModel> models = model.Split(seams);
  std::vector<Segment> segments(models.size());
  for (size_t s = 0; s < segments.size(); ++s) {
    Segment& segment = segments[s];
    segment.model = std::move(models[s]);
    segment.deps = deps.Part(seams[s], seams[s + 1]);
    segment.order.resize(segment.deps.before.size());
    std::iota(segment.order.begin(), segment.order.end(), 0);
    segment.peak = CostOf(segment.model, segment.order).peak;
    segment.least = LeastPeak(segment.model, segment.deps);
  }
  return segments;
}

Segment& Highest(std::vector<Segment>* segments) {
  return *std::max_element(segments->begin(), segments->end(),
                           [](const Segment& a, const Segment& b) { return a.peak < b.peak; });
}

// No order of the whole program has a lower peak than this.
int64_t LeastOf(const std::vector<Segment>& segments) {
  int64_t least = 0;
  for (const Segment& segment : segments) least = std::max(least, segment.least);
  return least;
}

// Keeps `order` if it is better than the best known one.
void Offer(Segment* segment, std::vector<int> order, const char* method) {
  const int64_t peak = CostOf(segment->model, order).peak;
  if (peak >= segment->peak) return;
  segment->order = std::move(order);
  segment->peak = peak;
  segment->method = method;
}

// Tries the methods in turn until the segment's peak is within `enough`. Returns how many were tried.
int TryMethods(Segment* segment, int64_t enough) {
  int tried = 0;
  for (const Method& method : kMethods) {
    if (segment->peak <= enough) return tried;
    Offer(segment, method.order(segment->model, segment->deps), method.name);
    ++tried;
  }
  if (segment->peak <= enough) return tried;
  const MemoryModel model = segment->model.Reversed();
  const Dependences deps = segment->deps.Reversed();
  for (const Method& method : kBackwards) {
    if (segment->peak <= enough) return tried;
    std::vector<int> order = method.order(model, deps);
    Dependences::TurnBack(&order);
    Offer(segment, std::move(order), method.name);
    ++tried;
  }
  return tried;
}

// The exact search for a peak of at most `enough`, with at most `most` looks at single ops. Subtracts the
// looks from `work`.
void SearchExactly(Segment* segment, int64_t enough, int64_t most, int64_t* work) {
  const int64_t least = std::max(segment->least, enough);
  if (segment->peak <= least) return;
  OrderSearch search =
      FindLeastOrder(segment->model, segment->deps, segment->peak, least, std::min(most, *work));
  *work -= search.work;
  segment->least = std::max(segment->least, search.least);
  if (!search.order.empty()) Offer(segment, std::move(search.order), "exact search");
}

// Lowers the highest segment until its peak is proven least or nothing better is found. Returns how many
// methods were tried, including the given order and the search.
int Improve(std::vector<Segment>* segments) {
  int tried = 1;
  int64_t work = kSearchWork;
  for (;;) {
    const int64_t least = LeastOf(*segments);
    Segment& segment = Highest(segments);
    if (segment.peak <= least || segment.searched) return tried;
    segment.searched = true;
    SearchExactly(&segment, least, kQuickWork * segment.deps.count(), &work);
    tried += 1 + TryMethods(&segment, std::max(segment.least, least));
    SearchExactly(&segment, least, work, &work);
  }
}

// Moves single ops to the latest or earliest place that their dependences allow, if that lowers the segment's
// cost. Each trial runs the whole segment, so in long segments the last ops are not moved.
class Moves {
 public:
  Moves(Segment* segment, int64_t* steps)
      : segment_(*segment), steps_(*steps), live_(segment->model), position_(segment->order.size()) {
    cost_ = CostOf(segment_.model, segment_.order, &live_);
    Number();
  }

  // Whether anything was moved.
  bool Run() {
    const int count = segment_.deps.count();
    bool any = false;
    for (int op = 0; op < count && steps_ > 0; ++op) {
      const size_t o = static_cast<size_t>(op);
      int latest = count - 1, earliest = 0;
      for (int user : segment_.deps.after[o]) latest = std::min(latest, At(user) - 1);
      for (int d : segment_.deps.before[o]) earliest = std::max(earliest, At(d) + 1);
      if (Move(At(op), latest) || Move(At(op), earliest)) any = true;
    }
    segment_.peak = cost_.peak;
    return any;
  }

 private:
  int At(int op) const { return position_[static_cast<size_t>(op)]; }
  void Number() {
    for (size_t p = 0; p < segment_.order.size(); ++p)
      position_[static_cast<size_t>(segment_.order[p])] = static_cast<int>(p);
  }

  bool Move(int from, int to) {
    if (to == from || (steps_ -= segment_.deps.count()) < 0) return false;
    trial_ = segment_.order;
    const auto begin = trial_.begin();
    if (to > from) {
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    } else {
      std::rotate(begin + to, begin + from, begin + from + 1);
    }
    const OrderCost moved = CostOf(segment_.model, trial_, &live_);
    if (!(moved < cost_)) return false;
    cost_ = moved;
    segment_.order.swap(trial_);
    Number();
    return true;
  }

  Segment& segment_;
  int64_t& steps_;  // steps left
  LiveBytes live_;
  OrderCost cost_;
  std::vector<int> position_, trial_;
};

// "given order", or the methods of the segments that were improved.
std::string MethodOf(const std::vector<Segment>& segments) {
  std::vector<std::string> names;
  for (const Segment& segment : segments) {
    if (std::string("given order") == segment.method) continue;
    if (std::find(names.begin(), names.end(), segment.method) == names.end()) names.push_back(segment.method);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "; ") + name;
  return text.empty() ? "given order" : text;
}

std::string TextOf(const ScheduleReport& report, size_t segments) {
  char text[400];
  std::snprintf(
      text, sizeof text, "peak of live bytes %lld -> %lld, %s (%s; %d orders tried, %zu segments)",
      static_cast<long long>(report.peak_before), static_cast<long long>(report.peak_after),
      report.proven() ? "proven least" : ("no order has less than " + std::to_string(report.least)).c_str(),
      report.method.c_str(), report.candidates, segments);
  return text;
}

}  // namespace

void Reorder(const std::vector<int>& order, LoweredProgram* program) {
  std::vector<int> position(order.size());
  for (size_t p = 0; p < order.size(); ++p) position[static_cast<size_t>(order[p])] = static_cast<int>(p);
  std::vector<LoweredOp> ops;
  ops.reserve(order.size());
  for (int op : order) {
    ops.push_back(std::move(program->ops[static_cast<size_t>(op)]));
    for (int& d : ops.back().deps) d = position[static_cast<size_t>(d)];
    std::sort(ops.back().deps.begin(), ops.back().deps.end());
  }
  program->ops = std::move(ops);
}

int64_t PeakLiveBytes(const LoweredProgram& program, const std::vector<int>& order) {
  return CostOf(MemoryModel(program), order).peak;
}

ScheduleReport ScheduleForLeastMemory(LoweredProgram* program) {
  const MemoryModel model(*program);
  std::vector<Segment> segments = SegmentsOf(model, Dependences(*program));
  ScheduleReport report;
  report.peak_before = Highest(&segments).peak;
  report.candidates = Improve(&segments);
  report.method = MethodOf(segments);
  int64_t steps = kMoveSteps;
  bool moved = false;
  for (Segment& segment : segments) moved = Moves(&segment, &steps).Run() || moved;
  if (moved) report.method += ", single moves";
  report.peak_after = Highest(&segments).peak;
  report.least = LeastOf(segments);

  std::vector<int> order;
  order.reserve(program->ops.size());
  for (const Segment& segment : segments) {
    const int first = static_cast<int>(order.size());
    for (int op : segment.order) order.push_back(first + op);
  }
  Reorder(order, program);
  report.text = TextOf(report, segments.size());
  return report;
}

}  // namespace rondo
