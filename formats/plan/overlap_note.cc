#include "formats/plan/overlap_note.h"

#include <cstdio>

#include "formats/plan/note_reader.h"

namespace rondo {

std::string TextOf(const OverlapNote& note) {
  std::string text = "overlap of sync point " + std::to_string(note.sync_point) + " of program \"" +
                     note.program + "\" on devices ";
  for (size_t i = 0; i < note.devices.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(note.devices[i]);
  char numbers[200];
  std::snprintf(
      numbers, sizeof numbers,
      ": takes %.1f us; beside it %.1f -> %.1f us; exposed %.1f -> %.1f us; raised %d, sunk %d, moved %d",
      note.time, note.beside_before, note.beside_after, note.exposed_before, note.exposed_after, note.raised,
      note.sunk, note.moved);
  text += numbers;
  if (note.late >= 0.05) {
    std::snprintf(numbers, sizeof numbers, "; others %.1f us later", note.late);
    text += numbers;
  }
  if (note.chunks > 0) text += "; chunk " + std::to_string(note.chunk) + " of " + std::to_string(note.chunks);
  return note.limit.empty() ? text : text + "; stopped by: " + note.limit;
}

std::optional<OverlapNote> ParseOverlapNote(std::string_view source) {
  NoteReader in(source);
  OverlapNote note;
  in.Expect("overlap of sync point ");
  in.Number(&note.sync_point);
  in.Expect(" of program \"");
  in.Until("\" on devices ", &note.program);
  do {
    note.devices.push_back(0);
    in.Number(&note.devices.back());
  } while (in.Take(", "));
  in.Expect(": takes ");
  in.Number(&note.time);
  in.Expect(" us; beside it ");
  in.Number(&note.beside_before);
  in.Expect(" -> ");
  in.Number(&note.beside_after);
  in.Expect(" us; exposed ");
  in.Number(&note.exposed_before);
  in.Expect(" -> ");
  in.Number(&note.exposed_after);
  in.Expect(" us; raised ");
  in.Number(&note.raised);
  in.Expect(", sunk ");
  in.Number(&note.sunk);
  in.Expect(", moved ");
  in.Number(&note.moved);
  if (in.Take("; others ")) {
    in.Number(&note.late);
    in.Expect(" us later");
  }
  if (in.Take("; chunk ")) {
    in.Number(&note.chunk);
    in.Expect(" of ");
    in.Number(&note.chunks);
  }
  if (in.Take("; stopped by: ")) {
    note.limit = in.Rest();
  } else if (!in.Rest().empty()) {
    return std::nullopt;
  }
  if (!in.ok()) return std::nullopt;
  return note;
}

}  // namespace rondo
