// Compares views with explicit index arithmetic: random chains of movements, every element.
#include "compiler/ir/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "compiler/ir/overlap.h"
#include "compiler/ir/view_axis.h"
#include "compiler/ir/walk.h"

namespace rondo::ir {
namespace {

// The same movements on an array of storage indices, which a View represents without storing it.
struct Explicit {
  Shape shape;
  std::vector<int64_t> elements;
};

using Rng = std::mt19937;
int64_t Pick(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

// `f` maps an index of the new tensor to an index of the old one.
template <typename F>
Explicit Moved(const Explicit& from, const Shape& shape, F f) {
  Explicit out{shape, {}};
  std::vector<int64_t> index(static_cast<size_t>(shape.rank), 0);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    std::vector<int64_t> old = f(index);
    int64_t at = 0;
    for (int d = 0; d < from.shape.rank; ++d) at = at * from.shape[d] + old[static_cast<size_t>(d)];
    out.elements.push_back(from.elements[static_cast<size_t>(at)]);
    for (int d = shape.rank - 1; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < shape[d]) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
  return out;
}

Shape RandomFactors(Rng& rng, int64_t n) {
  Shape shape;
  while (shape.rank < 5) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) divisors.push_back(d);
    }
    int64_t d = divisors[static_cast<size_t>(Pick(rng, 0, static_cast<int64_t>(divisors.size()) - 1))];
    shape.dims[shape.rank++] = d;
    n /= d;
    if (n == 1) break;
  }
  if (n != 1) shape.dims[shape.rank++] = n;
  return shape;
}

void RandomMove(Rng& rng, View* view, Explicit* e) {
  switch (Pick(rng, 0, 3)) {
    case 0: {
      Shape shape = RandomFactors(rng, e->shape.elements());
      *view = Reshape(*view, shape);
      e->shape = shape;
      return;
    }
    case 1: {
      std::vector<int> perm(static_cast<size_t>(e->shape.rank));
      std::iota(perm.begin(), perm.end(), 0);
      std::shuffle(perm.begin(), perm.end(), rng);
      Shape shape = e->shape;
      for (int d = 0; d < shape.rank; ++d) shape[d] = e->shape[perm[static_cast<size_t>(d)]];
      *e = Moved(*e, shape, [&](const std::vector<int64_t>& i) {
        std::vector<int64_t> old(i.size());
        for (size_t d = 0; d < i.size(); ++d) old[static_cast<size_t>(perm[d])] = i[d];
        return old;
      });
      *view = Transpose(*view, perm);
      return;
    }
    case 2: {
      if (e->shape.rank == 0) return;
      int axis = static_cast<int>(Pick(rng, 0, e->shape.rank - 1));
      int64_t extent = e->shape[axis], start = Pick(rng, 0, extent - 1);
      int64_t step = Pick(rng, 0, 1) ? Pick(rng, 1, 2) : -Pick(rng, 1, 2);
      int64_t most = step > 0 ? (extent - 1 - start) / step + 1 : start / -step + 1;
      int64_t count = Pick(rng, 1, most);
      Shape shape = e->shape;
      shape[axis] = count;
      *e = Moved(*e, shape, [&](std::vector<int64_t> i) {
        i[static_cast<size_t>(axis)] = start + step * i[static_cast<size_t>(axis)];
        return i;
      });
      *view = Slice(*view, axis, start, step, count);
      return;
    }
    default: {
      Shape shape = e->shape;
      int64_t lead = shape.rank < 5 && shape.elements() < 200 ? Pick(rng, 0, 1) : 0;
      if (lead) {
        for (int d = shape.rank; d > 0; --d) shape[d] = shape[d - 1];
        shape[0] = Pick(rng, 1, 3);
        ++shape.rank;
      }
      for (int d = 0; d < shape.rank; ++d) {
        if (shape[d] == 1 && shape.elements() < 200) shape[d] = Pick(rng, 1, 3);
      }
      *e = Moved(*e, shape, [&](const std::vector<int64_t>& i) {
        std::vector<int64_t> old(i.begin() + lead, i.end());
        for (size_t d = 0; d < old.size(); ++d) {
          if (e->shape[static_cast<int>(d)] == 1) old[d] = 0;
        }
        return old;
      });
      *view = Expand(*view, shape);
      return;
    }
  }
}

std::vector<int64_t> ByResolve(const View& view) { return ResolveAll(view); }

std::vector<int64_t> ByWalk(const View& view) {
  std::vector<int64_t> out(static_cast<size_t>(view.shape().elements()), -1);
  ForEachElement(view, [&](int64_t i, int64_t at) { out[static_cast<size_t>(i)] = at; });
  return out;
}

Shape RandomShape(Rng& rng) {
  Shape shape;
  shape.rank = static_cast<int>(Pick(rng, 0, 4));
  for (int d = 0; d < shape.rank; ++d) shape[d] = Pick(rng, 1, 6);
  return shape;
}

TEST(ViewTest, RandomChainsShowWhatTheMovementsSay) {
  Rng rng(7);
  int affine = 0, refined = 0, total = 0;
  for (int round = 0; round < 3000; ++round) {
    Shape shape = RandomShape(rng);
    View view = DenseView(shape);
    Explicit e{shape, std::vector<int64_t>(static_cast<size_t>(shape.elements()))};
    std::iota(e.elements.begin(), e.elements.end(), 0);
    for (int64_t moves = Pick(rng, 1, 6); moves > 0; --moves) {
      RandomMove(rng, &view, &e);
      ASSERT_TRUE(view.shape() == e.shape);
      ASSERT_EQ(ByResolve(view), e.elements) << ToString(view);
      ASSERT_EQ(ByWalk(view), e.elements) << ToString(view);
    }
    std::vector<int64_t> sorted(e.elements.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    EXPECT_EQ(IsDense(view, shape.elements()), e.elements == sorted && e.shape.elements() == shape.elements())
        << ToString(view);
    LoopNest nest(view.shape());
    ++total;
    affine += view.affine();
    refined += RefineLoops(view, &nest);
  }
  // Most chains are plain strides; splitting loops makes nearly all others plain strides too.
  EXPECT_GT(affine, total * 6 / 10);
  EXPECT_GT(refined, total * 8 / 10);
}

TEST(ViewTest, ComposeIsOneAfterTheOther) {
  Rng rng(8);
  for (int round = 0; round < 1000; ++round) {
    Shape shape = RandomShape(rng);
    View inner = DenseView(shape);
    Explicit e{shape, std::vector<int64_t>(static_cast<size_t>(shape.elements()))};
    std::iota(e.elements.begin(), e.elements.end(), 0);
    for (int i = 0; i < 3; ++i) RandomMove(rng, &inner, &e);
    View outer = DenseView(e.shape);
    for (int i = 0; i < 3; ++i) RandomMove(rng, &outer, &e);
    ASSERT_EQ(ByResolve(Compose(inner, outer)), e.elements);
  }
}

TEST(ViewTest, ViewsOverlapWhereTheyShowACommonElement) {
  Rng rng(9);
  int apart = 0, exact = 0, cautious = 0;
  for (int round = 0; round < 4000; ++round) {
    const Shape shape = RandomShape(rng);
    View views[2];
    std::set<int64_t> shown[2];
    for (int i = 0; i < 2; ++i) {
      views[i] = DenseView(shape);
      Explicit e{shape, std::vector<int64_t>(static_cast<size_t>(shape.elements()))};
      std::iota(e.elements.begin(), e.elements.end(), 0);
      for (int move = 0; move < 4; ++move) RandomMove(rng, &views[i], &e);
      shown[i].insert(e.elements.begin(), e.elements.end());
    }
    const bool meet =
        std::any_of(shown[0].begin(), shown[0].end(), [&](int64_t at) { return shown[1].count(at) > 0; });
    const bool may = MayOverlap(views[0], views[1]);
    LoopNest nests[2] = {LoopNest(views[0].shape()), LoopNest(views[1].shape())};
    const bool refined = RefineLoops(views[0], &nests[0]) && RefineLoops(views[1], &nests[1]);
    ASSERT_TRUE(refined ? may == meet : may >= meet) << ToString(views[0]) << " and " << ToString(views[1]);
    apart += !meet;
    exact += !meet && !may;
    cautious += !refined;
  }
  EXPECT_GT(cautious, 100);
  EXPECT_GT(apart, 300);
  EXPECT_GT(exact, apart * 9 / 10);
}

// A walk through these elements would not end. The last pair cannot be told apart within the steps allowed.
TEST(ViewTest, OverlapOfLongViewsTakesFewSteps) {
  constexpr int64_t kLong = int64_t{1} << 40;
  const auto strided = [](int64_t offset, std::vector<IndexDim> dims) {
    ViewStep step;
    step.offset = offset;
    for (const IndexDim& dim : dims) {
      step.shape.dims[step.shape.rank] = dim.extent;
      step.strides[step.shape.rank++] = dim.stride;
    }
    return View{{step}};
  };
  const View even = strided(0, {{kLong, 0}, {kLong, 2}}), odd = strided(1, {{kLong, 0}, {kLong, 2}});
  EXPECT_FALSE(MayOverlap(even, odd));
  EXPECT_TRUE(MayOverlap(even, strided(1, {{kLong, 3}})));
  const View left = strided(0, {{kLong, 393}, {1, 1}}), right = strided(1, {{kLong, 393}, {392, 1}});
  EXPECT_FALSE(MayOverlap(left, right));
  EXPECT_TRUE(MayOverlap(right, strided(392, {{kLong, 393 * 2}})));
  EXPECT_FALSE(MayOverlap(right, strided(393 * 5, {{kLong, 393 * 2}})));
  // No sum of few strides that leave 1 leaves 500 when divided by 1000.
  std::vector<IndexDim> leave_1, leave_0;
  for (int64_t i = 0; i < 7; ++i) {
    leave_1.push_back({2, 1'000'001 + 17'000 * i});
    leave_0.push_back({1000, 1'200'000 + 59'000 * i});
  }
  EXPECT_TRUE(MayOverlap(strided(0, leave_1), strided(-3'000'000'500, leave_0)));
}

TEST(ViewTest, MergingTransposedHeadsSplitsBackToPlainStrides) {
  // [s, h, d] -> [h, s, d] -> merged [h * s, d] -> [h, s, d]: the merge leaves no trace.
  const int perm[] = {1, 0, 2};
  View heads = Transpose(DenseView(Shape({5, 4, 8})), perm);
  View merged = Reshape(heads, Shape({20, 8}));
  EXPECT_FALSE(merged.affine());
  EXPECT_TRUE(Reshape(merged, Shape({4, 5, 8})) == heads);
}

TEST(ViewTest, RefinementSplitsTheMergedLoop) {
  const int perm[] = {1, 0};
  View merged = Reshape(Transpose(DenseView(Shape({3, 4})), perm), Shape({12}));
  LoopNest nest(merged.shape());
  ASSERT_TRUE(RefineLoops(merged, &nest));
  EXPECT_EQ(nest.extents(), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(MapOver(merged, nest)->strides, (std::vector<int64_t>{1, 4}));
}

TEST(ViewTest, EmptyTensorsHaveViews) {
  View view = Slice(DenseView(Shape({3, 4})), 0, 0, 1, 0);
  EXPECT_EQ(Reshape(view, Shape({4, 0})).shape().elements(), 0);
  EXPECT_TRUE(ByWalk(view).empty());
}

TEST(ViewTest, AnAxisThatIsFoundShowsEachPlaceAtItsOwn) {
  Rng rng(9);
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    const Shape base = RandomShape(rng);
    View view = DenseView(base);
    Explicit e{base, std::vector<int64_t>(static_cast<size_t>(base.elements()))};
    std::iota(e.elements.begin(), e.elements.end(), 0);
    for (int64_t moves = Pick(rng, 1, 4); moves > 0; --moves) RandomMove(rng, &view, &e);
    for (int axis = 0; axis < base.rank; ++axis) {
      const int d = AxisThrough(view, base, axis);
      if (d < 0) continue;
      ++found;
      ASSERT_EQ(e.shape[d], base[axis]);
      int64_t stride = 1, run = 1;
      for (int k = base.rank - 1; k > axis; --k) stride *= base[k];
      for (int k = e.shape.rank - 1; k > d; --k) run *= e.shape[k];
      for (size_t i = 0; i < e.elements.size(); ++i) {
        ASSERT_EQ(e.elements[i] / stride % base[axis], static_cast<int64_t>(i) / run % e.shape[d])
            << ToString(view) << " of " << axis;
      }
    }
  }
  EXPECT_GT(found, 1000);
}

TEST(ViewTest, AnAxisIsFoundWhereAllItsPlacesAreShownInOrder) {
  const Shape base({2, 3, 7, 4});
  const View dense = DenseView(base);
  EXPECT_EQ(AxisThrough(dense, base, 2), 2);
  const int perm[] = {0, 2, 3, 1};
  EXPECT_EQ(AxisThrough(Transpose(dense, perm), base, 2), 1);
  // Each head twice, merged into one dim.
  const View repeated = Expand(Reshape(dense, {2, 3, 1, 7, 4}), {2, 3, 2, 7, 4});
  EXPECT_EQ(AxisThrough(Reshape(repeated, {2, 6, 7, 4}), base, 2), 2);
  EXPECT_EQ(AxisThrough(Reshape(dense, {6, 28}), base, 2), -1);
  EXPECT_EQ(AxisThrough(Slice(dense, 2, 1, 1, 6), base, 2), -1);
  EXPECT_EQ(AxisThrough(Slice(dense, 2, 6, -1, 7), base, 2), -1);
  EXPECT_EQ(AxisThrough(Slice(dense, 3, 1, 1, 2), base, 2), 2);
  EXPECT_EQ(AxisThrough(Expand(Slice(dense, 2, 0, 1, 1), base), base, 2), -1);
}

TEST(ViewTest, ExtentsOfOneDoNotTellViewsApart) {
  View a = Slice(DenseView(Shape({3, 4})), 0, 0, 1, 1);
  View b = Slice(DenseView(Shape({3, 4})), 0, 0, 2, 1);
  EXPECT_TRUE(a == b);
}

}  // namespace
}  // namespace rondo::ir
