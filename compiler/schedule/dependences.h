// Dependences: the dependences between a program's ops in both directions, the same for reversed time, and
// the ops through which every order passes.
#pragma once

#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// One list for each op, without repeats. A plain value.
struct Dependences {
  std::vector<std::vector<int>> before, after;

  Dependences() = default;
  explicit Dependences(const LoweredProgram& program);

  int count() const { return static_cast<int>(before.size()); }

  // The dependences of the same ops in reversed time; the last op becomes number 0.
  Dependences Reversed() const;
  // Converts an order of the reversed program into one of the program itself.
  static void TurnBack(std::vector<int>* order);

  // The dependences among the ops [first, end); op `first` becomes number 0. Ops must be in a valid order.
  Dependences Part(int first, int end) const;

  // The beginnings of parts that follow one another in every order, then the number of ops: 0, and each op
  // that comes after all ops before it and before all ops behind it in every order. Ops must be in a valid
  // order. Such an op has the same position in all of them, so each part can be ordered by itself.
  std::vector<int> Seams() const;
};

}  // namespace rondo
