// AssertionNote: what an assertion by value (`compile --annotate NODE:assert=finite`) is of. It is kept as a
// text among the plan's sources, which nothing refers to; a driver looks for it (NotFinite of core/driver.h)
// when the assertion fails. Programs that have an assertion of one number at one step have the same there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "formats/plan/note_reader.h"

namespace rondo {

struct AssertionNote {
  uint32_t assertion = 0;  // TapeInst::imm.i of the kAssertFinite in the step's kernel
  uint32_t step = 0;
  std::string program;
  std::string value, node;  // "y", `MatMul "a"`
};

// `assertion 0 of step 7 of "main": output "y" of MatMul "a"`
inline std::string TextOf(const AssertionNote& note) {
  return "assertion " + std::to_string(note.assertion) + " of step " + std::to_string(note.step) + " of \"" +
         note.program + "\": output \"" + note.value + "\" of " + note.node;
}

// None where `source` is no such text.
inline std::optional<AssertionNote> ParseAssertionNote(std::string_view source) {
  AssertionNote note;
  NoteReader reader(source);
  reader.Expect("assertion ");
  reader.Number(&note.assertion);
  reader.Expect(" of step ");
  reader.Number(&note.step);
  reader.Expect(" of \"");
  reader.Until("\": output \"", &note.program);
  reader.Until("\" of ", &note.value);
  note.node = reader.Rest();
  if (!reader.ok() || note.node.empty()) return std::nullopt;
  return note;
}

// Those of a program, by step.
inline std::vector<AssertionNote> AssertionsOf(const PlanData& plan, const Program& program) {
  std::vector<AssertionNote> notes;
  for (const std::string_view source : plan.sources) {
    const std::optional<AssertionNote> note = ParseAssertionNote(source);
    if (note && note->program == program.name && note->step < program.steps.size()) notes.push_back(*note);
  }
  return notes;
}

}  // namespace rondo
