// OverlapFinder: the search behind OverlapCollectives (overlap.h), for one device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/schedule/arrangement.h"
#include "compiler/schedule/communication_passes.h"
#include "compiler/schedule/overlap.h"

namespace rondo {

struct FoundOverlap {
  std::vector<int> order;  // of the program's ops; the given order if none is better
  double end = 0;          // of the run, as simulated
  int64_t arena_before = 0, arena_after = 0, arena_limit = 0;  // bytes, as planned
};

// Borrows the program.
class OverlapFinder {
 public:
  OverlapFinder(const LoweredProgram& program, const OverlapOptions& options, Estimates estimates);

  // The program as it is. Its arena may grow by `ahead` bytes in addition to the budget, which is a fraction
  // of `uncut_arena` if that is larger.
  FoundOverlap Given(int64_t ahead, int64_t uncut_arena) const;
  // The order that ends first, among those whose arenas are at most `options.budget` larger than the given
  // order's: `found` (from Given), or a better one.
  FoundOverlap Find(FoundOverlap found);
  // Why the exposed part of collective `c` in `order` is not hidden; `arena_limit` is as in FoundOverlap.
  std::string LimitOf(const std::vector<int>& order, int c, int64_t arena_limit);

 private:
  struct Candidate {
    std::vector<int> order;
    double end = 0;
  };
  int64_t TryWith(int64_t live, FoundOverlap* found);
  std::vector<Candidate> Candidates(int64_t limit);
  Candidate Improve(Arrangement* arrangement);
  Candidate Now(const Arrangement& arrangement) const;
  double EndOf(const std::vector<int>& order) const;
  std::string Name(int op, const char* none) const;

  const LoweredProgram& program_;
  const double budget_;
  const MemoryModel model_;
  const Estimates estimates_;
  const std::vector<int> segments_;
  int64_t work_;
};

}  // namespace rondo
