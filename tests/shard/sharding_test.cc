// Shardings and the index maps of shares, compared with explicit index arithmetic.
#include "compiler/shard/sharding.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/ir/walk.h"
#include "compiler/shard/cut_weight.h"
#include "compiler/shard/local_view.h"

namespace rondo::shard {
namespace {

using Rng = std::mt19937;

int64_t Pick(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

// The index in the whole of element `i` of rank `r`'s share.
int64_t WholeElement(int64_t i, int64_t run, int64_t devices, int64_t r) {
  return i / run * run * devices + r * run + i % run;
}

TEST(ShardingTest, NamesTheDimThatASplitDivides) {
  const Shape shape({4, 1, 6, 10});
  EXPECT_EQ(SplitOf(shape, 2, 3, 2).run, 30);
  EXPECT_EQ(SplitOf(shape, 2, 1, 2).run, 10);
  EXPECT_EQ(SplitOf(shape, 2, 2, 2), kWhole);  // 6 does not divide into pairs for 2 devices
  EXPECT_EQ(SplitOf(shape, 1, 1, 2), kWhole);
  EXPECT_EQ(DimOf(shape, Sharding::Split(30), 2).dim, 2);
  EXPECT_EQ(DimOf(shape, Sharding::Split(30), 2).inner, 3);
  EXPECT_EQ(DimOf(shape, Sharding::Split(60), 2).dim, 0);
  EXPECT_EQ(DimOf(shape, Sharding::Split(20), 2).dim, -1);
  EXPECT_EQ(DimOf(shape, Sharding::Split(7), 2).dim, -1);
  EXPECT_EQ(LocalShape(shape, Sharding::Split(30), 2), Shape({4, 1, 3, 10}));
  EXPECT_EQ(LocalShape(shape, kWhole, 2), shape);
}

// Applies one movement to `view`: a permutation, a merge, half of a dim, a repeated dim or a split dim.
ir::View Moved(Rng& rng, const ir::View& view, int64_t devices) {
  const Shape s = view.shape();
  const int axis = static_cast<int>(Pick(rng, 0, s.rank - 1));
  // `s` with a new dim of `extent` before `axis`, which gets the extent `rest`.
  const auto with = [&](int64_t extent, int64_t rest) {
    Shape more;
    for (int d = 0; d < s.rank; ++d) {
      if (d == axis) more.dims[more.rank++] = extent;
      more.dims[more.rank++] = d == axis ? rest : s[d];
    }
    return more;
  };
  switch (Pick(rng, 0, 4)) {
    case 0: {
      std::vector<int> order(static_cast<size_t>(s.rank));
      for (int d = 0; d < s.rank; ++d) order[static_cast<size_t>(d)] = d;
      std::shuffle(order.begin(), order.end(), rng);
      return ir::Transpose(view, order);
    }
    case 1: return ir::Reshape(view, Shape({s.elements()}));
    case 2:
      if (s[axis] % 2 != 0) return view;
      return ir::Slice(view, axis, Pick(rng, 0, 1) * s[axis] / 2, 1, s[axis] / 2);
    case 3:
      if (s.rank == 5) return view;
      return ir::Expand(ir::Reshape(view, with(1, s[axis])), with(2, s[axis]));
    default:
      if (s[axis] % devices != 0 || s.rank == 5) return view;
      return ir::Reshape(view, with(devices, s[axis] / devices));
  }
}

// Random chains of movements over shares of the storage, some of which do not suit the view.
TEST(ShardingTest, AShareOfAViewShowsTheSameOfTheShareOfItsStorage) {
  int found = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    const int64_t devices = Pick(rng, 2, 3);
    const Shape shape({devices * Pick(rng, 1, 2), devices * Pick(rng, 1, 3), Pick(rng, 1, 4)});
    ir::View view = ir::DenseView(shape);
    for (int64_t moves = Pick(rng, 0, 3); moves > 0; --moves) view = Moved(rng, view, devices);
    const int64_t elements = shape.elements();
    const int dim = static_cast<int>(Pick(rng, 0, 1));
    const Sharding from = SplitOf(shape, dim, shape[dim] / devices, devices);
    const Sharding to = ShardingShown(view, elements, from, devices);
    if (!to.is_split()) continue;
    ++found;
    EXPECT_TRUE(ShardingBehind(view, elements, to, devices).is_split()) << "seed " << seed;
    const std::vector<int64_t> whole = ir::ResolveAll(view);
    for (int64_t r = 0; r < devices; ++r) {
      const auto local = LocalView(view, elements, from, to, devices, r);
      ASSERT_TRUE(local.has_value());
      EXPECT_EQ(local->shape(), LocalShape(view.shape(), to, devices));
      const std::vector<int64_t> share = ir::ResolveAll(*local);
      for (size_t i = 0; i < share.size(); ++i) {
        const int64_t at = WholeElement(static_cast<int64_t>(i), to.run, devices, r);
        ASSERT_EQ(WholeElement(share[i], from.run, devices, r), whole[static_cast<size_t>(at)])
            << "seed " << seed << " " << ir::ToString(view);
      }
    }
  }
  EXPECT_GT(found, 500);
}

TEST(ShardingTest, AShareOfAWholeViewIsAView) {
  const ir::View view = ir::Transpose(ir::DenseView({4, 6}), std::vector<int>{1, 0});
  const auto local = LocalView(view, 24, kWhole, Sharding::Split(12), 2, 1);
  ASSERT_TRUE(local.has_value());
  EXPECT_EQ(ir::ResolveAll(*local), (std::vector<int64_t>{3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23}));
}

TEST(ShardingTest, SharesOfSyntheticWeightsAreMadeOfTheirElements) {
  ir::ConstantData data;
  data.shape = {6, 8};
  data.synthetic = true;
  data.synthetic_key = 77;
  data.synthetic_scale = 1;
  const auto whole = std::make_shared<const ir::ConstantData>(data);
  const auto bytes = ir::WithBytes(whole);
  for (Sharding sharding :
       {Sharding::Split(4), Sharding::Split(24), Sharding::Split(2), Sharding::Split(8)}) {
    for (int64_t r = 0; r < 2; ++r) {
      const auto share = ShareOf(whole, sharding, 2, r);
      EXPECT_TRUE(share->synthetic) << sharding.run;
      const auto made = ir::WithBytes(share), expected = ShareOf(bytes, sharding, 2, r);
      EXPECT_EQ(share->shape, expected->shape);
      EXPECT_TRUE(
          std::equal(made->bytes.begin(), made->bytes.end(), expected->bytes.begin(), expected->bytes.end()))
          << sharding.run << " rank " << r;
      // And a share of a share.
      const auto again = ir::WithBytes(ShareOf(share, Sharding::Split(2), 2, 1)),
                 want = ShareOf(expected, Sharding::Split(2), 2, 1);
      EXPECT_TRUE(
          std::equal(again->bytes.begin(), again->bytes.end(), want->bytes.begin(), want->bytes.end()))
          << sharding.run << " rank " << r;
    }
  }
}

}  // namespace
}  // namespace rondo::shard
