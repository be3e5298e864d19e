// Included in files with several changes of together.py: RONDO_MUTANT(n) is true in processes whose
// environment has RONDO_MUTANT=n.
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
// For constexpr functions: when a compiler evaluates them, no change applies.
#define RONDO_RUNNING_MUTANT(n) (!__builtin_is_constant_evaluated() && RONDO_MUTANT(n))

// A constant in such a branch is no longer a constant, so comparing and narrowing it would warn.
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wnarrowing"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
