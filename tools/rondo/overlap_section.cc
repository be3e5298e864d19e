#include "tools/rondo/overlap_section.h"

#include <algorithm>

#include "formats/plan/plan_timeline.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {

Section OverlapSection(const std::string& program, const std::vector<OverlapNote>& notes) {
  Section section;
  section.title = Printf("Program %s: compute beside collectives, by estimate", program.c_str());
  section.lines.push_back("microseconds, with each collective waited for at once -> as planned");
  section.table.head = {"sync point", "takes", "others later", "beside it", "exposed", "raised",
                        "sunk",       "moved", "stopped by",   "chunk",     "devices"};
  for (const OverlapNote& note : notes) {
    std::string devices;
    for (uint32_t device : note.devices) devices += (devices.empty() ? "" : ", ") + std::to_string(device);
    section.table.rows.push_back(
        {std::to_string(note.sync_point), Printf("%.1f", note.time), Printf("%.1f", note.late),
         Printf("%.1f -> %.1f", note.beside_before, note.beside_after),
         Printf("%.1f -> %.1f", note.exposed_before, note.exposed_after), std::to_string(note.raised),
         std::to_string(note.sunk), std::to_string(note.moved), note.limit,
         note.chunks == 0 ? "" : Printf("%u of %u", note.chunk, note.chunks), devices});
  }
  return section;
}

std::vector<BesideCollective> StepsBeside(const PlanData& plan, const Program& program) {
  const ProgramTimeline timeline = TimelineOf(plan, program);
  std::vector<BesideCollective> list;
  for (const PlannedCollective& planned : timeline.collectives) {
    BesideCollective beside = {planned.sync_point, planned.device, {}};
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      const bool computes = step.kind != StepKind::kCollectiveStart && step.kind != StepKind::kCollectiveWait;
      const double shared =
          std::min(timeline.ends[s], planned.times.end) - std::max(timeline.begins[s], planned.times.begin);
      if (computes && step.device == planned.device && shared > 0) beside.steps.push_back({s, shared});
    }
    list.push_back(std::move(beside));
  }
  return list;
}

Section BesideSection(const PlanData& plan, const Program& program) {
  constexpr size_t kShown = 6;  // steps per collective
  Section section;
  section.title =
      Printf("Program %s: steps beside each collective, by estimate", std::string(program.name).c_str());
  section.table.head = {"sync point", "device", "steps, and how long they share with it"};
  for (const BesideCollective& beside : StepsBeside(plan, program)) {
    std::string steps;
    for (size_t i = 0; i < std::min(beside.steps.size(), kShown); ++i) {
      const SharedStep& step = beside.steps[i];
      steps += Printf("%s%u %s %.1f us", i == 0 ? "" : ", ", step.step,
                      StepText(plan, program.steps[step.step]).c_str(), step.microseconds);
    }
    if (beside.steps.size() > kShown) steps += Printf(" and %zu more", beside.steps.size() - kShown);
    section.table.rows.push_back(
        {std::to_string(beside.sync_point), std::to_string(beside.device), steps.empty() ? "none" : steps});
  }
  return section;
}

}  // namespace rondo::tools
