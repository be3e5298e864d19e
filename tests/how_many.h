// HowMany: how often a test does what a long test does more often.
#ifndef RONDO_TESTS_HOW_MANY_H_
#define RONDO_TESTS_HOW_MANY_H_

#include <cstdlib>

namespace rondo {

// What the environment variable says, as long tests have it set (rondo_long_test in RondoTargets.cmake), else
// `usually`. A number at least 1.
inline int HowMany(const char* variable, int usually) {
  const char* text = std::getenv(variable);
  const int number = text == nullptr ? usually : std::atoi(text);
  return number > 0 ? number : usually;
}

}  // namespace rondo

#endif  // RONDO_TESTS_HOW_MANY_H_
