// RegionNote: where a plan runs a region of its model (`compile --annotate NODES:region=NAME`). It is kept as
// a text among the plan's sources, which nothing refers to, for tools that show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "formats/plan/note_reader.h"

namespace rondo {

// One place of a region on one device: steps that stand one after another.
struct RegionNote {
  std::string region;  // "layer/attention": attention, which lies in layer
  uint32_t place = 0;  // the region's places are numbered from 0
  uint32_t first_step = 0, last_step = 0;
  std::string program;
};

// `region layer/attention, place 2: steps 3 to 7 of "main"`
inline std::string TextOf(const RegionNote& note) {
  return "region " + note.region + ", place " + std::to_string(note.place) + ": steps " +
         std::to_string(note.first_step) + " to " + std::to_string(note.last_step) + " of \"" + note.program +
         "\"";
}

// None where `source` is no such text.
inline std::optional<RegionNote> ParseRegionNote(std::string_view source) {
  RegionNote note;
  NoteReader reader(source);
  reader.Expect("region ");
  reader.Until(", place ", &note.region);
  reader.Number(&note.place);
  reader.Expect(": steps ");
  reader.Number(&note.first_step);
  reader.Expect(" to ");
  reader.Number(&note.last_step);
  reader.Expect(" of \"");
  note.program = reader.Rest();
  if (!reader.ok() || note.program.empty() || note.program.back() != '"') return std::nullopt;
  note.program.pop_back();
  return note;
}

// Those of a program, outer places before those that lie in them.
inline std::vector<RegionNote> RegionsOf(const PlanData& plan, const Program& program) {
  std::vector<RegionNote> notes;
  for (const std::string_view source : plan.sources) {
    const std::optional<RegionNote> note = ParseRegionNote(source);
    const bool valid = note && note->program == program.name && note->first_step <= note->last_step &&
                       note->last_step < program.steps.size();
    if (valid) notes.push_back(*note);
  }
  return notes;
}

}  // namespace rondo
