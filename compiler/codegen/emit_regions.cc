// Where regions run, as texts among the plan's sources (formats/plan/region_note.h).
#include <cstdlib>

#include "compiler/codegen/plan_emitter.h"
#include "compiler/schedule/keep_together.h"
#include "formats/plan/region_note.h"

namespace rondo {

// Of one device; `first_step` is its first.
void PlanEmitter::NoteRegions(const LoweredProgram& program, uint32_t first_step) {
  std::vector<RegionNote> notes;
  std::map<std::string, size_t> known;  // by places, up to the note's
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto step = first_step + static_cast<uint32_t>(i);
    std::vector<std::string> places;
    for (std::string& place : ir::PlacesIn(RegionOf(program.ops[i]))) {
      places.push_back(std::move(place));
      const size_t sign = places.back().find('#');
      if (sign == 0) continue;  // without a name: only kept together
      const std::string region = ir::RegionOfPlaces(places);
      const auto [entry, added] = known.try_emplace(region, notes.size());
      const auto number = std::strtoul(places.back().c_str() + sign + 1, nullptr, 10);
      if (added)
        notes.push_back({ir::NameOfRegion(region), static_cast<uint32_t>(number), step, step, program.name});
      notes[entry->second].last_step = step;
    }
  }
  for (const RegionNote& note : notes) Source({TextOf(note)});
}

}  // namespace rondo
