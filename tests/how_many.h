// HowMany: the number of repetitions of a test, larger in its long test. IsTaken: the cases that a test
// takes.
#pragma once

#include <cstdlib>

namespace rondo {

// The value of the environment variable, which long tests set (rondo_long_test in RondoTargets.cmake),
// otherwise `usually`. At least 1.
inline int HowMany(const char* variable, int usually) {
  const char* text = std::getenv(variable);
  const int number = text == nullptr ? usually : std::atoi(text);
  return number > 0 ? number : usually;
}

// Whether a test that takes one of `each` cases takes case `number`. The place of the taken case moves from
// one `each` cases to the next, so that nested loops over two lists meet all entries of both.
inline bool IsTaken(int number, int each) { return (number + number / each) % each == 0; }

}  // namespace rondo
