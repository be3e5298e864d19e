#include "compiler/schedule/exact_order.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>

#include "compiler/schedule/ready_ops.h"

namespace rondo {
namespace {

constexpr int64_t kMostWords = 1 << 22;  // words of 8 bytes for the sets that a search has visited
constexpr size_t kLongestClimb = 256;    // ops of a forced run

// The sets of ops that a search has visited, as bits.
class Sets {
 public:
  explicit Sets(size_t ops) : words_((ops + 63) / 64), table_(1024, -1) {}

  // Adds set `from` (-1: the empty set) with [first, last) added. Returns its number; -1 if it is known.
  template <typename Iterator>
  int Add(int from, Iterator first, Iterator last) {
    const size_t at = bits_.size();
    bits_.resize(at + words_, 0);
    if (from >= 0) std::copy_n(Bits(from), words_, bits_.begin() + static_cast<std::ptrdiff_t>(at));
    for (; first != last; ++first)
      bits_[at + static_cast<size_t>(*first) / 64] |= uint64_t{1} << (*first % 64);
    if (2 * static_cast<size_t>(count_) >= table_.size()) Grow();
    const size_t slot = SlotOf(count_);
    if (table_[slot] >= 0) {
      bits_.resize(at);
      return -1;
    }
    return table_[slot] = count_++;
  }

  int64_t words() const { return static_cast<int64_t>(bits_.size() + table_.size() / 2); }

 private:
  const uint64_t* Bits(int set) const { return bits_.data() + static_cast<size_t>(set) * words_; }

  // The slot in the table of set number `set`, whose bits are stored, or the free slot for it.
  size_t SlotOf(int set) const {
    uint64_t hash = 0;
    for (size_t w = 0; w < words_; ++w) hash = (hash ^ (hash >> 29) ^ Bits(set)[w]) * 0x9E3779B97F4A7C15ull;
    size_t slot = static_cast<size_t>(hash >> 32) & (table_.size() - 1);
    while (table_[slot] >= 0 && !std::equal(Bits(set), Bits(set) + words_, Bits(table_[slot])))
      slot = (slot + 1) & (table_.size() - 1);
    return slot;
  }
  void Grow() {
    table_.assign(2 * table_.size(), -1);
    for (int set = 0; set < count_; ++set) table_[SlotOf(set)] = set;
  }

  size_t words_;
  int count_ = 0;
  std::vector<uint64_t> bits_;  // words_ per set
  std::vector<int> table_;      // open addressing; -1: empty
};

class Search {
 public:
  Search(const MemoryModel& model, const Dependences& deps, int64_t limit, int64_t work)
      : limit_(limit),
        work_(work),
        start_(model.start_bytes),
        state_(model, deps),
        sets_(deps.before.size()) {}

  OrderSearch Run() {
    OrderSearch result;
    if (start_ > limit_) {
      result.least = start_;
      return result;
    }
    bool found = Enter();
    while (!found && !ahead_.empty() && done_ < work_ && sets_.words() < kMostWords) {
      const auto [set, op] = ahead_.back();
      ahead_.pop_back();
      while (path_.back().set != set) path_.pop_back();
      state_.Rewind(path_.back().ran);
      state_.Run(op);
      found = Enter();
    }
    result.work = done_;
    if (found) {
      result.order = state_.ran();
    } else if (ahead_.empty()) {
      result.least = least_refused_;
    }
    return result;
  }

 private:
  // The effect of running `op` now. The least size of ops that do not fit is kept: a higher limit may admit
  // them.
  LiveBytes::Effect Look(int op) {
    ++done_;
    const LiveBytes::Effect effect = state_.Try(op);
    if (effect.during > limit_) least_refused_ = std::min(least_refused_, effect.during);
    return effect;
  }
  bool Fits(const LiveBytes::Effect& effect) const { return effect.during <= limit_; }

  // Runs the forced ops and pushes the remaining choices, the one with the least growth last. Returns true if
  // everything has run.
  bool Enter() {
    RunForced();
    const Place from = path_.empty() ? Place{} : path_.back();
    const auto& ran = state_.ran();
    const int set = sets_.Add(from.set, ran.begin() + static_cast<std::ptrdiff_t>(from.ran), ran.end());
    if (set < 0) return false;
    if (state_.ready().empty()) return true;
    path_.push_back({set, ran.size()});
    std::vector<std::tuple<int64_t, int64_t, int>> choices;
    for (int op : state_.ready()) {
      const LiveBytes::Effect effect = Look(op);
      if (Fits(effect)) choices.emplace_back(-effect.after, -effect.during, -op);
    }
    std::sort(choices.begin(), choices.end());
    for (const auto& choice : choices) ahead_.push_back({set, -std::get<2>(choice)});
    return false;
  }

  void RunForced() {
    for (bool again = true; again && done_ < work_;) {
      again = RunWhatAddsNothing(0);
      if (again) continue;
      for (size_t r = 0; r < state_.ready().size() && !again; ++r) again = Climb(state_.ready()[r]);
    }
  }

  // Runs every op of ready(), from index `first` on, that fits and does not increase the live bytes.
  bool RunWhatAddsNothing(size_t first) {
    bool any = false;
    for (size_t r = first; r < state_.ready().size();) {
      const LiveBytes::Effect effect = Look(state_.ready()[r]);
      if (!Fits(effect) || effect.after > state_.live()) {
        ++r;
        continue;
      }
      state_.Run(state_.ready()[r]);
      any = true;
    }
    return any;
  }

  // Runs `op` and its successors until no more bytes live than before. This loses nothing if every op fits
  // and each head follows the head before it. Otherwise runs nothing.
  bool Climb(int op) {
    const size_t start = state_.ran().size();
    const int64_t live = state_.live();
    for (int head = op; head >= 0 && state_.ran().size() - start < kLongestClimb;) {
      if (!Fits(Look(head))) break;
      const size_t old = state_.ready().size() - 1;
      state_.Run(head);
      while (state_.live() > live && RunWhatAddsNothing(old)) continue;
      if (state_.live() <= live) return true;
      head = LeastGrowth(old);
    }
    state_.Rewind(start);
    return false;
  }

  // The fitting op of ready(), from index `first` on, after which the fewest bytes live; -1 if none fits.
  int LeastGrowth(size_t first) {
    int best = -1;
    int64_t least = 0;
    for (size_t r = first; r < state_.ready().size(); ++r) {
      const LiveBytes::Effect effect = Look(state_.ready()[r]);
      if (!Fits(effect) || (best >= 0 && effect.after >= least)) continue;
      best = state_.ready()[r];
      least = effect.after;
    }
    return best;
  }

  struct Place {
    int set = -1;
    size_t ran = 0;  // ops that had run at the set
  };
  struct Choice {
    int set, op;
  };
  int64_t limit_, work_, start_;
  int64_t done_ = 0;
  int64_t least_refused_ = std::numeric_limits<int64_t>::max();
  ReadyOps state_;
  Sets sets_;
  std::vector<Place> path_;    // the sets that lead to state_, or to its state before a known set
  std::vector<Choice> ahead_;  // choices left to try, from sets on the path
};

}  // namespace

OrderSearch FindOrder(const MemoryModel& model, const Dependences& deps, int64_t limit, int64_t work) {
  return Search(model, deps, limit, work).Run();
}

OrderSearch FindLeastOrder(const MemoryModel& model, const Dependences& deps, int64_t peak, int64_t least,
                           int64_t work) {
  const MemoryModel back_model = model.Reversed();
  const Dependences back_deps = deps.Reversed();
  OrderSearch best;
  best.least = least;
  bool backwards = false;  // the direction that settled the last limit: one is often a thousand times as fast
  // The first limit is the lower bound. Then the limit is halfway between what is proven and what is found,
  // or closer to the latter after both directions gave up.
  for (int64_t limit = least; best.least < peak;) {
    const int64_t share = (work - best.work) / 6;
    if (share < deps.count()) break;
    OrderSearch search;
    for (int turn = 0; turn < 2; ++turn, backwards = !backwards) {
      search =
          backwards ? FindOrder(back_model, back_deps, limit, share) : FindOrder(model, deps, limit, share);
      best.work += search.work;
      if (search.settled(limit)) break;
    }
    if (!search.order.empty()) {
      if (backwards) Dependences::TurnBack(&search.order);
      peak = CostOf(model, search.order).peak;
      best.order = std::move(search.order);
    } else if (search.settled(limit)) {
      best.least = std::min(search.least, peak);
    } else if (limit + 1 < peak) {
      limit += (peak - limit) / 2;
      continue;
    } else {
      break;
    }
    limit = best.least + (peak - 1 - best.least) / 2;
  }
  return best;
}

}  // namespace rondo
