#include "compiler/memory/section_orders.h"

#include <algorithm>

namespace rondo::packing {

SectionOrders::SectionOrders(const std::vector<SearchItem>& items, int64_t capacity)
    : items_(items), capacity_(capacity) {
  MakeSections();
  is_candidate_.assign(items.size(), 0);
  latest_as_next_.assign(items.size(), 0);
  Reset();
  kept_by_least_ = kept_by_end_ = order_;
}

// A moment has a maximal set of items if something begins there and something ends before anything else
// begins.
void SectionOrders::MakeSections() {
  std::vector<std::pair<int64_t, bool>> events;  // time, begins; ends come first
  for (const SearchItem& item : items_) {
    events.push_back({item.lower, true});
    events.push_back({item.upper, false});
  }
  std::sort(events.begin(), events.end());
  std::vector<int64_t> moments;
  for (size_t i = 1; i < events.size(); ++i) {
    if (!events[i].second && events[i - 1].second) moments.push_back(events[i - 1].first);
  }
  const auto index = [&](int64_t time) {
    return static_cast<int>(std::lower_bound(moments.begin(), moments.end(), time) - moments.begin());
  };
  num_sections_ = static_cast<int>(moments.size());
  std::vector<size_t> count(moments.size() + 1, 0);
  size_t slots = 0;
  for (const SearchItem& item : items_) {
    first_.push_back(index(item.lower));
    last_.push_back(index(item.upper));
    slots_.push_back(slots);
    slots += Index(last_.back() - first_.back());
    for (int s = first_.back(); s < last_.back(); ++s) ++count[Index(s)];
  }
  members_.assign(moments.size() + 1, 0);
  for (size_t s = 0; s < moments.size(); ++s) members_[s + 1] = members_[s] + count[s];
  order_.resize(slots);
  place_.resize(slots);
  refused_.resize(slots);
}

void SectionOrders::Reset() {
  const size_t sections = Index(num_sections_);
  least_.assign(items_.size(), 0);
  most_.clear();
  num_unranked_.assign(sections, 0);
  fill_.assign(sections, 0);
  num_candidates_.assign(sections, 0);
  touched_.assign(sections, 0);
  std::fill(refused_.begin(), refused_.end(), -1);
  trail_.clear();
  queue_.clear();
  num_ranked_ = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    most_.push_back(capacity_ - items_[i].size);
    for (int s = first_[i]; s < last_[i]; ++s) {
      const int at = num_unranked_[Index(s)]++;
      order_[members_[Index(s)] + Index(at)] = static_cast<int>(i);
      place_[Slot(s, static_cast<int>(i))] = at;
      fill_[Index(s)] += items_[i].size;
    }
  }
  unranked_bytes_ = fill_;
  for (int s = 0; s < num_sections_; ++s) Touch(s);
}

size_t SectionOrders::Slot(int section, int item) const {
  return slots_[Index(item)] + Index(section - first_[Index(item)]);
}

std::span<const int> SectionOrders::Unranked(int section) const {
  return {order_.data() + members_[Index(section)], Index(num_unranked_[Index(section)])};
}

void SectionOrders::Touch(int section) {
  if (touched_[Index(section)] != 0) return;
  touched_[Index(section)] = 1;
  queue_.push_back(section);
}

void SectionOrders::Rank(int section, int item) {
  int* order = order_.data() + members_[Index(section)];
  int& place = place_[Slot(section, item)];
  const int last = --num_unranked_[Index(section)];
  const int other = order[last];
  order[place] = other;
  order[last] = item;
  place_[Slot(section, other)] = place;
  place = last;
  unranked_bytes_[Index(section)] -= items_[Index(item)].size;
  ++num_ranked_;
  trail_.push_back({Word::kRank, Index(section), 0});
}

void SectionOrders::Decide(int section, int item) {
  Rank(section, item);
  Touch(section);
}

void SectionOrders::Refuse(int section, int item) {
  const size_t slot = Slot(section, item);
  trail_.push_back({Word::kRefused, slot, refused_[slot]});
  const size_t members = members_[Index(section) + 1] - members_[Index(section)];
  refused_[slot] = static_cast<int>(members) - num_unranked_[Index(section)];
  Touch(section);
}

void SectionOrders::UndoTo(size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    switch (change.word) {
      case Word::kLeast: least_[change.index] = change.before; break;
      case Word::kMost: most_[change.index] = change.before; break;
      case Word::kRefused: refused_[change.index] = static_cast<int>(change.before); break;
      case Word::kCandidates: num_candidates_[change.index] = static_cast<int>(change.before); break;
      case Word::kRank: {
        const int item = order_[members_[change.index] + Index(num_unranked_[change.index]++)];
        unranked_bytes_[change.index] += items_[Index(item)].size;
        --num_ranked_;
        break;
      }
    }
  }
}

bool SectionOrders::RaiseLeast(int item, int64_t offset) {
  int64_t& least = least_[Index(item)];
  if (offset <= least) return true;
  trail_.push_back({Word::kLeast, Index(item), least});
  least = offset;
  for (int s = first_[Index(item)]; s < last_[Index(item)]; ++s) Touch(s);
  return least <= most_[Index(item)];
}

bool SectionOrders::LowerMost(int item, int64_t offset) {
  int64_t& most = most_[Index(item)];
  if (offset >= most) return true;
  trail_.push_back({Word::kMost, Index(item), most});
  most = offset;
  for (int s = first_[Index(item)]; s < last_[Index(item)]; ++s) Touch(s);
  return least_[Index(item)] <= most;
}

bool SectionOrders::Infer() {
  for (size_t next = 0; next < queue_.size(); ++next) {
    const int section = queue_[next];
    const bool fits = InferSection(section);
    touched_[Index(section)] = 0;  // it has already seen its own changes
    if (fits) continue;
    failed_ = section;
    for (int s : queue_) touched_[Index(s)] = 0;
    queue_.clear();
    return false;
  }
  queue_.clear();
  return true;
}

// Ranked items lie above one another, and all unranked ones above them.
bool SectionOrders::FollowRanks(int section) {
  const int* order = order_.data() + members_[Index(section)];
  const auto members = static_cast<int>(members_[Index(section) + 1] - members_[Index(section)]);
  const int unranked = num_unranked_[Index(section)];
  const auto size = [&](int item) { return items_[Index(item)].size; };
  work_ += members;
  for (int k = members - 1; k > unranked; --k) {
    if (!RaiseLeast(order[k - 1], least_[Index(order[k])] + size(order[k]))) return false;
  }
  for (int k = unranked; k < members - 1; ++k) {
    if (!LowerMost(order[k + 1], most_[Index(order[k])] - size(order[k + 1]))) return false;
  }
  if (unranked == members) return true;
  const int64_t top = least_[Index(order[unranked])] + size(order[unranked]);
  for (int item : Unranked(section)) {
    if (!RaiseLeast(item, top)) return false;
  }
  return true;
}

// Insertion sort from the last order, which is nearly right.
void SectionOrders::SortUnranked(int section) {
  const size_t begin = members_[Index(section)], end = members_[Index(section) + 1];
  const size_t unranked = Unranked(section).size();
  work_ += 4 * static_cast<int64_t>(unranked);
  const auto sort = [&](std::vector<int>* kept, std::vector<int>* sorted, auto key) {
    int* order = kept->data() + begin;
    for (size_t k = 1; k < end - begin; ++k) {
      const int item = order[k];
      const auto at = std::pair(key(item), item);
      size_t to = k;
      for (; to > 0 && at < std::pair(key(order[to - 1]), order[to - 1]); --to) order[to] = order[to - 1];
      order[to] = item;
    }
    sorted->clear();
    for (size_t k = 0; k < end - begin; ++k) {
      if (place_[Slot(section, order[k])] < static_cast<int>(unranked)) sorted->push_back(order[k]);
    }
  };
  sort(&kept_by_least_, &by_least_, [&](int item) { return least_[Index(item)]; });
  sort(&kept_by_end_, &by_end_, [&](int item) { return End(item); });
}

// Checks two capacities among the unranked items: those that cannot begin below an offset must fit between it
// and the latest end; those that must end by an offset must fit between it and the smallest offset of one of
// them. The ranked items lie below.
bool SectionOrders::RestFits(int section) {
  SortUnranked(section);
  int64_t sum = 0;
  for (size_t k = by_least_.size(); k-- > 0;) {
    sum += items_[Index(by_least_[k])].size;
    if (least_[Index(by_least_[k])] + sum > End(by_end_.back())) return false;
  }
  int64_t least = capacity_, latest = capacity_;
  sum = 0;
  for (int item : by_end_) {
    sum += items_[Index(item)].size;
    least = std::min(least, least_[Index(item)]);
    if (least + sum > End(item)) return false;
    latest = std::min(latest, End(item) - sum);
  }
  const size_t below = members_[Index(section)] + by_end_.size();
  if (below == members_[Index(section) + 1]) return true;
  return LowerMost(order_[below], latest - items_[Index(order_[below])].size);
}

SectionOrders::Limits SectionOrders::FindLimits(int section) const {
  Limits limits;
  limits.most = limits.second_most = capacity_;
  for (int item : Unranked(section)) {
    const int64_t most = most_[Index(item)];
    limits.end = std::max(limits.end, End(item));
    if (most < limits.most) {
      limits.second_most = limits.most;
      limits.most = most;
      limits.most_item = item;
    } else {
      limits.second_most = std::min(limits.second_most, most);
    }
  }
  return limits;
}

bool SectionOrders::MayComeNext(int section, int item, const Limits& limits) const {
  const size_t members = members_[Index(section) + 1] - members_[Index(section)];
  const int unranked = num_unranked_[Index(section)];
  if (refused_[Slot(section, item)] == static_cast<int>(members) - unranked) return false;
  const int64_t least = least_[Index(item)];
  if (least + unranked_bytes_[Index(section)] > limits.end) return false;
  const int64_t most = item == limits.most_item ? limits.second_most : limits.most;
  return unranked == 1 || least + items_[Index(item)].size <= most;
}

void SectionOrders::Candidates(int section, std::vector<int>* items) {
  const Limits limits = FindLimits(section);
  items->clear();
  for (int item : Unranked(section)) {
    if (MayComeNext(section, item, limits)) items->push_back(item);
  }
  work_ += 2 * static_cast<int64_t>(Unranked(section).size());
}

// For each item of by_end_, the largest offset as the next item with which all others above it can still end
// in time: those that must end earlier lie above it with their sizes, those later with its own size as well.
void SectionOrders::FindLatestAsNext() {
  int64_t sum = 0, before = capacity_;
  for (int item : by_end_) {
    const int64_t size = items_[Index(item)].size;
    latest_as_next_[Index(item)] = before - size;
    sum += size;
    before = std::min(before, End(item) - sum);
  }
  int64_t after = capacity_;
  for (size_t k = by_end_.size(); k-- > 0;) {
    const int item = by_end_[k];
    int64_t& latest = latest_as_next_[Index(item)];
    latest = std::min(latest, after);
    after = std::min(after, End(item) - sum);
    sum -= items_[Index(item)].size;
  }
}

bool SectionOrders::InferSection(int section) {
  while (true) {
    if (!FollowRanks(section)) return false;
    if (Unranked(section).empty()) return true;
    if (!RestFits(section)) return false;
    const Limits limits = FindLimits(section);
    FindLatestAsNext();
    int64_t least_top = capacity_;  // no item that is not next can begin below it
    candidates_.clear();
    for (int item : by_least_) {
      if (!MayComeNext(section, item, limits)) continue;
      if (least_[Index(item)] > latest_as_next_[Index(item)]) continue;
      candidates_.push_back(item);
      least_top = std::min(least_top, least_[Index(item)] + items_[Index(item)].size);
    }
    if (candidates_.empty()) return false;
    if (candidates_.size() == 1) {
      Rank(section, candidates_[0]);
      continue;
    }
    const auto count = static_cast<int>(candidates_.size());
    if (int& before = num_candidates_[Index(section)]; before != count) {
      trail_.push_back({Word::kCandidates, Index(section), before});
      before = count;
    }
    for (int item : candidates_) is_candidate_[Index(item)] = 1;
    bool fits = true;
    for (int item : by_least_) {
      if (is_candidate_[Index(item)] == 0) fits = fits && RaiseLeast(item, least_top);
    }
    for (int item : candidates_) is_candidate_[Index(item)] = 0;
    return fits;
  }
}

}  // namespace rondo::packing
