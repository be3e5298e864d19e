// OverlapNote: what the compiler has planned to run beside a collective, by estimate. It is kept as a text
// among a plan's sources, which nothing refers to, for tools that show it. It does not describe an actual
// run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// Times in microseconds: before scheduling, with each collective waited for at once; and as planned.
struct OverlapNote {
  uint32_t sync_point = 0;
  std::string program;
  std::vector<uint32_t> devices;                 // devices that this holds for
  double time = 0;                               // duration of the collective
  double late = 0;                               // how much later other devices reach it, as planned
  double beside_before = 0, beside_after = 0;    // compute that runs during it
  double exposed_before = 0, exposed_after = 0;  // how long its wait delays the device
  int raised = 0, sunk = 0,
      moved = 0;  // steps that its start now precedes; that its wait now follows; moved between the two
  uint32_t chunk = 0, chunks = 0;  // index and number of the chunks it was cut into; 0: not cut
  std::string limit;               // why no more is hidden; empty: all is hidden
};

// `overlap of sync point 3 of program "main" on devices 0, 1: takes 22.6 us; ...`
std::string TextOf(const OverlapNote& note);
// No value if `source` is another text.
std::optional<OverlapNote> ParseOverlapNote(std::string_view source);

}  // namespace rondo
