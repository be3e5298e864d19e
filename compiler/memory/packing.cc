#include "compiler/memory/packing.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/memory/packing_search.h"

namespace rondo {
namespace {

// Repeatable on every machine: std::shuffle and the std distributions are not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  // Uniform in [0, n), n >= 1.
  size_t Below(size_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<size_t>((state_ >> 11) % n);
  }

 private:
  uint64_t state_;
};

// The buffers that live at all, with sizes rounded up, and who meets whom in time.
struct Instance {
  struct Item {
    int64_t lower, upper, size;
    size_t buffer;           // into the problem
    int64_t contention = 0;  // the largest sum of live sizes during its life
  };
  std::vector<Item> items;
  std::vector<std::vector<int>> neighbours;
  int64_t lower_bound = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  // by item
  int64_t height = 0;
  int64_t excess = 0;  // bytes above the capacity, summed over items
};

struct Event {
  int64_t time, delta;
};

// Times at which the live sum changes, with the sum from there on.
std::vector<Event> LiveSums(const std::vector<Instance::Item>& items) {
  std::vector<Event> events;
  for (const auto& item : items) {
    events.push_back({item.lower, item.size});
    events.push_back({item.upper, -item.size});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
  std::vector<Event> sums;
  int64_t sum = 0;
  for (const Event& event : events) {
    sum += event.delta;
    if (!sums.empty() && sums.back().time == event.time) {
      sums.back().delta = sum;
    } else {
      sums.push_back({event.time, sum});
    }
  }
  return sums;
}

Instance MakeInstance(const PackingProblem& problem) {
  Instance instance;
  const int64_t align = std::max<int64_t>(problem.alignment, 1);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const PackingBuffer& b = problem.buffers[i];
    if (b.lower >= b.upper || b.size <= 0) continue;
    instance.items.push_back({b.lower, b.upper, (b.size + align - 1) / align * align, i});
  }
  auto& items = instance.items;
  const std::vector<Event> sums = LiveSums(items);
  for (const Event& e : sums) instance.lower_bound = std::max(instance.lower_bound, e.delta);
  for (auto& item : items) {
    auto at = std::lower_bound(sums.begin(), sums.end(), item.lower,
                               [](const Event& e, int64_t t) { return e.time < t; });
    for (; at != sums.end() && at->time < item.upper; ++at) {
      item.contention = std::max(item.contention, at->delta);
    }
  }
  // Sweep by start: an item meets those that started before it and have not ended.
  instance.neighbours.resize(items.size());
  std::vector<int> order(items.size()), live;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return items[a].lower < items[b].lower; });
  for (int i : order) {
    std::erase_if(live, [&](int j) { return items[j].upper <= items[i].lower; });
    for (int j : live) {
      instance.neighbours[i].push_back(j);
      instance.neighbours[j].push_back(i);
    }
    live.push_back(i);
  }
  return instance;
}

// Places items one after another, each at the lowest offset that is free during its life.
class FirstFit {
 public:
  explicit FirstFit(const Instance& instance) : instance_(instance) {}

  void Place(const std::vector<int>& order, int64_t capacity, Placement* out) {
    out->offsets.assign(instance_.items.size(), -1);
    out->height = 0;
    out->excess = 0;
    for (int i : order) {
      const int64_t size = instance_.items[i].size;
      busy_.clear();
      for (int j : instance_.neighbours[i]) {
        if (out->offsets[j] >= 0)
          busy_.push_back({out->offsets[j], out->offsets[j] + instance_.items[j].size});
      }
      std::sort(busy_.begin(), busy_.end());
      int64_t at = 0;
      for (const auto& [begin, end] : busy_) {
        if (begin - at >= size) break;
        at = std::max(at, end);
      }
      out->offsets[i] = at;
      out->height = std::max(out->height, at + size);
      out->excess += std::max<int64_t>(at + size - capacity, 0);
    }
  }

 private:
  const Instance& instance_;
  std::vector<std::pair<int64_t, int64_t>> busy_;
};

// The orders to begin with: largest, longest, most area, most contended, earliest.
std::vector<std::vector<int>> FirstOrders(const Instance& instance) {
  using Item = Instance::Item;
  using Key = std::function<std::pair<double, double>(const Item&)>;
  auto life = [](const Item& i) { return static_cast<double>(i.upper - i.lower); };
  const Key keys[] = {
      [&](const Item& i) { return std::pair<double, double>(i.size, life(i)); },
      [&](const Item& i) { return std::pair<double, double>(i.size * life(i), i.size); },
      [&](const Item& i) { return std::pair<double, double>(life(i), i.size); },
      [&](const Item& i) { return std::pair<double, double>(i.contention, i.size * life(i)); },
      [&](const Item& i) { return std::pair<double, double>(i.contention, i.size); },
      [&](const Item& i) { return std::pair<double, double>(i.contention, life(i)); },
      [&](const Item& i) { return std::pair<double, double>(-static_cast<double>(i.lower), i.size); },
      [&](const Item& i) { return std::pair<double, double>(i.upper, i.size); },
  };
  std::vector<std::vector<int>> orders;
  for (const Key& key : keys) {
    std::vector<int> order(instance.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return key(instance.items[a]) > key(instance.items[b]); });
    orders.push_back(std::move(order));
  }
  return orders;
}

// One of the items that reach the height (or, with luck, any above the capacity), or one that holds it up.
int CriticalItem(const Instance& instance, const Placement& placement, int64_t capacity, Random* random) {
  std::vector<int> tops;
  const int64_t least = random->Below(2) == 0 ? placement.height : capacity + 1;
  for (size_t i = 0; i < instance.items.size(); ++i) {
    if (placement.offsets[i] + instance.items[i].size >= least) tops.push_back(static_cast<int>(i));
  }
  int item = tops[random->Below(tops.size())];
  while (placement.offsets[item] > 0 && random->Below(3) != 0) {
    std::vector<int> below;
    for (int j : instance.neighbours[item]) {
      if (placement.offsets[j] + instance.items[j].size == placement.offsets[item]) below.push_back(j);
    }
    if (below.empty()) break;
    item = below[random->Below(below.size())];
  }
  return item;
}

bool Better(const Placement& a, const Placement& b) {
  return a.height != b.height ? a.height < b.height : a.excess < b.excess;
}

struct Start {
  Placement placement;
  std::vector<int> order;
};

// What first fit makes of the first orders, best first; just one if that meets the goal.
std::vector<Start> FirstFits(const Instance& instance, int64_t goal) {
  FirstFit first_fit(instance);
  std::vector<Start> starts;
  for (std::vector<int>& order : FirstOrders(instance)) {
    starts.push_back({{}, std::move(order)});
    first_fit.Place(starts.back().order, goal, &starts.back().placement);
    if (starts.back().placement.height <= goal) break;
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Start& a, const Start& b) { return Better(a.placement, b.placement); });
  return starts;
}

// Replaces `best` if the depth-first search finds a placement within the goal. Returns the nodes it took.
int64_t SearchUnder(const Instance& instance, int64_t goal, int64_t nodes, Placement* best) {
  std::vector<packing::SearchItem> items;
  for (const Instance::Item& item : instance.items) items.push_back({item.lower, item.upper, item.size});
  int64_t left = nodes;
  if (auto offsets = packing::SearchPacking(items, goal, &left)) {
    best->offsets = std::move(*offsets);
    best->height = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      best->height = std::max(best->height, best->offsets[i] + items[i].size);
    }
  }
  return nodes - left;
}

// Iterated search over orders from the best few starts. Returns the orders tried.
int ImproveOrders(const Instance& instance, int64_t goal, const std::vector<Start>& starts,
                  const PackingOptions& options, Placement* best) {
  FirstFit first_fit(instance);
  Random random(options.seed);
  const size_t num_starts = std::min<size_t>(starts.size(), 4);
  Placement current = starts[0].placement, next;
  std::vector<int> order = starts[0].order, trial;
  int stale = 0, patience = 400, rounds = 0;
  size_t start = 0;
  for (; best->height > goal && rounds < options.rounds; ++rounds) {
    trial = order;
    const size_t moves = 1 + random.Below(2);
    for (size_t m = 0; m < moves; ++m) {
      const auto from = std::find(trial.begin(), trial.end(), CriticalItem(instance, current, goal, &random));
      if (from == trial.begin()) continue;
      const size_t to = random.Below(static_cast<size_t>(from - trial.begin()));
      std::rotate(trial.begin() + static_cast<std::ptrdiff_t>(to), from, from + 1);
    }
    first_fit.Place(trial, goal, &next);
    if (!Better(current, next)) {
      stale = Better(next, current) ? 0 : stale + 1;
      std::swap(current, next);
      std::swap(order, trial);
      if (Better(current, *best)) *best = current;
    } else if (++stale > patience) {
      start = (start + 1) % num_starts;
      current = starts[start].placement;
      order = starts[start].order;
      stale = 0;
      patience += 200;
    }
  }
  return rounds;
}

}  // namespace

int64_t PackingLowerBound(const PackingProblem& problem) { return MakeInstance(problem).lower_bound; }

PackingSolution Pack(const PackingProblem& problem, const PackingOptions& options) {
  const Instance instance = MakeInstance(problem);
  PackingSolution solution;
  solution.offsets.assign(problem.buffers.size(), 0);
  solution.lower_bound = instance.lower_bound;
  if (instance.items.empty()) return solution;

  const int64_t goal = std::max(options.capacity, instance.lower_bound);
  std::vector<Start> starts = FirstFits(instance, goal);
  solution.rounds = static_cast<int>(starts.size());
  Placement best = starts[0].placement;
  if (best.height > goal) solution.nodes = SearchUnder(instance, goal, options.nodes, &best);
  if (best.height > goal) {
    solution.rounds += ImproveOrders(instance, goal, starts, options, &best);
  }

  for (size_t i = 0; i < instance.items.size(); ++i) {
    solution.offsets[instance.items[i].buffer] = best.offsets[i];
  }
  solution.height = best.height;
  return solution;
}

}  // namespace rondo
