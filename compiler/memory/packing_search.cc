#include "compiler/memory/packing_search.h"

#include <algorithm>
#include <limits>

#include "compiler/memory/packing_random.h"

namespace rondo::packing {
namespace {

constexpr int64_t kFailures = 100;  // of the shortest run
constexpr int64_t kUnit = 1024;     // scale of weights and of the fill of a section

// Which item that may come next in a section is tried first.
enum class Prefer { kWide, kLow, kGuided };

struct Strategy {
  Prefer prefer;
  bool full_first;  // full sections come before others with equal candidates for their weight
};

// The i-th (from 1) of 1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8, ...
int64_t Luby(int64_t i) {
  while (true) {
    int64_t power = 1;
    while (2 * power - 1 < i) power *= 2;
    if (2 * power - 1 == i) return power;
    i -= power - 1;
  }
}

class Search {
 public:
  Search(const std::vector<SearchItem>& items, int64_t capacity, int64_t work, uint64_t seed,
         const std::function<bool()>& stop)
      : items_(items), orders_(items, capacity), work_(work), random_(seed), stop_(stop) {
    const auto sections = static_cast<size_t>(orders_.num_sections());
    weight_.assign(sections, kUnit);
    for (size_t s = 0; s < sections; ++s) {
      const double fill =
          static_cast<double>(orders_.Fill(static_cast<int>(s))) / static_cast<double>(capacity);
      fullness_.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(fill * fill * fill * fill * kUnit), 1, kUnit));
    }
  }

  SearchResult Run() {
    constexpr Strategy kStrategies[] = {
        {Prefer::kWide, false}, {Prefer::kLow, true}, {Prefer::kGuided, false}, {Prefer::kGuided, true}};
    SearchResult result;
    for (int64_t run = 0; result.end == SearchEnd::kGaveUp && !Exhausted(); ++run) {
      result.end = RunOnce(kStrategies[run % 4], kFailures * Luby(run / 4 + 1));
      for (int64_t& weight : weight_) weight = kUnit + (weight - kUnit) * 19 / 20;
      deepest_ -= deepest_ / 10;
    }
    if (result.end == SearchEnd::kFound) result.offsets = orders_.least();
    result.nodes = nodes_;
    return result;
  }

 private:
  struct Decision {
    size_t mark;
    int section, item;
  };

  bool Exhausted() const { return orders_.work() >= work_ || (stop_ && stop_()); }

  SearchEnd RunOnce(const Strategy& strategy, int64_t failures) {
    orders_.Reset();
    tie_.clear();
    for (size_t s = 0; s < weight_.size(); ++s) {
      tie_.push_back(kUnit + static_cast<int64_t>(random_.Below(kUnit / 5)));
    }
    if (!orders_.Infer()) return SearchEnd::kNone;
    std::vector<Decision> decisions;
    while (true) {
      const int section = ChooseSection(strategy.full_first);
      if (section < 0) return SearchEnd::kFound;
      if (Exhausted()) return SearchEnd::kGaveUp;
      const int item = ChooseItem(section, strategy.prefer);
      decisions.push_back({orders_.Mark(), section, item});
      ++nodes_;
      orders_.Decide(section, item);
      while (!orders_.Infer()) {
        weight_[static_cast<size_t>(orders_.failed_section())] += kUnit;
        if (decisions.empty()) return SearchEnd::kNone;
        if (--failures < 0) return SearchEnd::kGaveUp;
        const Decision last = decisions.back();
        decisions.pop_back();
        orders_.UndoTo(last.mark);
        orders_.Refuse(last.section, last.item);
      }
    }
  }

  // The section with the fewest candidates for its weight; -1 if all are ordered.
  int ChooseSection(bool full_first) {
    if (orders_.num_ranked() > deepest_) {
      deepest_ = orders_.num_ranked();
      guide_ = orders_.least();
    }
    int best = -1;
    double least = std::numeric_limits<double>::max();
    for (int s = 0; s < orders_.num_sections(); ++s) {
      if (orders_.Unranked(s).size() < 2) continue;
      const auto i = static_cast<size_t>(s);
      const double score = static_cast<double>(orders_.num_candidates(s) * tie_[i]) /
                           static_cast<double>(weight_[i] * (full_first ? fullness_[i] : kUnit));
      if (score < least) {
        least = score;
        best = s;
      }
    }
    return best;
  }

  int ChooseItem(int section, Prefer prefer) {
    orders_.Candidates(section, &candidates_);
    const auto key = [&](int item) {
      const auto i = static_cast<size_t>(item);
      const int64_t offset = prefer == Prefer::kWide  ? 0
                             : prefer == Prefer::kLow ? orders_.least()[i]
                                                      : guide_[i];
      return std::pair(offset, items_[i].lower - items_[i].upper);
    };
    return *std::min_element(candidates_.begin(), candidates_.end(),
                             [&](int a, int b) { return key(a) < key(b); });
  }

  const std::vector<SearchItem>& items_;
  SectionOrders orders_;
  const int64_t work_;
  Random random_;
  const std::function<bool()>& stop_;
  int64_t nodes_ = 0, deepest_ = -1;
  std::vector<int64_t> weight_, fullness_, tie_;  // by section
  std::vector<int64_t> guide_;                    // smallest offsets in the deepest branch
  std::vector<int> candidates_;
};

}  // namespace

SearchResult SearchPacking(const std::vector<SearchItem>& items, int64_t capacity, int64_t work,
                           uint64_t seed, const std::function<bool()>& stop) {
  return Search(items, capacity, work, seed, stop).Run();
}

}  // namespace rondo::packing
