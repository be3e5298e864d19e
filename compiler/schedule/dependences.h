// Dependences: which of a program's ops wait for which, both ways; the same backwards; and where every order
// of the ops passes through one of them.
#pragma once

#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// One list an op, without repeats. A plain value.
struct Dependences {
  std::vector<std::vector<int>> before, after;

  Dependences() = default;
  explicit Dependences(const LoweredProgram& program);

  int count() const { return static_cast<int>(before.size()); }

  // Of the same ops when time runs backwards, the last one being number 0.
  Dependences Reversed() const;
  // What an order of the reversed program is in the program itself.
  static void TurnBack(std::vector<int>* order);

  // Of the ops [first, end) among each other; op `first` is number 0. Ops must stand in a valid order.
  Dependences Part(int first, int end) const;

  // Where the parts begin that follow one another in every order, with the number of ops behind them: 0, then
  // each op that every op before it must precede and every op after it must follow. Ops must stand in a valid
  // order; that op has the same place in all of them, so that each part can be ordered by itself.
  std::vector<int> Seams() const;
};

}  // namespace rondo
