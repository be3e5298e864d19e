// Packed weights: the error of rounding, the layout of codes, and that readers get the same numbers.
#include "compiler/ir/packed_parts.h"
#include "compiler/quantise/quantise.h"
#include "core/synthetic.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;

NodeId Weight(SmallGraph* s, const Shape& shape, DType dtype = DType::kF32) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(std::sin(static_cast<double>(i) * 0.7));
  return s->b.Floats(dtype, shape, values);
}

PassOptions Bits(PackedType type, int64_t block) {
  PassOptions options;
  options.quantize = type;
  options.quantize_block = block;
  options.target = HostTraits();
  return options;
}

std::vector<float> Output(const SmallGraph& s, size_t output = 0) {
  const Result<ir::Values> values = ir::EvaluateGraph(s.g, RandomInputs(s.g));
  EXPECT_TRUE(values.ok()) << values.status().message();
  std::vector<float> out;
  const ir::ConstantData& data = *(*values)[output];
  for (int64_t i = 0; i < data.shape.elements(); ++i)
    out.push_back(scalar::Load<float>(data.dtype, data.bytes.data(), i));
  return out;
}

void ExpectAlike(const std::vector<float>& x, const std::vector<float>& y) {
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4 * (1 + std::abs(x[i]))) << i;
}

// A matmul of `rows` rows by a weight [k, n], or by a transposed [n, k].
SmallGraph Product(int64_t rows, int64_t k, int64_t n, bool transposed, DType dtype = DType::kF32) {
  SmallGraph s;
  const NodeId x = s.In("x", {rows, k}, dtype);
  const NodeId w = transposed ? s.b.Transpose(Weight(&s, {n, k}, dtype), {1, 0}) : Weight(&s, {k, n}, dtype);
  s.Out("y", s.b.MatMul(x, w));
  return s;
}

const ir::PackedAttrs* PackedIn(const ir::Graph& g) {
  for (NodeId id = 0; id < g.size(); ++id) {
    if (!g.node(id).dead && std::holds_alternative<ir::PackedAttrs>(g.node(id).attrs))
      return &g.node(id).As<ir::PackedAttrs>();
  }
  return nullptr;
}

constexpr PackedType kTypes[] = {PackedType::kU2,   PackedType::kU4,   PackedType::kU8,
                                 PackedType::kE4M3, PackedType::kE5M2, PackedType::kE2M1};

TEST(PackedWeights, EveryCodeHasAPlaceOfItsOwn) {
  for (int bits : {2, 4, 8}) {
    const PackedShape shape = {37, 300, 32, bits};
    std::vector<int> seen(static_cast<size_t>(shape.bytes() * 8));
    for (int64_t n = 0; n < shape.n; ++n) {
      for (int64_t k = 0; k < shape.k; ++k) {
        for (int b = 0; b < bits; ++b) ASSERT_EQ(seen.at(static_cast<size_t>(shape.BitAt(n, k) + b))++, 0);
      }
    }
    EXPECT_GE((shape.n - 1) * shape.Stride() + shape.k, shape.bytes());
    EXPECT_GE((shape.n - 1) * shape.ScaleStride() + 1, shape.scales());
  }
}

TEST(PackedWeights, TheHostReadsCodesAndOthersNumbersAndBothAreTheSame) {
  for (PackedType type : kTypes) {
    for (const bool transposed : {false, true}) {
      for (int64_t rows : {3, 80}) {
        SmallGraph s = Product(rows, 208, 40, transposed);
        PassOptions options = Bits(type, 32);
        options.target = rows == 3 ? HostTraits() : GpuTraits();  // GPUs have no packed kernels for f32
        ASSERT_EQ(QuantizeWeights(&s.g, options)->changes, 1);
        const std::vector<float> rounded = Output(s);
        ASSERT_TRUE(PackWeights(&s.g, options).ok());
        EXPECT_EQ(ir::Validate(s.g), "") << ir::Dump(s.g);
        EXPECT_EQ(PackedIn(s.g) != nullptr, rows == 3) << ir::Dump(s.g);
        ExpectAlike(Output(s), rounded);
      }
    }
  }
}

TEST(PackedWeights, OnTheHostAnyNumberOfRowsReadsCodes) {
  for (int64_t rows : {1, 17, 300}) {
    SmallGraph s = Product(rows, 208, 40, false);
    const PassOptions options = Bits(PackedType::kU8, 32);
    ASSERT_EQ(QuantizeWeights(&s.g, options)->changes, 1);
    ASSERT_TRUE(PackWeights(&s.g, options).ok());
    EXPECT_NE(PackedIn(s.g), nullptr) << ir::Dump(s.g);
  }
}

// A weight [n, k] of E4M3 with a scale for each block of 64, or with `one` a single scale.
std::shared_ptr<const ir::ConstantData> Fp8(int64_t n, int64_t k, bool one) {
  const int64_t block = one ? k : 64;
  std::vector<uint8_t> codes;
  for (int64_t i = 0; i < n * k; ++i) codes.push_back(static_cast<uint8_t>(i * 37 % 120 + i % 2 * 128));
  std::vector<float> scales;
  for (int64_t i = 0; i < n * (k / block); ++i)
    scales.push_back(one ? 0.5f : 0.25f + static_cast<float>(i % 7) / 8);
  const auto matrix = ir::Pack(PackedType::kE4M3, n, k, block, codes, scales, {}, 0, DType::kF32);
  return ir::PackedConstant(matrix, DType::kF32, "w");
}

TEST(PackedWeights, ScalesOfManyRowsLetMatmulsAddUpAlongEitherDim) {
  for (const int64_t block : {64, 32}) {
    SmallGraph s;
    const NodeId x = s.In("x", {3, 64});
    NodeId w = s.b.Constant(Fp8(64, 96, true));  // packed along the columns
    if (block < 64) {
      NodeId tiles = s.b.Reshape(w, {2, 32, 3, 32});
      w = s.b.Reshape(s.b.Mul(tiles, Weight(&s, {2, 1, 3, 1})), {64, 96});
    }
    s.Out("y", s.b.MatMul(x, w));
    const std::vector<float> before = Output(s);
    EXPECT_EQ(FoldWeightScales(&s.g, {})->changes, block < 64);
    ASSERT_TRUE(PackWeights(&s.g, Bits(PackedType::kNone, 0)).ok());
    ASSERT_NE(PackedIn(s.g), nullptr) << ir::Dump(s.g);
    EXPECT_EQ(PackedIn(s.g)->weights.block, block);
    ExpectAlike(Output(s), before);
  }
}

// A factor along k: a weight with one scale is then packed along n instead.
TEST(PackedWeights, FactorsAlongTheColumnsTurnAWeightOfOneScale) {
  SmallGraph s;
  const NodeId x = s.In("x", {3, 64});
  s.Out("y", s.b.MatMul(x, s.b.Mul(s.b.Constant(Fp8(64, 96, true)), Weight(&s, {1, 96}))));
  const std::vector<float> before = Output(s);
  EXPECT_EQ(FoldWeightScales(&s.g, {})->changes, 1);
  ASSERT_TRUE(PackWeights(&s.g, Bits(PackedType::kNone, 0)).ok());
  ASSERT_NE(PackedIn(s.g), nullptr) << ir::Dump(s.g);
  ExpectAlike(Output(s), before);
}

// Factors for rows, for blocks of rows and columns, and for the whole weight.
TEST(PackedWeights, WhatMultipliesAWeightIsPartOfItsScales) {
  constexpr int64_t kN = 64, kK = 128;
  struct Case {
    Shape shown, scales;
    int64_t block;
  };
  for (const bool one : {true, false}) {
    for (const Case& c : {Case{{kN, kK}, {kN, 1}, 64}, Case{{kN, kK}, {1, 1}, 64},
                          Case{{2, 32, 4, 32}, {2, 1, 4, 1}, 32}, Case{{2, 32, 1, 128}, {2, 1, 1, 1}, 64}}) {
      SmallGraph s;
      const NodeId x = s.In("x", {3, kK});
      const NodeId shown = s.b.Reshape(s.b.Constant(Fp8(kN, kK, one)), c.shown);
      const NodeId w = s.b.Reshape(s.b.Mul(shown, Weight(&s, c.scales)), {kN, kK});
      s.Out("y", s.b.MatMul(x, s.b.Transpose(w, {1, 0})));
      const std::vector<float> before = Output(s);
      EXPECT_EQ(FoldWeightScales(&s.g, {})->changes, 1);
      ASSERT_TRUE(PackWeights(&s.g, Bits(PackedType::kNone, 0)).ok());
      ASSERT_NE(PackedIn(s.g), nullptr) << ir::Dump(s.g);
      EXPECT_EQ(PackedIn(s.g)->weights.block, one && c.block == 64 ? kK : c.block);
      ExpectAlike(Output(s), before);
    }
  }
}

TEST(PackedWeights, ScalesWithinABlockOrOfSharedWeightsStayFactors) {
  for (const bool shared : {true, false}) {
    SmallGraph s;
    const NodeId x = s.In("x", {3, 128}), w = s.b.Constant(Fp8(64, 128, false));
    const NodeId scaled = s.b.Mul(w, Weight(&s, shared ? Shape{64, 1} : Shape{1, 128}));
    s.Out("y", s.b.MatMul(x, s.b.Transpose(scaled, {1, 0})));
    if (shared) s.Out("z", s.b.MatMul(x, s.b.Transpose(w, {1, 0})));
    EXPECT_EQ(FoldWeightScales(&s.g, {})->changes, 0);
  }
}

// GPUs with wgmma read codes for any number of rows, others for up to 16. K must be a multiple of 8.
TEST(PackedWeights, ManyRowsReadCodesWhereEveryGpuHasAKernelForThem) {
  const struct {
    PackedType type;
    int64_t rows, k;
    bool wgmma, packed;
  } cases[] = {{PackedType::kU4, 80, 256, true, true},  {PackedType::kU4, 80, 256, false, false},
               {PackedType::kU4, 80, 204, true, false}, {PackedType::kU4, 16, 208, false, true},
               {PackedType::kU2, 17, 208, true, true},  {PackedType::kE4M3, 4000, 200, true, true}};
  for (const auto& c : cases) {
    SmallGraph s = Product(c.rows, c.k, 64, false, DType::kF16);
    PassOptions options = Bits(c.type, 32);
    options.target = GpuTraits();
    options.target.wgmma = c.wgmma;
    ASSERT_EQ(QuantizeWeights(&s.g, options)->changes, 1);
    ASSERT_TRUE(PackWeights(&s.g, options).ok());
    EXPECT_EQ(PackedIn(s.g) != nullptr, c.packed) << c.rows << " rows, K " << c.k << ", wgmma " << c.wgmma;
  }
}

// The error of the only weight.
double ErrorIn(const PassResult& result) {
  double error = -1;
  EXPECT_EQ(std::sscanf(result.text.c_str(), "%*[^\n]\n%*[^]]]\tf32\t%lf", &error), 1) << result.text;
  return error;
}

TEST(PackedWeights, RoundingLosesAsMuchAsItsBitsDo) {
  const struct {
    PackedType type;
    int64_t block;
    double least, most;
  } cases[] = {{PackedType::kU8, 0, 0.0005, 0.01}, {PackedType::kU4, 32, 0.02, 0.12},
               {PackedType::kU4, 0, 0.02, 0.13},   {PackedType::kE4M3, 0, 0.005, 0.04},
               {PackedType::kE5M2, 0, 0.01, 0.08}, {PackedType::kE2M1, 16, 0.02, 0.16},
               {PackedType::kU2, 32, 0.1, 0.6}};
  for (const auto& c : cases) {
    SmallGraph s = Product(1, 256, 64, false);
    const std::vector<float> exact = Output(s);
    const Result<PassResult> result = QuantizeWeights(&s.g, Bits(c.type, c.block));
    ASSERT_TRUE(result.ok());
    const double error = ErrorIn(*result);
    EXPECT_GT(error, c.least) << Name(c.type) << result->text;
    EXPECT_LT(error, c.most) << Name(c.type) << result->text;
    EXPECT_NE(Output(s), exact) << Name(c.type);
  }
}

TEST(PackedWeights, NumbersThatTheBitsHoldStayAsTheyAre) {
  SmallGraph s;
  std::vector<double> values;
  for (int64_t i = 0; i < 64 * 64; ++i) values.push_back(i % 64 < 32 ? static_cast<double>(i % 16 - 8) : 0);
  const NodeId w = s.b.Transpose(s.b.Floats(DType::kF32, {64, 64}, values), {1, 0});
  s.Out("y", s.b.MatMul(s.In("x", {2, 64}), w));
  const std::vector<float> exact = Output(s);
  for (PackedType type : {PackedType::kU4, PackedType::kU8}) {
    SmallGraph copy = s;
    const Result<PassResult> result = QuantizeWeights(&copy.g, Bits(type, 32));
    EXPECT_EQ(ErrorIn(*result), 0);
    ExpectAlike(Output(copy), exact);
  }
}

TEST(PackedWeights, WeightsOfZerosLoseNothing) {
  SmallGraph s;
  const NodeId w = s.b.Floats(DType::kF32, {64, 64}, std::vector<double>(64 * 64, 0));
  s.Out("y", s.b.MatMul(s.In("x", {2, 64}), w));
  const Result<PassResult> result = QuantizeWeights(&s.g, Bits(PackedType::kU8, 32));
  ASSERT_EQ(result->changes, 1);
  EXPECT_EQ(ErrorIn(*result), 0);
}

TEST(PackedWeights, WeightsThatSomethingElseReadsAreLeftAlone) {
  SmallGraph s;
  const NodeId w = Weight(&s, {512, 160}), x = s.In("x", {2, 512});  // too large to be folded
  s.Out("y", s.b.MatMul(x, w));
  s.Out("sum", s.b.Reduce(ir::ReduceKind::kSum, w, {0}, false));
  EXPECT_EQ(QuantizeWeights(&s.g, Bits(PackedType::kU4, 32))->changes, 0);
  SmallGraph bad = Product(1, 128, 64, false);  // NaN stays NaN
  const NodeId inf = bad.b.Floats(DType::kF32, {128, 64}, std::vector<double>(128 * 64, INFINITY));
  bad.Out("z", bad.b.MatMul(bad.In("v", {1, 128}), inf));
  const Result<PassResult> one = QuantizeWeights(&bad.g, Bits(PackedType::kU4, 32));
  EXPECT_EQ(one->changes, 1);
  EXPECT_NE(one->text.find("stays as it is: it has numbers that are not finite"), std::string::npos)
      << one->text;
  EXPECT_LT(one->text.find("not finite"),
            one->text.find('\n'));  // before the table of rounded weights
}

TEST(PackedWeights, WeightsOfFewerColumnsOrRowsThanATileAreLeftAlone) {
  for (const auto& [k, n, changes] : {std::tuple(512, 15, 0), {31, 256, 0}, {512, 16, 1}, {32, 256, 1}}) {
    SmallGraph s = Product(1, k, n, false);
    EXPECT_EQ(QuantizeWeights(&s.g, Bits(PackedType::kU8, 0))->changes, changes) << k << " x " << n;
  }
}

// A weight whose numbers no scale can represent is named, with that reason.
TEST(PackedWeights, WeightsThatStayBecauseOfTheirNumbersAreNamed) {
  for (const auto& [wrong, weights, rest] :
       {std::tuple(static_cast<double>(INFINITY), 5, "not finite; and 2 more"),
        {static_cast<double>(NAN), 4, "not finite; and 1 more"},
        {static_cast<double>(NAN), 3, ""}}) {
    SmallGraph s;
    NodeId y = s.In("x", {2, 64});
    for (int i = 0; i < weights; ++i) {
      std::vector<double> values(64 * 64, 0.5);
      values[static_cast<size_t>(i) + 70] = wrong;
      y = s.b.MatMul(y, s.b.Floats(DType::kF32, {64, 64}, values));
    }
    s.Out("y", y);
    const Result<PassResult> result = QuantizeWeights(&s.g, Bits(PackedType::kU8, 32));
    EXPECT_EQ(result->changes, 0);
    EXPECT_EQ(result->text.find("no weight rounded to int8; \""), 0u) << result->text;
    EXPECT_NE(result->text.find(rest), std::string::npos) << result->text;
    EXPECT_EQ(result->text.find(" more") == std::string::npos, weights == 3) << result->text;
    EXPECT_EQ(result->text.find("none is a matrix"), std::string::npos) << result->text;
  }
}

TEST(PackedWeights, WhatIsSaidNamesTheGreatestErrorOrWhyThereIsNone) {
  SmallGraph s = Product(1, 256, 64, false);
  const std::string text = QuantizeWeights(&s.g, Bits(PackedType::kU4, 32))->text;
  EXPECT_NE(text.find("1 weights rounded to int4"), text.npos) << text;
  EXPECT_NE(text.find("relative RMS error 0.0"), text.npos) << text;
  EXPECT_LT(text.find("at most"), text.find('\n')) << text;
  SmallGraph few = Product(1, 32, 16, false);
  const Result<PassResult> none = QuantizeWeights(&few.g, Bits(PackedType::kU4, 32));
  EXPECT_EQ(none->changes, 0);
  EXPECT_NE(none->text.find("no weight rounded to int4: none is a matrix of 4096 numbers"), std::string::npos)
      << none->text;
}

// Their scales would underflow the scale's type.
TEST(PackedWeights, NumbersOfWhichNothingWouldBeLeftStayAsTheyAre) {
  SmallGraph s;
  std::vector<double> values(64 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1e-42 * static_cast<double>(i % 7);
  s.Out("y", s.b.MatMul(s.In("x", {2, 64}), s.b.Floats(DType::kF32, {64, 64}, values)));
  const Result<PassResult> result = QuantizeWeights(&s.g, Bits(PackedType::kU4, 32));
  EXPECT_EQ(result->changes, 0);
  EXPECT_NE(result->text.find("so small that nothing would be left"), std::string::npos) << result->text;
}

TEST(PackedWeights, ColumnsThatAreReadByThemselvesAreTilesOfTheWhole) {
  SmallGraph s;
  const NodeId w = Weight(&s, {128, 96}), x = s.In("x", {1, 128});
  s.Out("a", s.b.MatMul(x, s.b.Slice(w, 1, 0, 1, 32)));
  s.Out("b", s.b.MatMul(x, s.b.Slice(w, 1, 32, 1, 64)));
  ASSERT_EQ(QuantizeWeights(&s.g, Bits(PackedType::kU4, 32))->changes, 1);
  const std::vector<float> a = Output(s, 0), b = Output(s, 1);
  const Result<PassResult> result = PackWeights(&s.g, Bits(PackedType::kU4, 32));
  EXPECT_EQ(result->changes, 2);
  EXPECT_EQ(result->text.find("unpacked"), std::string::npos) << result->text;
  ExpectAlike(Output(s, 0), a);
  ExpectAlike(Output(s, 1), b);
}

// An embedding unpacks only the rows that it takes, from a matrix packed along either dim. Matmuls read the
// same codes.
TEST(PackedWeights, WhoTakesRowsUnpacksThoseAlone) {
  constexpr int64_t kN = 700, kK = 100, kTaken = 3;  // larger than import folds at once
  for (const PackedType type : kTypes) {
    for (const bool zeros : {false, true}) {
      if (zeros && type > PackedType::kU8) continue;
      for (const bool turned : {false, true}) {
        SmallGraph s;
        std::vector<uint8_t> codes(kN * kK);
        std::vector<float> scales(kN * 4), zero(zeros ? kN * 4 : 0);
        for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 37 % 3 + i / 7 % 2);
        for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i % 29 + 1);
        for (size_t i = 0; i < zero.size(); ++i) zero[i] = static_cast<float>(i % 3);
        const auto matrix = ir::Pack(type, kN, kK, 32, codes, scales, zero, 1, DType::kF32);
        std::vector<double> plain;
        for (const float x : ir::Unpacked(*matrix)) plain.push_back(x);
        const NodeId index = s.In("index", {1, kTaken}, DType::kI64), x = s.In("x", {2, kK});
        SmallGraph same;
        const NodeId same_index = same.In("index", {1, kTaken}, DType::kI64), same_x = same.In("x", {2, kK});
        const auto build = [&](SmallGraph& to, NodeId w, NodeId at, NodeId left) {
          to.Out("rows", to.b.Gather(turned ? to.b.Transpose(w, {1, 0}) : w, at, 0));
          to.Out("product", to.b.MatMul(left, to.b.Transpose(w, {1, 0})));
        };
        build(s, s.b.Constant(ir::PackedConstant(matrix, DType::kF32, "table")), index, x);
        build(same, same.b.Floats(DType::kF32, {kN, kK}, plain), same_index, same_x);
        PassOptions options;
        options.target = HostTraits();
        ASSERT_TRUE(PackWeights(&s.g, options).ok());
        EXPECT_EQ(ir::Validate(s.g), "");
        for (NodeId id = 0; id < s.g.size(); ++id) {
          const ir::Node& n = s.g.node(id);
          EXPECT_TRUE(n.dead || n.op == ir::Op::kConstant || n.op == ir::Op::kView ||
                      n.shape.elements() < kN * kK)
              << ir::Dump(s.g);
        }
        ExpectAlike(Output(s), Output(same));
        ExpectAlike(Output(s, 1), Output(same, 1));
      }
    }
  }
}

TEST(PackedWeights, SyntheticWeightsStaySynthetic) {
  SmallGraph s;
  auto data = std::make_shared<ir::ConstantData>();
  data->dtype = DType::kBF16;
  data->shape = {256, 512};
  data->synthetic = true;
  data->synthetic_key = 7;
  data->synthetic_scale = 0.1f;
  s.Out("y", s.b.MatMul(s.In("x", {1, 256}, DType::kBF16), s.b.Constant(data)));
  ASSERT_EQ(QuantizeWeights(&s.g, Bits(PackedType::kU4, 32))->changes, 1);
  ASSERT_TRUE(PackWeights(&s.g, Bits(PackedType::kU4, 32)).ok());
  int64_t bytes = 0;
  double squares = 0;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    if (!s.g.IsConstant(id)) continue;
    const auto constant = s.g.node(id).As<ir::ConstantAttrs>().data;
    EXPECT_TRUE(constant->synthetic && constant->packed == nullptr);
    bytes += constant->byte_size();
  }
  EXPECT_LT(bytes, 256 * 512 * 9 / 16 + 2048);
  const auto matrix = ir::SyntheticPacked(PackedType::kU4, 512, 256, 32, DType::kBF16, 7, 0.1f);
  for (float x : ir::Unpacked(*matrix)) squares += double{x} * x;
  EXPECT_NEAR(std::sqrt(squares / (256 * 512)), 0.1 / std::sqrt(3.0), 0.01);
}

// A matrix with zero points whose numbers show their positions.
std::shared_ptr<const ir::PackedMatrix> Numbered(PackedType type, int64_t n, int64_t k, int64_t block) {
  const int64_t blocks = (k + block - 1) / block;
  std::vector<uint8_t> codes;
  std::vector<float> scales, zeros;
  for (int64_t i = 0; i < n * k; ++i)
    codes.push_back(static_cast<uint8_t>((i * 7 + i / k) & ((1 << BitsOf(type)) - 1)));
  for (int64_t i = 0; i < n * blocks; ++i) {
    scales.push_back(static_cast<float>(1 + i % 61));
    if (type <= PackedType::kU8) zeros.push_back(static_cast<float>(i % 3));
  }
  return ir::Pack(type, n, k, block, codes, scales, zeros, 0, DType::kF32);
}

// Expects that the part of rows `n` and columns `k` has the numbers of the whole.
void ExpectPart(const ir::PackedMatrix& whole, const ir::IndexRuns& n, const ir::IndexRuns& k) {
  ASSERT_TRUE(ir::CanCutPacked(whole, n, k));
  const auto part = ir::CutPacked(whole, n, k);
  ASSERT_EQ(part->n, n.size());
  ASSERT_EQ(part->k, k.size());
  EXPECT_GE(part->codes->byte_size(), part->shape().covered());
  const std::vector<float> all = ir::Unpacked(whole), some = ir::Unpacked(*part);
  for (int64_t r = 0; r < part->n; ++r) {
    for (int64_t c = 0; c < part->k; ++c) {
      ASSERT_EQ(some[static_cast<size_t>(r * part->k + c)],
                all[static_cast<size_t>(n.At(r) * whole.k + k.At(c))])
          << Name(whole.type) << " row " << r << " column " << c;
    }
  }
}

TEST(PackedWeights, PartsHaveTheNumbersOfTheWhole) {
  for (PackedType type : kTypes) {
    for (int64_t block : {32, 1024}) {  // one for each 32, and one for all
      const auto matrix = Numbered(type, 96, 1024, block);
      ExpectPart(*matrix, {32, 48}, {0, 1024});        // whole tiles
      ExpectPart(*matrix, {20, 24}, {0, 1024});        // some rows of tiles
      ExpectPart(*matrix, {8, 8, 32, 3}, {0, 1024});   // some of every head
      ExpectPart(*matrix, {0, 96}, {512, 512});        // pieces
      ExpectPart(*matrix, {0, 96}, {0, 48});           // halves of blocks
      ExpectPart(*matrix, {0, 96}, {32, 32, 128, 8});  // some columns of every head
      ExpectPart(*matrix, {80, 16}, {992, 32});        // the last
    }
    const auto synthetic = ir::SyntheticPacked(type, 96, 1024, 32, DType::kBF16, 5, 0.1f);
    ExpectPart(*synthetic, {48, 48}, {0, 1024});
    ExpectPart(*synthetic, {0, 96}, {512, 512});
    ExpectPart(*synthetic, {24, 24}, {96, 96});
    const auto half = ir::CutPacked(*synthetic, {0, 96}, {512, 512});
    EXPECT_TRUE(half->codes->synthetic && half->scales->synthetic);
    ExpectPart(*half, {32, 32}, {256, 256});  // a part of a part
  }
  const auto matrix = Numbered(PackedType::kU4, 96, 1024, 32);
  EXPECT_FALSE(ir::CanCutPacked(*matrix, {0, 8}, {0, 1024}));
  EXPECT_FALSE(ir::CanCutPacked(*matrix, {0, 96}, {0, 16}));
  EXPECT_FALSE(ir::CanCutPacked(*matrix, {0, 96}, {8, 128}));
  EXPECT_FALSE(ir::CanCutPacked(*matrix, {0, 96}, {0, 40}));
}

// Only these codes become right numbers on tensor cores (core/packed_weights.h).
TEST(PackedWeights, SyntheticCodesOfFp8AreNumbers) {
  for (PackedType type : {PackedType::kE4M3, PackedType::kE5M2}) {
    const ir::ConstantData& codes = *ir::SyntheticPacked(type, 96, 1024, 32, DType::kBF16, 5, 0.1f)->codes;
    const auto count = static_cast<size_t>(codes.shape.elements());
    std::vector<uint8_t> bytes(count);
    FillSyntheticRange(DType::kU8, codes.synthetic_key, codes.synthetic_scale, 0, count, bytes.data());
    const int least = type == PackedType::kE4M3 ? 0x7f : 0x7c;
    EXPECT_TRUE(std::ranges::none_of(bytes, [&](uint8_t code) { return (code & 0x7f) >= least; }));
    EXPECT_GT(*std::ranges::max_element(bytes), 0xf0);
  }
}

TEST(PackedWeights, LongerOnesHaveTheSameNumbersWhereTheyWere) {
  for (const int64_t block : {32, 200}) {
    const auto matrix = Numbered(PackedType::kU4, 40, 200, block);
    const auto padded = ir::PadPacked(*matrix, 64, 256);
    ASSERT_EQ(padded->n, 64);
    ASSERT_EQ(padded->k, 256);
    const std::vector<float> want = ir::Unpacked(*matrix), got = ir::Unpacked(*padded);
    for (int64_t r = 0; r < 40; ++r) {
      for (int64_t c = 0; c < 200; ++c)
        ASSERT_EQ(got[static_cast<size_t>(r * 256 + c)], want[static_cast<size_t>(r * 200 + c)]);
    }
    for (float x : got) ASSERT_TRUE(std::isfinite(x));
  }
}

}  // namespace
}  // namespace rondo::passes
