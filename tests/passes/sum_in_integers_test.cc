// sum_in_integers: which scatters become sums of integers, and that those are rounded once, whatever they
// add.
#include <limits>

#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;

constexpr int64_t kUpdates = 60000, kPlaces = 300;
constexpr double kInf = std::numeric_limits<double>::infinity();

// y[index[i], :] = data + sum of x[i, :]
NodeId Scatter(SmallGraph* s, int64_t updates, int64_t places, int64_t row, DType type = DType::kF32,
               ir::ScatterCombine combine = ir::ScatterCombine::kAdd) {
  const NodeId data = s->In("data", Shape({places, row}), type), x = s->In("x", Shape({updates, row}), type),
               index = s->In("index", Shape({updates, 1}), DType::kI64);
  ir::IndexedAttrs attrs;
  ir::ViewStep step;
  step.shape = Shape({updates, row});
  step.strides[1] = 1;
  attrs.map = ir::View{{step}};
  attrs.dims = {{row, places, true}};
  attrs.combine = combine;
  const NodeId y = s->b.IndexedWrite(data, x, {index}, attrs);
  s->Out("y", y);
  return y;
}

int64_t ChangesOf(int64_t updates, int64_t places, int64_t row, DType type = DType::kF32,
                  ir::ScatterCombine combine = ir::ScatterCombine::kAdd) {
  SmallGraph s;
  Scatter(&s, updates, places, row, type, combine);
  if (type == DType::kF32) return ExpectSame(&s, SumInIntegers, {}, places - 1).changes;
  return SumInIntegers(&s.g, {})->changes;
}

TEST(SumInIntegersTest, ManyUpdatesOfShortRows) {
  EXPECT_EQ(ChangesOf(60000, 1000, 1), 1);
  EXPECT_EQ(ChangesOf(100000, 50, 3), 1);
  EXPECT_EQ(ChangesOf(60000, 1000, 1, DType::kF16), 1);
  EXPECT_EQ(ChangesOf(10000, 1000, 8, DType::kF16), 1);
  EXPECT_EQ(ChangesOf(4000, 1000, 1), 0);    // few
  EXPECT_EQ(ChangesOf(60000, 1000, 32), 0);  // rows that move together
  EXPECT_EQ(ChangesOf(60000, 1000, 64, DType::kF16), 0);
  EXPECT_EQ(ChangesOf(60000, 1000000, 1), 0);  // more places than updates
  EXPECT_EQ(ChangesOf(60000, 1000, 1, DType::kF64), 0);
  EXPECT_EQ(ChangesOf(60000, 1000, 1, DType::kF32, ir::ScatterCombine::kMax), 0);
}

// What the rewritten graph makes of data and updates, of which number i goes to place index[i].
std::vector<float> Summed(DType type, const std::vector<double>& data, const std::vector<double>& x,
                          const std::vector<int64_t>& index) {
  SmallGraph s;
  Scatter(&s, kUpdates, kPlaces, 1, type);
  ir::Values in;
  const auto give = [&](const auto& values, DType dtype, const Shape& shape) {
    std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(ByteSize(dtype)));
    for (size_t i = 0; i < values.size(); ++i)
      scalar::Store(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
    in.push_back(ir::ConstantData::Own(dtype, shape, bytes));
  };
  give(data, type, Shape({kPlaces, 1}));
  give(x, type, Shape({kUpdates, 1}));
  give(index, DType::kI64, Shape({kUpdates, 1}));
  EXPECT_EQ(SumInIntegers(&s.g, {})->changes, 1);
  const Result<ir::Values> out = ir::EvaluateGraph(s.g, in);
  EXPECT_TRUE(out.ok()) << out.status().message();
  std::vector<float> y;
  for (int64_t i = 0; i < kPlaces; ++i) y.push_back(scalar::Load<float>(type, (*out)[0]->bytes.data(), i));
  return y;
}

// Of every type: normal numbers; of f32 also numbers and sums of all magnitudes, subnormal ones among them.
TEST(SumInIntegersTest, SumsAreRoundedOnce) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  struct Kind {
    DType type;
    double least, most;  // exponents of updates
    bool by_place;       // those of a place have the same
  };
  for (const Kind& kind :
       {Kind{DType::kF32, 0, 0, false}, Kind{DType::kF16, 0, 0, false}, Kind{DType::kBF16, 0, 0, false},
        Kind{DType::kF16, -24, 14, true}, Kind{DType::kF32, -20, 0, false}, Kind{DType::kF32, -149, 90, true},
        Kind{DType::kF32, -149, -130, false}}) {
    std::vector<double> data(kPlaces), x(kUpdates), exact(kPlaces), sizes(kPlaces);
    std::vector<int64_t> index(kUpdates);
    const auto rounded = [&](double value) { return scalar::RoundTo(static_cast<float>(value), kind.type); };
    const auto exponent = [&] {
      return std::uniform_real_distribution<double>(kind.least, kind.most)(random);
    };
    std::vector<double> exponents(kPlaces);
    for (size_t p = 0; p < data.size(); ++p) {
      exponents[p] = std::floor(exponent());
      exact[p] = data[p] = rounded(std::ldexp(normal(random), static_cast<int>(exponents[p])));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const auto p = static_cast<size_t>(index[i] = static_cast<int64_t>(random() % kPlaces));
      const double e = kind.by_place ? exponents[p] : std::floor(exponent());
      x[i] = rounded(std::ldexp(normal(random), static_cast<int>(e)));
      exact[p] += x[i];  // errs by 2^-53 of partial sums
      sizes[p] = std::max(sizes[p], std::abs(x[i]));
    }
    const std::vector<float> y = Summed(kind.type, data, x, index);
    for (size_t p = 0; p < y.size(); ++p) {
      const float near = rounded(exact[p]),
                  gap = std::abs(near) * 0x1p-30f + static_cast<float>(sizes[p]) * 0x1p-32f;
      EXPECT_TRUE(y[p] == rounded(exact[p] - gap) || y[p] == near || y[p] == rounded(exact[p] + gap))
          << y[p] << " instead of " << near << " at " << p;
    }
  }
}

// A sum's large parts cancel exactly; what its places have of small numbers is left.
TEST(SumInIntegersTest, LargeNumbersCancel) {
  std::vector<double> data(kPlaces, 0.5), x(kUpdates);
  std::vector<int64_t> index(kUpdates);
  for (size_t i = 0; i < x.size(); ++i) {
    index[i] = static_cast<int64_t>(i % kPlaces);
    const size_t turn = i / kPlaces;  // of 200
    x[i] =
        turn < 100 ? 3e9 + 256 * static_cast<double>(turn) : -(3e9 + 256 * static_cast<double>(199 - turn));
    x[i] = static_cast<float>(x[i]);
  }
  EXPECT_EQ(Summed(DType::kF32, data, x, index), std::vector<float>(kPlaces, 0.5f));
}

struct Place {
  double data;
  std::vector<double> updates;
  float sum;
};

// The last of 300 places also takes all updates beyond those.
void ExpectSums(DType type, const std::vector<Place>& places) {
  std::vector<double> data(kPlaces, 1), x(kUpdates, 0.5);
  std::vector<int64_t> index(kUpdates, kPlaces - 1);
  size_t used = 0;
  for (size_t p = 0; p < places.size(); ++p) {
    data[p] = places[p].data;
    for (double update : places[p].updates) {
      index[used] = static_cast<int64_t>(p);
      x[used++] = update;
    }
  }
  const std::vector<float> y = Summed(type, data, x, index);
  for (size_t p = 0; p < places.size(); ++p) {
    if (places[p].sum != places[p].sum) {
      EXPECT_NE(y[p], y[p]) << p;
    } else {
      EXPECT_EQ(y[p], places[p].sum) << p;
      EXPECT_EQ(std::signbit(y[p]), std::signbit(places[p].sum)) << p;
    }
  }
  const float all = 1 + 0.5f * static_cast<float>(kUpdates - static_cast<int64_t>(used));
  EXPECT_EQ(y.back(), scalar::RoundTo(all, type));
}

TEST(SumInIntegersTest, SpecialNumbersAreThoseOfASum) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::vector<Place> places = {
      {1, {kInf, 2, -3e4}, inf}, {1, {-kInf, 2, -kInf}, -inf}, {1, {kInf, -kInf}, nan}, {1, {nan, 5}, nan},
      {-kInf, {kInf}, nan},      {kInf, {1, -7}, inf},         {kInf, {}, inf},         {nan, {}, nan},
      {-0.0, {}, -0.0f},         {-0.0, {-0.0, -0.0}, -0.0f},  {0, {-0.0}, 0}};
  std::vector<Place> half = places, single = places;
  half.insert(half.end(), {{100, {65504, 65504}, inf},
                           {0, {65504, 65504, -65504}, 65504},
                           {-65504, {-65504, 65504}, -65504},
                           {0, {0x1p-24, 0x1p-24}, 0x1p-23f}});
  ExpectSums(DType::kF16, half);
  single.insert(single.end(), {{-0.0, {1, -1}, 0},
                               {1e30, {3e38, 3e38}, inf},
                               {0, {3e38, 3e38, -3e38}, 3e38f},
                               {0, {1e-45, 1e-45}, 2.8e-45f}});
  ExpectSums(DType::kF32, single);
}

}  // namespace
}  // namespace rondo::passes
