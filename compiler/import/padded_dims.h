// Which elements of a tensor are padding: positions of its dims beyond a run's sizes.
//
// A bucket's tensors may be larger than a run needs. A dim consists of axes, the outermost first: its own
// axis, or several if a reshape has joined dims. Of an axis with room for `extent` positions, the first
// `size` belong to the run. An element is padding if one of its axes is past its size. Plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/size.h"
#include "compiler/ir/view.h"
#include "core/shape.h"

namespace rondo::importer {

struct PaddedAxis {
  int64_t extent = 1;
  ir::Size size = 1;           // known: all positions belong to the run
  std::optional<double> fill;  // the value of all elements past the size, if it is one number

  bool padded() const { return !size.known(); }
};

struct PaddedDim {
  std::vector<PaddedAxis> axes;  // none: no padding; adjacent axes are never both unpadded
  bool repeated = false;         // one position, which is broadcast
  bool part = false;             // made by a view that shows a part of an axis

  bool padded() const { return !axes.empty(); }
};
using PaddedDims = std::vector<PaddedDim>;

// The dims of `shape`, without padding.
PaddedDims Unpadded(const Shape& shape);
bool AnyPadded(const PaddedDims& dims);
// Leaves only which positions are padding: nothing is known of its contents, or of how views made the dims.
void ForgetFills(PaddedDims* dims);
// Whether the same positions are padding.
bool SamePadding(const PaddedDim& a, const PaddedDim& b);

// Merges unpadded axes into the padded axis around them: an axis with s of n positions in the run, and an
// unpadded axis of two elements in it, become one axis with 2 s of 2 n.
PaddedDim Joined(const PaddedDim& dim);

// The dims of `view` over a tensor of `shape` with dims `base`. nullopt if the view mixes padding and other
// elements in a way that axes cannot express; `why` then completes a sentence about the view.
std::optional<PaddedDims> Shown(const PaddedDims& base, const Shape& shape, const ir::View& view,
                                std::string* why);

}  // namespace rondo::importer
