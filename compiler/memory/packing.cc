#include "compiler/memory/packing.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <tuple>

#include "compiler/memory/free_list.h"
#include "compiler/memory/packing_random.h"
#include "compiler/memory/packing_search.h"

namespace rondo {
namespace {

using packing::FreeList;
using packing::Random;

// The buffers that live at all, with rounded sizes, and which of them conflict.
struct Instance {
  struct Item {
    int64_t lower, upper, size;
    size_t buffer;           // into the problem
    int64_t contention = 0;  // the largest sum of live sizes during its life
  };
  std::vector<Item> items;
  std::vector<std::vector<int>> neighbours;  // none if there are too many
  int64_t meetings = 0;                      // pairs of neighbours
  bool by_time = true;                       // neighbours are exactly those that live at one time
  int64_t lower_bound = 0;
};

// Above this many pairs that live at once, items are only placed in the order of time.
constexpr int64_t kMostMeetings = 3'000'000;
// The total number of pairs that the search over orders looks at.
constexpr int64_t kMostRoundMeetings = 100'000'000;
// Work of the search before orders are tried.
constexpr int64_t kFirstWork = 1'000'000'000;

struct Placement {
  std::vector<int64_t> offsets;  // by item
  int64_t height = 0;
  int64_t excess = 0;  // bytes above the capacity, summed over items
};

struct Event {
  int64_t time, delta;
};

// Times at which the live sum changes, with the new sum.
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

// For each item, the largest sum during its life: the larger of two ranges of 2^k sums, for the largest k
// that fits its life.
void FindContention(const std::vector<Event>& sums, std::vector<Instance::Item>* items) {
  std::vector<std::vector<int64_t>> most(1);  // [k][i]: the largest of sums i to i + 2^k
  for (const Event& e : sums) most[0].push_back(e.delta);
  for (size_t run = 1; 2 * run <= sums.size(); run *= 2) {
    const std::vector<int64_t>& half = most.back();
    std::vector<int64_t> whole(sums.size() - 2 * run + 1);
    for (size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + run]);
    most.push_back(std::move(whole));
  }
  const auto index = [&](int64_t time) {
    return static_cast<size_t>(std::lower_bound(sums.begin(), sums.end(), time,
                                                [](const Event& e, int64_t t) { return e.time < t; }) -
                               sums.begin());
  };
  for (Instance::Item& item : *items) {
    const size_t first = index(item.lower), last = index(item.upper);
    const size_t k = static_cast<size_t>(std::bit_width(last - first)) - 1;
    item.contention = std::max<int64_t>({0, most[k][first], most[k][last - (size_t{1} << k)]});
  }
}

// The number of pairs of items that live at once.
int64_t Meetings(const std::vector<Instance::Item>& items) {
  std::vector<int64_t> starts, ends;
  for (const auto& item : items) {
    starts.push_back(item.lower);
    ends.push_back(item.upper);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  int64_t meetings = 0;
  for (size_t i = 0, ended = 0; i < starts.size(); ++i) {
    while (ends[ended] <= starts[i]) ++ended;
    meetings += static_cast<int64_t>(i - ended);
  }
  return meetings;
}

// Sweep by start: an item meets those that started before it and have not ended.
void FindMeetings(Instance* instance) {
  const auto& items = instance->items;
  std::vector<int> order(items.size()), live;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return items[a].lower < items[b].lower; });
  for (int i : order) {
    std::erase_if(live, [&](int j) { return items[j].upper <= items[i].lower; });
    for (int j : live) {
      instance->neighbours[i].push_back(j);
      instance->neighbours[j].push_back(i);
    }
    live.push_back(i);
  }
}

// Neighbours are the conflicts of the problem.
void TakeConflicts(const PackingProblem& problem, Instance* instance) {
  std::vector<int> item_of(problem.buffers.size(), -1);
  for (size_t i = 0; i < instance->items.size(); ++i)
    item_of[instance->items[i].buffer] = static_cast<int>(i);
  for (size_t i = 0; i < instance->items.size(); ++i) {
    for (int b : problem.conflicts[instance->items[i].buffer]) {
      if (item_of[b] >= 0) instance->neighbours[i].push_back(item_of[b]);
    }
    instance->meetings += static_cast<int64_t>(instance->neighbours[i].size());
  }
  instance->meetings /= 2;
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
  FindContention(sums, &items);
  instance.by_time = problem.conflicts.empty();
  if (instance.by_time) {
    instance.meetings = Meetings(items);
    if (instance.meetings > kMostMeetings) return instance;
  }
  instance.neighbours.resize(items.size());
  if (instance.by_time) {
    FindMeetings(&instance);
  } else {
    TakeConflicts(problem, &instance);
  }
  return instance;
}

// Places items one after another, each at the lowest offset free of its neighbours.
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

// Allocates items as they begin and frees them as they end; `backwards`: in reversed time.
Placement PlaceInTime(const Instance& instance, bool backwards) {
  const auto& items = instance.items;
  struct Event {
    int64_t time;
    bool begins;
    int64_t size;
    int item;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < items.size(); ++i) {
    const int64_t begin = backwards ? -items[i].upper : items[i].lower;
    const int64_t end = backwards ? -items[i].lower : items[i].upper;
    events.push_back({begin, true, items[i].size, static_cast<int>(i)});
    events.push_back({end, false, items[i].size, static_cast<int>(i)});
  }
  // Ends come first, to free memory; of items that begin at once, the largest comes first.
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.time, a.begins, -a.size, a.item) < std::tuple(b.time, b.begins, -b.size, b.item);
  });
  Placement placement;
  placement.offsets.resize(items.size());
  FreeList free;
  for (const Event& event : events) {
    int64_t& offset = placement.offsets[static_cast<size_t>(event.item)];
    if (event.begins) {
      offset = free.Take(event.size);
    } else {
      free.Give(offset, event.size);
    }
  }
  placement.height = free.end();
  return placement;
}

// The initial orders: largest, longest, most area, most contended, earliest.
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

// One of the items that reach the height (or, at random, any above the capacity), or one that holds it up.
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

// First fit with each of the initial orders, best first; only one result if it meets the goal.
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

// Replaces `best` if the search finds a placement within the goal. True if the question is settled: a
// placement was found, or none exists.
bool SearchUnder(const Instance& instance, int64_t goal, int64_t work, uint64_t seed,
                 const PackingOptions& options, PackingSolution* solution, Placement* best) {
  std::vector<packing::SearchItem> items;
  for (const Instance::Item& item : instance.items) items.push_back({item.lower, item.upper, item.size});
  packing::SearchResult result = packing::SearchPacking(items, goal, work, seed, options.stop);
  solution->nodes += result.nodes;
  solution->exhausted = result.end == packing::SearchEnd::kNone;
  if (result.end == packing::SearchEnd::kFound) {
    best->offsets = std::move(result.offsets);
    best->height = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      best->height = std::max(best->height, best->offsets[i] + items[i].size);
    }
  }
  return result.end != packing::SearchEnd::kGaveUp;
}

// Iterated search over orders from the best few starts. Returns the number of orders tried.
int ImproveOrders(const Instance& instance, int64_t goal, const std::vector<Start>& starts,
                  const PackingOptions& options, Placement* best) {
  FirstFit first_fit(instance);
  Random random(options.seed);
  const size_t num_starts = std::min<size_t>(starts.size(), 4);
  Placement current = starts[0].placement, next;
  std::vector<int> order = starts[0].order, trial;
  int stale = 0, patience = 400, rounds = 0;
  size_t start = 0;
  // A round looks at every pair that lives at once.
  const int64_t most = std::min<int64_t>(options.rounds, kMostRoundMeetings / (instance.meetings + 1));
  const auto stopped = [&] { return options.stop && options.stop(); };
  for (; best->height > goal && rounds < most && !stopped(); ++rounds) {
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
  Placement best;
  if (instance.by_time && instance.meetings > kMostMeetings) {
    best = PlaceInTime(instance, false);
    Placement other = PlaceInTime(instance, true);
    if (other.height < best.height) best = std::move(other);
    solution.rounds = 2;
  } else {
    std::vector<Start> starts = FirstFits(instance, goal);
    solution.rounds = static_cast<int>(starts.size());
    best = starts[0].placement;
    // Most problems are solved with a small part of the work. Otherwise a second search comes last, so that
    // orders are tried before it takes long.
    const int64_t work = instance.by_time ? options.work : 0;
    const int64_t first_work = std::min(work, kFirstWork);
    const bool known = best.height <= goal || first_work <= 0 ||
                       SearchUnder(instance, goal, first_work, options.seed, options, &solution, &best);
    if (best.height > goal) solution.rounds += ImproveOrders(instance, goal, starts, options, &best);
    if (!known && best.height > goal && work > first_work) {
      SearchUnder(instance, goal, work - first_work, options.seed + 1, options, &solution, &best);
    }
  }

  for (size_t i = 0; i < instance.items.size(); ++i) {
    solution.offsets[instance.items[i].buffer] = best.offsets[i];
  }
  solution.height = best.height;
  return solution;
}

}  // namespace rondo
