// Adds to the plan's sources, as texts: the kernel times of the compiler's estimates, and what overlaps each
// collective by these estimates.
#include "compiler/codegen/plan_emitter.h"
#include "formats/machine_code/binary_digest.h"

namespace rondo {

// Devices with the same note share it.
void PlanEmitter::NoteOverlaps(const Group& group) {
  std::vector<OverlapNote> notes;
  std::map<std::string, size_t> known;  // by text without devices
  for (size_t p = group.first; p < group.end; ++p) {
    const std::vector<OverlapNote>& collectives = programs_[p].overlap.collectives;
    for (size_t c = 0; c < collectives.size(); ++c) {
      OverlapNote note = collectives[c];
      note.sync_point = sync_points_[p - first_of_group_][c];
      note.program = programs_[p].lowered.name;
      const auto [entry, added] = known.try_emplace(TextOf(note), notes.size());
      if (added) notes.push_back(std::move(note));
      notes[entry->second].devices.push_back(programs_[p].device);
    }
  }
  for (const OverlapNote& note : notes) Source({TextOf(note)});
}

// Must run when the plan has its kernels and programs.
void PlanEmitter::NoteTimes() {
  KernelTimes estimated;
  for (const PlannedProgram& program : programs_) {
    for (const LoweredOp& op : program.lowered.ops) {
      if (op.microseconds > 0) estimated.try_emplace(KernelDigest(op.kernel), op.microseconds);
    }
  }
  for (const std::string& text : TextsOfEstimates(estimated)) Source({text});
  if (options_.times == nullptr) return;
  for (const std::string& text : TextsOf(options_.times->ThoseOf(out_.plan))) Source({text});
}

}  // namespace rondo
