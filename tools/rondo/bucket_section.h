// What `rondo inspect` shows of a plan's buckets: the room of each, its cost, and its share of padding.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "runtime/buckets/bucket_family.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

// One bucket. Padding is the share of positions, over all lengths, that are not used by runs in the bucket:
// for the shortest such run, and on average if all lengths are equally likely.
struct BucketLine {
  std::string program;
  std::vector<int64_t> rooms;                 // by length of the family
  uint64_t arena_bytes = 0;                   // of a session; the program with the largest arena decides
  double microseconds = 0;                    // of a run, estimated
  double most_padding = 0, mean_padding = 0;  // 0 to 1
};
std::vector<BucketLine> BucketLinesOf(const PlanData& plan, const BucketFamily& family);
Section BucketSection(const PlanData& plan, const BucketFamily& family);

}  // namespace rondo::tools
