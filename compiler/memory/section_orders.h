// SectionOrders: the state of a packing search: in every section, the vertical order of the live items as far
// as it is decided, and the range of offsets at which each item can begin. Internal to compiler/memory;
// packing.h is the interface.
//
// A section is a moment whose live items are not a subset of another's; there are at most as many as items.
// The items of a section have one order from the bottom up, like jobs on one machine, where an item is one
// job on the machines of all its sections at once. Decisions choose the next item in a section, above those
// already ranked. Inference is that of job-shop scheduling (J. Carlier and E. Pinson, "An algorithm for
// solving the job-shop problem", 1989): bounds for every offset, items that cannot be next because the rest
// would exceed the capacity, and the one that must be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rondo::packing {

struct SearchItem {
  int64_t lower = 0, upper = 0;  // lower < upper
  int64_t size = 0;              // 1 or more, a multiple of the alignment
};

// `items` must outlive it. Not thread-safe. Every change can be undone: keep a Mark, and return to it.
class SectionOrders {
 public:
  SectionOrders(const std::vector<SearchItem>& items, int64_t capacity);

  // Drops all decisions. Infer() must follow, as after Decide and Refuse.
  void Reset();

  // Makes `item` the next in `section`: above all items ranked there, and below all others.
  void Decide(int section, int item);
  // `item` is not next in `section`, as long as no other item is ranked there.
  void Refuse(int section, int item);

  // Draws all conclusions. False if there is no packing: failed_section() then has no valid order.
  bool Infer();
  int failed_section() const { return failed_; }

  size_t Mark() const { return trail_.size(); }
  void UndoTo(size_t mark);

  int num_sections() const { return num_sections_; }
  // Items that are not ranked; a section with at most one of them is ordered.
  std::span<const int> Unranked(int section) const;
  // Those of them that may come next, without further inference.
  void Candidates(int section, std::vector<int>* items);
  // Their number when the section was last examined.
  int num_candidates(int section) const { return num_candidates_[Index(section)]; }
  // Sum of the sizes of all its items.
  int64_t Fill(int section) const { return fill_[Index(section)]; }
  int64_t num_ranked() const { return num_ranked_; }  // summed over sections

  // Smallest offset of each item. If every section is ordered, they are a packing.
  const std::vector<int64_t>& least() const { return least_; }

  // Looks at items in sections so far: a machine-independent measure of work.
  int64_t work() const { return work_; }

 private:
  // A word of state and its old value. kRank: the last rank given in section `index`.
  enum class Word { kLeast, kMost, kRank, kRefused, kCandidates };
  struct Change {
    Word word;
    size_t index;
    int64_t before;
  };
  // Limits on which item may come next in a section.
  struct Limits {
    int64_t end = 0;                    // the latest possible end of any unranked item
    int64_t most = 0, second_most = 0;  // the two smallest of their largest offsets
    int most_item = -1;                 // the item with the smallest
  };

  static size_t Index(int i) { return static_cast<size_t>(i); }
  size_t Slot(int section, int item) const;
  int64_t End(int item) const { return most_[Index(item)] + items_[Index(item)].size; }
  void MakeSections();
  void Touch(int section);
  void Rank(int section, int item);
  bool RaiseLeast(int item, int64_t offset);
  bool LowerMost(int item, int64_t offset);
  bool InferSection(int section);
  bool FollowRanks(int section);
  bool RestFits(int section);
  Limits FindLimits(int section) const;
  bool MayComeNext(int section, int item, const Limits& limits) const;
  void SortUnranked(int section);
  void FindLatestAsNext();

  const std::vector<SearchItem>& items_;
  const int64_t capacity_;
  int num_sections_ = 0;
  std::vector<int> first_, last_;  // sections of each item: [first, last)
  std::vector<size_t> slots_;      // where an item's words by section begin
  std::vector<size_t> members_;    // where a section's part of order_ begins, and the end of the last
  std::vector<int> order_;    // for each section: the unranked items, then the ranked ones from the top down
  std::vector<int> place_;    // by slot: where in its section's part of order_
  std::vector<int> refused_;  // by slot: the number of ranked items in the section when it was refused, or -1
  std::vector<int> num_unranked_;  // by section, as all that follow up to `least_`
  std::vector<int64_t> unranked_bytes_, fill_;
  std::vector<int> num_candidates_;
  std::vector<char> touched_;
  std::vector<int64_t> least_, most_;  // offsets of each item
  std::vector<int> queue_;             // touched sections
  std::vector<Change> trail_;
  std::vector<int> by_least_, by_end_, candidates_;  // for the section being examined
  std::vector<int> kept_by_least_, kept_by_end_;     // as order_, of all members, as last sorted
  std::vector<int64_t> latest_as_next_;              // by item, for the section being examined
  std::vector<char> is_candidate_;
  int64_t num_ranked_ = 0, work_ = 0;
  int failed_ = -1;
};

}  // namespace rondo::packing
