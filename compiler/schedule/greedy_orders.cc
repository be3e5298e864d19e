#include "compiler/schedule/greedy_orders.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "compiler/schedule/ready_ops.h"

namespace rondo {
namespace {

// The ops that one greedy step looks at, and that all steps together look at.
constexpr size_t kMostTried = 512, kLeastTried = 32, kMostTries = 1 << 23;

using Key = std::tuple<int64_t, int64_t, int64_t>;

Key KeyOf(Greedy greedy, int op, const LiveBytes::Effect& effect, int ready_since) {
  switch (greedy) {
    case Greedy::kLeastDuring: return {effect.during, effect.after, op};
    case Greedy::kNewestFirst: return {effect.after, -ready_since, effect.during};
    default: return {effect.after, effect.during, op};
  }
}

std::vector<int> OrderOpByOp(const MemoryModel& model, const Dependences& deps, Greedy greedy) {
  const size_t count = deps.before.size();
  std::vector<size_t> waiting(count);
  std::vector<int> ready, ready_since(count, 0), order;
  for (size_t i = 0; i < count; ++i) {
    waiting[i] = deps.before[i].size();
    if (waiting[i] == 0) ready.push_back(static_cast<int>(i));
  }
  LiveBytes live(model);
  const size_t most_tried = std::clamp(kMostTries / std::max<size_t>(count, 1), kLeastTried, kMostTried);
  while (!ready.empty()) {
    size_t best = 0;
    Key best_key;
    for (size_t r = 0; r < ready.size(); ++r) {
      // If there are very many, only the first and the last of the given order are tried.
      if (r == most_tried / 2 && ready.size() > most_tried) r = ready.size() - most_tried / 2;
      const int op = ready[r];
      const Key key = KeyOf(greedy, op, live.Try(op), ready_since[static_cast<size_t>(op)]);
      if (r > 0 && !(key < best_key)) continue;
      best = r;
      best_key = key;
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

// ------------------------------------------------------------------------------------- valleys

constexpr size_t kMostRuns = 64;     // the newest ready ops, whose runs a step looks at
constexpr size_t kLongestRun = 128;  // ops

// A run: `op`, then repeatedly the op with the least growth among those that the run has made ready. `ops`
// ends where the fewest bytes live (`valley`); `peak` is the most up to there.
struct Run {
  int64_t peak = 0, valley = 0;
  std::vector<int> ops;
};

Run RunFrom(int op, ReadyOps* state) {
  const size_t start = state->ran().size(), old = state->ready().size() - 1;
  Run run;
  int64_t peak = 0;
  size_t length = 0;
  for (int next = op; next >= 0 && state->ran().size() - start < kLongestRun;) {
    peak = std::max(peak, state->Try(next).during);
    state->Run(next);
    if (length == 0 || state->live() < run.valley) {
      run.valley = state->live();
      run.peak = peak;
      length = state->ran().size() - start;
    }
    next = -1;
    Key best;
    for (size_t r = old; r < state->ready().size(); ++r) {
      const int candidate = state->ready()[r];
      const Key key = KeyOf(Greedy::kLeastGrowth, candidate, state->Try(candidate), 0);
      if (next >= 0 && !(key < best)) continue;
      next = candidate;
      best = key;
    }
  }
  const auto first = state->ran().begin() + static_cast<std::ptrdiff_t>(start);
  run.ops.assign(first, first + static_cast<std::ptrdiff_t>(length));
  state->Rewind(start);
  return run;
}

std::vector<int> OrderByValleys(const MemoryModel& model, const Dependences& deps) {
  ReadyOps state(model, deps);
  while (!state.ready().empty()) {
    std::vector<int> ready = state.ready();
    std::sort(ready.begin(), ready.end());
    if (ready.size() > kMostRuns) ready.erase(ready.begin(), ready.end() - kMostRuns);
    Run best;
    Key best_key;
    for (int op : ready) {
      Run run = RunFrom(op, &state);
      const bool shrinks = run.valley <= state.live();
      const Key key = {shrinks ? 0 : 1, shrinks ? run.peak : run.valley - run.peak, op};
      if (!best.ops.empty() && !(key < best_key)) continue;
      best = std::move(run);
      best_key = key;
    }
    for (int op : best.ops) state.Run(op);
  }
  return state.ran();
}

// --------------------------------------------------------------------------------- depth first

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
  // Uses its own stack: a chain may be as long as the program.
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
      // The stack is last in, first out: the operand to run first is pushed last.
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

}  // namespace

std::vector<int> GreedyOrder(const MemoryModel& model, const Dependences& deps, Greedy greedy) {
  return greedy == Greedy::kDeepestValley ? OrderByValleys(model, deps) : OrderOpByOp(model, deps, greedy);
}

std::vector<int> DepthFirstOrder(const MemoryModel& model, const Dependences& deps) {
  return DepthFirst(model, deps).Order();
}

}  // namespace rondo
