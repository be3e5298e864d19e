#include "compiler/memory/packing_search.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace rondo::packing {
namespace {

constexpr int64_t kUnplaced = -1;

// Times between which nothing begins or ends: [first, last) for each item.
struct Sections {
  std::vector<int> first, last;
  int count = 0;
};

Sections MakeSections(const std::vector<SearchItem>& items) {
  std::vector<int64_t> times;
  for (const SearchItem& item : items) times.insert(times.end(), {item.lower, item.upper});
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto index = [&](int64_t t) {
    return static_cast<int>(std::lower_bound(times.begin(), times.end(), t) - times.begin());
  };
  Sections sections;
  sections.count = static_cast<int>(times.size());
  for (const SearchItem& item : items) {
    sections.first.push_back(index(item.lower));
    sections.last.push_back(index(item.upper));
  }
  return sections;
}

class Search {
 public:
  Search(const std::vector<SearchItem>& items, int64_t capacity)
      : items_(items), capacity_(capacity), sections_(MakeSections(items)), neighbours_(items.size()) {
    std::vector<int> order(items.size()), live;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return items[a].lower < items[b].lower; });
    for (int i : order) {
      std::erase_if(live, [&](int j) { return items[j].upper <= items[i].lower; });
      for (int j : live) {
        neighbours_[i].push_back(j);
        neighbours_[j].push_back(i);
      }
      live.push_back(i);
    }
    by_start_ = std::move(order);
  }

  // One run with a preference: rank 0 is placed first among items of equal offset.
  bool Run(const std::vector<int>& rank, int64_t nodes) {
    rank_ = &rank;
    nodes_ = nodes;
    const size_t count = items_.size();
    offset_.assign(count, kUnplaced);
    least_.assign(count, 0);
    floor_.assign(static_cast<size_t>(sections_.count), 0);
    total_.assign(static_cast<size_t>(sections_.count), 0);
    trail_.clear();
    for (size_t i = 0; i < count; ++i) {
      if (items_[i].size > capacity_) return false;
      for (int s = sections_.first[i]; s < sections_.last[i]; ++s) total_[s] += items_[i].size;
    }
    for (int64_t total : total_) {
      if (total > capacity_) return false;
    }
    return Solve(by_start_, 0, -1);
  }

  const std::vector<int64_t>& offsets() const { return offset_; }
  int64_t nodes_left() const { return nodes_; }
  const Sections& sections() const { return sections_; }

 private:
  // A word of state and its value before.
  struct Change {
    int64_t* where;
    int64_t before;
  };

  void Set(int64_t* where, int64_t value) {
    trail_.push_back({where, *where});
    *where = value;
  }
  void UndoTo(size_t mark) {
    while (trail_.size() > mark) {
      *trail_.back().where = trail_.back().before;
      trail_.pop_back();
    }
  }

  // `part` are unplaced items in order of start. Items go no lower than the one placed before, and, at its
  // offset, come after it by rank.
  bool Solve(const std::vector<int>& part, int64_t last_offset, int last_rank) {
    if (part.empty()) return true;
    int64_t end = items_[part[0]].upper;
    size_t cut = 1;
    while (cut < part.size() && items_[part[cut]].lower < end) end = std::max(end, items_[part[cut++]].upper);
    if (cut == part.size()) return Place(part, last_offset, last_rank);
    const size_t mark = trail_.size();
    const std::vector<int> left(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(cut));
    const std::vector<int> right(part.begin() + static_cast<std::ptrdiff_t>(cut), part.end());
    if (Solve(left, last_offset, last_rank) && Solve(right, last_offset, last_rank)) return true;
    UndoTo(mark);
    return false;
  }

  bool Place(const std::vector<int>& part, int64_t last_offset, int last_rank) {
    int64_t least_top = capacity_;
    for (int i : part) least_top = std::min(least_top, least_[i] + items_[i].size);
    std::vector<int> order;
    for (int i : part) {
      if (least_[i] < last_offset || (least_[i] == last_offset && (*rank_)[i] < last_rank)) continue;
      // Something else fits below: placing this one first would leave a gap for it.
      if (least_[i] >= least_top) continue;
      order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return least_[a] != least_[b] ? least_[a] < least_[b] : (*rank_)[a] < (*rank_)[b];
    });
    std::vector<int> rest(part.size() - 1);
    for (int i : order) {
      if (--nodes_ < 0) return false;
      const size_t mark = trail_.size();
      const int64_t at = least_[i];
      if (Assign(i, at, part)) {
        std::copy_if(part.begin(), part.end(), rest.begin(), [i](int j) { return j != i; });
        if (Solve(rest, at, (*rank_)[i])) return true;
      }
      UndoTo(mark);
      if (nodes_ < 0) return false;
    }
    return false;
  }

  // Puts item `i` at `at`. False if that leaves some moment without enough room.
  bool Assign(int i, int64_t at, const std::vector<int>& part) {
    const int64_t top = at + items_[i].size;
    if (top > capacity_) return false;
    Set(&offset_[i], at);
    for (int s = sections_.first[i]; s < sections_.last[i]; ++s) {
      Set(&total_[s], total_[s] - items_[i].size);
      Set(&floor_[s], top);
      if (top + total_[s] > capacity_) return false;
    }
    for (int j : neighbours_[i]) {
      if (offset_[j] != kUnplaced || least_[j] >= top) continue;
      if (top + items_[j].size > capacity_) return false;
      Set(&least_[j], top);
    }
    return FloorsHold(part, at);
  }

  // At every moment, what is still to come fits above the lowest place that any of it can have; nothing goes
  // below `at` any more.
  bool FloorsHold(const std::vector<int>& part, int64_t at) {
    const int low = sections_.first[part[0]];
    int high = low;
    for (int j : part) high = std::max(high, sections_.last[j]);
    lowest_.assign(static_cast<size_t>(high - low), capacity_);
    for (int j : part) {
      if (offset_[j] != kUnplaced) continue;
      // One that could lie below `at` has missed its turn, unless another raises it.
      int64_t lowest = least_[j];
      if (lowest < at) {
        int64_t least_size = capacity_ + 1;
        for (int k : neighbours_[j]) {
          if (offset_[k] == kUnplaced)
            least_size = std::min(least_size, std::max(least_[k], at) + items_[k].size);
        }
        lowest = least_size;
        if (lowest + items_[j].size > capacity_) return false;
      }
      for (int s = sections_.first[j]; s < sections_.last[j]; ++s) {
        lowest_[s - low] = std::min(lowest_[s - low], lowest);
      }
    }
    for (int s = low; s < high; ++s) {
      if (total_[s] > 0 && lowest_[s - low] + total_[s] > capacity_) return false;
    }
    return true;
  }

  const std::vector<SearchItem>& items_;
  const int64_t capacity_;
  const Sections sections_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<int> by_start_;
  const std::vector<int>* rank_ = nullptr;
  int64_t nodes_ = 0;
  std::vector<int64_t> offset_, least_;  // per item: its place, and the lowest it can still have
  std::vector<int64_t> floor_, total_;   // per section: top of what is placed, sum of what is not
  std::vector<int64_t> lowest_;
  std::vector<Change> trail_;
};

// Ranks by width (time), area and the fullest moment that an item meets, in several orders of importance.
std::vector<std::vector<int>> Preferences(const std::vector<SearchItem>& items, const Sections& sections) {
  std::vector<int64_t> total(static_cast<size_t>(sections.count), 0);
  for (size_t i = 0; i < items.size(); ++i) {
    for (int s = sections.first[i]; s < sections.last[i]; ++s) total[s] += items[i].size;
  }
  using Key = std::array<double, 3>;
  std::vector<Key> keys;  // width, area, total
  for (size_t i = 0; i < items.size(); ++i) {
    const double width = static_cast<double>(items[i].upper - items[i].lower);
    int64_t fullest = 0;
    for (int s = sections.first[i]; s < sections.last[i]; ++s) fullest = std::max(fullest, total[s]);
    keys.push_back({width, width * static_cast<double>(items[i].size), static_cast<double>(fullest)});
  }
  std::vector<std::vector<int>> preferences;
  for (const std::array<int, 3>& by :
       {std::array<int, 3>{0, 1, 2}, {2, 1, 0}, {2, 0, 1}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}}) {
    std::vector<int> order(items.size()), rank(items.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      for (int k : by) {
        if (keys[a][k] != keys[b][k]) return keys[a][k] > keys[b][k];
      }
      return false;
    });
    for (size_t r = 0; r < order.size(); ++r) rank[order[r]] = static_cast<int>(r);
    preferences.push_back(std::move(rank));
  }
  return preferences;
}

}  // namespace

std::optional<std::vector<int64_t>> SearchPacking(const std::vector<SearchItem>& items, int64_t capacity,
                                                  int64_t* nodes) {
  Search search(items, capacity);
  const auto preferences = Preferences(items, search.sections());
  for (int64_t limit = 1000; *nodes > 0; limit *= 2) {
    for (const std::vector<int>& rank : preferences) {
      const int64_t allowed = std::min(limit, *nodes);
      if (allowed <= 0) break;
      const bool found = search.Run(rank, allowed);
      const int64_t left = std::max<int64_t>(search.nodes_left(), 0);
      *nodes -= allowed - left;
      if (found) return search.offsets();
      if (search.nodes_left() >= 0) return std::nullopt;  // all branches seen: there is no solution
    }
  }
  return std::nullopt;
}

}  // namespace rondo::packing
