// Included where together.py has put several changes into one file: RONDO_MUTANT(n) is true in processes
// whose environment says RONDO_MUTANT=n.
#pragma once

#include <cstdlib>

namespace rondo {

inline int ChosenMutant() {
  static const int chosen =
      std::getenv("RONDO_MUTANT") == nullptr ? 0 : std::atoi(std::getenv("RONDO_MUTANT"));
  return chosen;
}

}  // namespace rondo

#define RONDO_MUTANT(n) (::rondo::ChosenMutant() == (n))
// In constexpr functions, which compilers run, too: those run them without a change.
#define RONDO_RUNNING_MUTANT(n) (!__builtin_is_constant_evaluated() && RONDO_MUTANT(n))

// A constant that is chosen is none: it is compared, and put into narrower types, with a warning.
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wnarrowing"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
