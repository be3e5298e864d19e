// MayOverlap: whether two views of one storage show a common element, without a visit to every element.
#pragma once

#include "compiler/ir/view.h"

namespace rondo::ir {

// Exact but for two cautions, where it may be true without a common element: a view that no split of its
// loops makes affine counts as what it is taken from, and the search ends after kOverlapSteps.
//
// The views meet where offset + strides . x of one equals that of the other: a linear equation with bounded
// unknowns. After joining strides that divide each other little search remains, as in numpy's solver of
// memory overlaps (numpy/core/src/common/mem_overlap.c).
bool MayOverlap(const View& a, const View& b);

constexpr int kOverlapSteps = 1 << 14;

}  // namespace rondo::ir
