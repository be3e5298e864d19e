// Selections by the length of a text (long-rope, NTK), if a prompt is read in several runs.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

// The state with the length of the text whose tokens a run reads: i64 [1].
inline constexpr char kTextLength[] = "text_length";

// Models use other angles for long texts (long-rope, NTK). They choose them by the positions up to the end of
// what they read at once, which is meant to be the whole prompt. A run that reads only the prompt's first
// part would choose by another end. So this function replaces the number of positions where floats are chosen
// by it, or computed from it by a power, a logarithm, a root or a maximum. The replacement is the state
// `text_length` if that is greater than the number of positions before the run (the initial 0 is not, nor is
// the length of a prompt that was read), and otherwise the positions up to the run's end.
//
// `cached` is the number of positions before the run, i64 []. `totals` are elements whose value is the number
// of positions up to the run's end (the run adds `rows`), or rises evenly with it. The maximum of an input of
// positions counts as one, too. Only comparisons that decide between floats are replaced; those that decide
// anything else (where a window begins) keep the run's own positions. Adds no state if nothing is chosen, or
// if the graph has a port of that name.
struct ElementOf {
  ir::NodeId node = ir::kNoNode;
  int64_t element = 0;
  double slope = 1;  // the increase per position; a whole number for integers
};
void SelectByTextLength(ir::Builder* builder, ir::NodeId cached, int64_t rows,
                        const std::vector<ElementOf>& totals);

}  // namespace rondo::importer
