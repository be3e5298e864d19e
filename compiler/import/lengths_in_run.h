// Which arithmetic on the number of cached positions import may work out, and which only a run can.
//
// For caches of a fixed length a model is imported for that many positions and for two lengths beyond
// (fixed_caches.cc), and what differs between the three is followed by how it differs. That holds at any
// number of positions for what rises evenly, and for masks that look alike from the first or from the last
// position on. It does not hold for what is decided by the number: whether there are more than five is the
// same at all three lengths, and another thing in a run of four.
#ifndef RONDO_COMPILER_IMPORT_LENGTHS_IN_RUN_H_
#define RONDO_COMPILER_IMPORT_LENGTHS_IN_RUN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "compiler/import/import.h"

namespace rondo::importer {

struct LengthsInRun {
  // To be computed in each run: at other numbers of positions they may be something else.
  KnownInRun decided;
  // What nobody can follow from the three lengths (a square root): better computed in each run, unless a
  // shape needs it.
  KnownInRun unfollowed;
};

// `nodes`: what was known in imports for `length` positions of which a run adds `rows`, for `step` more
// (which may be less), and for twice `step` more. They are alike up to where the imports part.
LengthsInRun FindLengthsInRun(const std::array<std::vector<KnownNode>, 3>& nodes, int64_t length,
                              int64_t rows, int64_t step);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_LENGTHS_IN_RUN_H_
