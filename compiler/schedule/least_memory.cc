#include "compiler/schedule/least_memory.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <tuple>

#include "compiler/schedule/live_bytes.h"

namespace rondo {
namespace {

// How good an order is: its peak, then the sum of live bytes over all steps (what the offsets' packing and
// the caches feel).
struct Cost {
  int64_t peak = std::numeric_limits<int64_t>::max();
  double area = 0;
  bool operator<(const Cost& other) const { return std::tie(peak, area) < std::tie(other.peak, other.area); }
};

Cost CostOf(const MemoryModel& model, const std::vector<int>& order, LiveBytes* live) {
  live->Reset(model);
  Cost cost{live->live(), 0};
  for (int op : order) {
    const int64_t during = live->Run(op).during;
    cost.peak = std::max(cost.peak, during);
    cost.area += static_cast<double>(during);
  }
  return cost;
}

struct Dependences {
  std::vector<std::vector<int>> before, after;  // per op, without repeats

  explicit Dependences(const LoweredProgram& program)
      : before(program.ops.size()), after(program.ops.size()) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      before[i] = program.ops[i].deps;
      std::sort(before[i].begin(), before[i].end());
      before[i].erase(std::unique(before[i].begin(), before[i].end()), before[i].end());
      for (int d : before[i]) after[static_cast<size_t>(d)].push_back(static_cast<int>(i));
    }
  }
};

// What a greedy step looks at, smallest first; ties go to the given order or to the op made ready last.
enum class Greedy { kLeastGrowth, kLeastDuring, kNewestFirst };

constexpr size_t kMostTried = 512;  // ops that a greedy step looks at

std::vector<int> GreedyOrder(const MemoryModel& model, const Dependences& deps, Greedy greedy) {
  const size_t count = deps.before.size();
  std::vector<size_t> waiting(count);
  std::vector<int> ready, ready_since(count, 0), order;
  for (size_t i = 0; i < count; ++i) {
    waiting[i] = deps.before[i].size();
    if (waiting[i] == 0) ready.push_back(static_cast<int>(i));
  }
  LiveBytes live(model);
  while (!ready.empty()) {
    size_t best = 0;
    std::tuple<int64_t, int64_t, int64_t> best_key;
    for (size_t r = 0; r < ready.size(); ++r) {
      // Of very many, the first and the last of the given order.
      if (r == kMostTried / 2 && ready.size() > kMostTried) r = ready.size() - kMostTried / 2;
      const int op = ready[r];
      const LiveBytes::Effect effect = live.Try(op);
      std::tuple<int64_t, int64_t, int64_t> key;
      switch (greedy) {
        case Greedy::kLeastGrowth: key = {effect.after, effect.during, op}; break;
        case Greedy::kLeastDuring: key = {effect.during, effect.after, op}; break;
        case Greedy::kNewestFirst:
          key = {effect.after, -ready_since[static_cast<size_t>(op)], effect.during};
          break;
      }
      if (r == 0 || key < best_key) {
        best = r;
        best_key = key;
      }
    }
    const int op = ready[best];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(best));
    live.Run(op);
    order.push_back(op);
    for (int next : deps.after[static_cast<size_t>(op)]) {
      if (--waiting[static_cast<size_t>(next)] > 0) continue;
      ready_since[static_cast<size_t>(next)] = static_cast<int>(order.size());
      ready.insert(std::upper_bound(ready.begin(), ready.end(), next), next);
    }
  }
  return order;
}

// Every op as late as its first user allows: what it needs is finished depth first, operand by operand, those
// that need most memory first (R. Sethi, J. D. Ullman, 1970, with bytes for registers).
class DepthFirst {
 public:
  DepthFirst(const MemoryModel& model, const Dependences& deps)
      : deps_(deps), need_(deps.before.size(), 0), done_(deps.before.size(), false) {
    for (size_t i = 0; i < deps.before.size(); ++i) {
      for (const auto& touch : model.touches[i]) need_[i] += touch.bytes;
      for (int d : deps.before[i]) need_[i] = std::max(need_[i], need_[static_cast<size_t>(d)]);
    }
  }
  std::vector<int> Order() {
    for (size_t i = 0; i < deps_.before.size(); ++i) {
      if (deps_.after[i].empty()) Visit(static_cast<int>(i));
    }
    return order_;
  }

 private:
  // With a stack of its own: chains are as long as the program.
  void Visit(int root) {
    std::vector<std::pair<int, bool>> stack = {{root, false}};
    while (!stack.empty()) {
      auto [op, operands_done] = stack.back();
      stack.pop_back();
      if (done_[static_cast<size_t>(op)]) continue;
      if (operands_done) {
        done_[static_cast<size_t>(op)] = true;
        order_.push_back(op);
        continue;
      }
      stack.push_back({op, true});
      std::vector<int> operands = deps_.before[static_cast<size_t>(op)];
      // The stack is last in, first out: the one to run first goes last.
      std::stable_sort(operands.begin(), operands.end(), [&](int a, int b) {
        return need_[static_cast<size_t>(a)] < need_[static_cast<size_t>(b)];
      });
      for (int d : operands) {
        if (!done_[static_cast<size_t>(d)]) stack.push_back({d, false});
      }
    }
  }
  const Dependences& deps_;
  std::vector<int64_t> need_;
  std::vector<bool> done_;
  std::vector<int> order_;
};

// Moves single ops to the latest or earliest place their deps allow, where that lowers the cost. Each trial
// runs the whole order: in long programs the ops at the end are left where they are.
void MoveOps(const MemoryModel& model, const Dependences& deps, std::vector<int>* order, Cost* cost) {
  const int count = static_cast<int>(order->size());
  std::vector<int> position(order->size()), trial;
  constexpr int64_t kMostSteps = 40'000'000;
  int64_t steps = 0;
  LiveBytes live(model);
  auto number = [&] {
    for (int p = 0; p < count; ++p) position[static_cast<size_t>((*order)[static_cast<size_t>(p)])] = p;
  };
  number();
  for (int op = 0; op < count; ++op) {
    const size_t o = static_cast<size_t>(op);
    const int at = position[o];
    int latest = count - 1, earliest = 0;
    for (int user : deps.after[o]) latest = std::min(latest, position[static_cast<size_t>(user)] - 1);
    for (int d : deps.before[o]) earliest = std::max(earliest, position[static_cast<size_t>(d)] + 1);
    for (int to : {latest, earliest}) {
      if (to == at) continue;
      if ((steps += count) > kMostSteps) return;
      trial = *order;
      const auto begin = trial.begin();
      if (to > at) {
        std::rotate(begin + at, begin + at + 1, begin + to + 1);
      } else {
        std::rotate(begin + to, begin + at, begin + at + 1);
      }
      const Cost moved = CostOf(model, trial, &live);
      if (!(moved < *cost)) continue;
      *cost = moved;
      order->swap(trial);
      number();
      break;
    }
  }
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
  const MemoryModel model(program);
  LiveBytes live(model);
  return CostOf(model, order, &live).peak;
}

ScheduleReport ScheduleForLeastMemory(LoweredProgram* program) {
  const MemoryModel model(*program);
  const Dependences deps(*program);
  LiveBytes live(model);

  std::vector<std::pair<const char*, std::vector<int>>> candidates;
  std::vector<int> given(program->ops.size());
  std::iota(given.begin(), given.end(), 0);
  candidates.emplace_back("given order", given);
  candidates.emplace_back("least growth", GreedyOrder(model, deps, Greedy::kLeastGrowth));
  candidates.emplace_back("least while running", GreedyOrder(model, deps, Greedy::kLeastDuring));
  candidates.emplace_back("newest first", GreedyOrder(model, deps, Greedy::kNewestFirst));
  candidates.emplace_back("depth first", DepthFirst(model, deps).Order());

  ScheduleReport report;
  report.candidates = static_cast<int>(candidates.size());
  Cost best;
  size_t winner = 0;
  for (size_t c = 0; c < candidates.size(); ++c) {
    const Cost cost = CostOf(model, candidates[c].second, &live);
    if (c == 0) report.peak_before = cost.peak;
    if (c == 0 || cost.peak < best.peak) {
      best = cost;
      winner = c;
    }
  }
  std::vector<int> order = candidates[winner].second;
  const std::vector<int> unmoved = order;
  MoveOps(model, deps, &order, &best);
  report.method = candidates[winner].first;
  if (order != unmoved) report.method += ", single moves";
  report.peak_after = best.peak;
  Reorder(order, program);

  char text[200];
  std::snprintf(text, sizeof text, "peak of live bytes %lld -> %lld (%s; %d orders tried)",
                static_cast<long long>(report.peak_before), static_cast<long long>(report.peak_after),
                report.method.c_str(), report.candidates);
  report.text = text;
  return report;
}

}  // namespace rondo
