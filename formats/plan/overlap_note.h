// OverlapNote: what the compiler has planned to run beside a collective, by estimate. It is kept as a text
// among a plan's sources, which nothing refers to, for tools that show it: it says nothing of what a run
// does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// Times in microseconds: before, with each collective waited for at once, and as planned.
struct OverlapNote {
  uint32_t sync_point = 0;
  std::string program;
  std::vector<uint32_t> devices;                 // of which this holds
  double time = 0;                               // that the collective takes
  double late = 0;                               // that other devices come to it later, as planned
  double beside_before = 0, beside_after = 0;    // compute that runs meanwhile
  double exposed_before = 0, exposed_after = 0;  // that its wait holds the device up
  int raised = 0, sunk = 0,
      moved = 0;                   // steps that its start now comes before, its wait behind; between the two
  uint32_t chunk = 0, chunks = 0;  // which of how many it was cut into; 0: it is whole
  std::string limit;               // why no more is hidden; empty: nothing is left
};

// `overlap of sync point 3 of program "main" on devices 0, 1: takes 22.6 us; ...`
std::string TextOf(const OverlapNote& note);
// None where `source` is no such text.
std::optional<OverlapNote> ParseOverlapNote(std::string_view source);

}  // namespace rondo
