// Watch: ends a run of the fuzzer on a failure, and prints the input.
#pragma once

#include <cstdint>

namespace rondo::fuzz {

// From now on a crash, a sanitizer's report, a broken promise or an input that takes more than `seconds`
// prints the current input (SetCurrent) before the process ends. `seconds` 0: no limit.
void StartWatch(unsigned seconds);
// Sets the current input: `number` of `target`, drawn with `seed`. Restarts the clock.
void SetCurrent(const char* target, uint64_t seed, uint64_t number);
void StopClock();

// Limits the process's memory: the bytes in use with the address sanitizer, otherwise the resident pages.
// More than `limit` (bytes) ends the process; 0: no limit.
void LimitMemory(uint64_t limit);
uint64_t GreatestMemory();

}  // namespace rondo::fuzz
