// HowMany: how often a test does what a long test does more often; IsTaken: which of its cases.
#pragma once

#include <cstdlib>

namespace rondo {

// What the environment variable says, as long tests have it set (rondo_long_test in RondoTargets.cmake), else
// `usually`. A number at least 1.
inline int HowMany(const char* variable, int usually) {
  const char* text = std::getenv(variable);
  const int number = text == nullptr ? usually : std::atoi(text);
  return number > 0 ? number : usually;
}

// Whether case `number` is one of those that a test takes when it takes one of `each`: of every `each` cases
// one, by turns another one of them, so that where two lists are gone through, one inside the other, all of
// both are met.
inline bool IsTaken(int number, int each) { return (number + number / each) % each == 0; }

}  // namespace rondo
