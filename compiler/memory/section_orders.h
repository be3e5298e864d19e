// SectionOrders: what is known of a packing in the making: at every moment, in which order the live items lie
// above one another, and between which offsets each item can begin.
// Internal to compiler/memory; packing.h is the interface.
//
// A section is a moment whose live items are no subset of another's; at most as many as there are items.
// Within it the items stand in one order from the bottom up: as jobs on one machine, an item being one job on
// the machines of all its sections at once. What is decided is which item comes next in a section, above
// those ranked before; what follows from it is inferred as in job-shop scheduling (J. Carlier and E. Pinson,
// "An algorithm for solving the job-shop problem", 1989): bounds of every offset, items that cannot be next
// because the rest would then reach above the capacity, and the one that must be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rondo::packing {

struct SearchItem {
  int64_t lower = 0, upper = 0;  // lower < upper
  int64_t size = 0;              // 1 or more, a multiple of the alignment
};

// `items` must outlive it. Not thread-safe. Every change can be undone: remember a Mark, and return to it.
class SectionOrders {
 public:
  SectionOrders(const std::vector<SearchItem>& items, int64_t capacity);

  // Forgets all decisions. Infer() must follow, as after Decide and Refuse.
  void Reset();

  // `item` is next in `section`: it lies above all that are ranked there and below all that are not.
  void Decide(int section, int item);
  // `item` is not next in `section`, while no other item has been ranked there.
  void Refuse(int section, int item);

  // Draws every conclusion. False if there is no packing: failed_section() then cannot be ordered.
  bool Infer();
  int failed_section() const { return failed_; }

  size_t Mark() const { return trail_.size(); }
  void UndoTo(size_t mark);

  int num_sections() const { return num_sections_; }
  // Items that have not been ranked; a section with none or one is ordered.
  std::span<const int> Unranked(int section) const;
  // Those of them that may come next, as far as is known without inferring more.
  void Candidates(int section, std::vector<int>* items);
  // How many there were when the section was last looked at.
  int num_candidates(int section) const { return num_candidates_[Index(section)]; }
  // Sum of the sizes of all its items.
  int64_t Fill(int section) const { return fill_[Index(section)]; }
  int64_t num_ranked() const { return num_ranked_; }  // summed over sections

  // Least offset of each item. When every section is ordered, they are a packing.
  const std::vector<int64_t>& least() const { return least_; }

  // Looks at an item in a section so far: a measure of work that is the same on every machine.
  int64_t work() const { return work_; }

 private:
  // A word of state and its value before. kRank: the last rank given in section `index`.
  enum class Word { kLeast, kMost, kRank, kRefused, kCandidates };
  struct Change {
    Word word;
    size_t index;
    int64_t before;
  };
  // What limits who may come next in a section.
  struct Limits {
    int64_t end = 0;                    // of the latest that any unranked item can end
    int64_t most = 0, second_most = 0;  // the two lowest of their greatest offsets
    int most_item = -1;                 // whose is the lowest
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
  std::vector<int> order_;         // of each section: the unranked items, then the ranked from the top down
  std::vector<int> place_;         // by slot: where in its section's part of order_
  std::vector<int> refused_;       // by slot: refused when so many items were ranked in the section, or -1
  std::vector<int> num_unranked_;  // by section, as all that follow up to `least_`
  std::vector<int64_t> unranked_bytes_, fill_;
  std::vector<int> num_candidates_;
  std::vector<char> touched_;
  std::vector<int64_t> least_, most_;  // offsets of each item
  std::vector<int> queue_;             // touched sections
  std::vector<Change> trail_;
  std::vector<int> by_least_, by_end_, candidates_;  // of the section looked at
  std::vector<int> kept_by_least_, kept_by_end_;     // as order_, of all members, as last sorted
  std::vector<int64_t> latest_as_next_;              // by item, of the section looked at
  std::vector<char> is_candidate_;
  int64_t num_ranked_ = 0, work_ = 0;
  int failed_ = -1;
};

}  // namespace rondo::packing
