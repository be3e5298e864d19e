#include "tools/rondo/overlap_section.h"

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

}  // namespace rondo::tools
