// Selections by the length of a text (long-rope, NTK), if a prompt is read in several runs.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

// The state that says how long the text is of which a run reads tokens: i64 [1].
inline constexpr char kTextLength[] = "text_length";

// Models take other angles for long texts (long-rope, NTK): by the positions up to the end of what they read
// at once, a prompt's last. Where a run reads the prompt's first part, that end is elsewhere: so what is
// chosen by the number of positions, or worked out of it by a power, a logarithm, a root, or as no less than
// something, in floats, is so by the state `text_length`, where that is greater than the number of positions
// before the run (0, as states begin, is not, nor is the length of a prompt that was read), and else by the
// positions up to the run's end.
//
// `cached` is how many positions there are before the run, i64 []; `totals` are elements of numbers that are
// the positions up to its end, of which a run adds `rows`, or rise evenly with them. The greatest of an input
// of positions counts as such, too. Chosen is what a comparison with them decides between floats; where it
// decides on anything else (where a window begins), that stays a matter of the run. Adds no state where
// nothing is chosen, or the graph has a port of that name.
struct ElementOf {
  ir::NodeId node = ir::kNoNode;
  int64_t element = 0;
  double slope = 1;  // what it rises by with a position; a whole number for integers
};
void SelectByTextLength(ir::Builder* builder, ir::NodeId cached, int64_t rows,
                        const std::vector<ElementOf>& totals);

}  // namespace rondo::importer
