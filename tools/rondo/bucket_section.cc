#include "tools/rondo/bucket_section.h"

#include <algorithm>

#include "formats/plan/plan_timeline.h"
#include "tools/rondo/estimates.h"

namespace rondo::tools {

std::vector<BucketLine> BucketLinesOf(const PlanData& plan, const BucketFamily& family) {
  std::vector<BucketLine> lines;
  for (const BucketFamily::Bucket& bucket : family.buckets()) {
    const Program& program = plan.programs[bucket.program];
    BucketLine& line = lines.emplace_back();
    line.program = program.name;
    line.rooms = bucket.rooms;
    line.arena_bytes = program.arena_bytes;
    line.microseconds = TimelineOf(plan, program).end;
    double least = 1, mean = 1;  // shares of positions that a run uses
    for (size_t l = 0; l < bucket.rooms.size(); ++l) {
      int64_t below = 0;  // the next smaller room
      for (const BucketFamily::Bucket& other : family.buckets()) {
        if (other.rooms[l] < bucket.rooms[l]) below = std::max(below, other.rooms[l]);
      }
      const auto room = static_cast<double>(bucket.rooms[l]), first = static_cast<double>(below + 1);
      least *= first / room;
      mean *= (first + room) / 2 / room;
    }
    line.most_padding = 1 - least;
    line.mean_padding = 1 - mean;
  }
  return lines;
}

Section BucketSection(const PlanData& plan, const BucketFamily& family) {
  Section section;
  section.title = Printf("Buckets of %s: %zu", family.name().c_str(), family.buckets().size());
  section.lines.push_back(
      "a run takes the least bucket that holds its inputs; padding: the share of a bucket's positions that "
      "the "
      "shortest such run leaves unused, and the mean over all lengths");
  section.table.head = {"program"};
  for (const std::string& length : family.lengths()) section.table.head.push_back(length + " up to");
  const bool times = EstimatesAreTimes(plan);
  section.table.head.insert(
      section.table.head.end(),
      {"arena bytes", times ? "µs by estimate" : "cost by estimate", "most padding", "mean padding"});
  for (const BucketLine& line : BucketLinesOf(plan, family)) {
    std::vector<std::string> row = {line.program};
    for (const int64_t room : line.rooms) row.push_back(std::to_string(room));
    row.push_back(std::to_string(line.arena_bytes));
    row.push_back(Printf("%.1f", line.microseconds));
    row.push_back(Printf("%.0f %%", 100 * line.most_padding));
    row.push_back(Printf("%.0f %%", 100 * line.mean_padding));
    section.table.rows.push_back(std::move(row));
  }
  return section;
}

}  // namespace rondo::tools
