// Watch: what ends a run of the fuzzer, and which input it was.
#pragma once

#include <cstdint>

namespace rondo::fuzz {

// From now on a crash, a sanitizer's report, a broken promise or an input that takes more than `seconds` says
// which input it was (SetCurrent) before the process ends. `seconds` 0: no limit.
void StartWatch(unsigned seconds);
// The process is working at input `number` of `target`, drawn with `seed`; restarts the clock.
void SetCurrent(const char* target, uint64_t seed, uint64_t number);
void StopClock();

// Memory that the process has taken, where it can be told: with the address sanitizer the bytes in use, else
// the pages resident. `limit` (bytes) ends the process when passed; 0: none.
void LimitMemory(uint64_t limit);
uint64_t GreatestMemory();

}  // namespace rondo::fuzz
