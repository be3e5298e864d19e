// pad_matmuls: constant Bs lie column after column, matmuls of lines that are no vectors read padded ones,
// and all compute the same results.
#include <random>

#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct OddMatmul {
  int64_t m = 800, k = 143, n = 768, batches = 1;
  DType dtype = DType::kF16;
  bool constant = true, transposed = false, tensor_cores = true;
};

// The number of changes; `copies` of activations are expected.
int64_t Padded(const OddMatmul& p, int64_t copies) {
  SmallGraph s;
  const Shape shape = p.transposed ? Shape{p.n, p.k} : Shape{p.k, p.n};
  std::mt19937 rng(5);
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements() * ByteSize(p.dtype)));
  for (int64_t i = 0; i < shape.elements(); ++i)
    scalar::Store(p.dtype, bytes.data(), i, std::uniform_real_distribution<double>(-1, 1)(rng));
  NodeId w = p.constant ? s.b.Constant(ir::ConstantData::Own(p.dtype, shape, std::move(bytes)))
                        : s.In("w", shape, p.dtype);
  if (p.transposed) w = s.b.Transpose(w, {1, 0});
  const Shape x = p.batches > 1 ? Shape{p.batches, p.m, p.k} : Shape{p.m, p.k};
  s.Out("y", s.b.Cast(s.b.MatMul(s.In("x", x, p.dtype), w), DType::kF32));
  PassOptions options;
  options.target.tensor_cores = p.tensor_cores;
  const int64_t changes = ExpectSame(&s, PadMatmuls, options).changes;
  EXPECT_EQ(s.CountOf(Op::kConcat), copies);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.dead || node.op != Op::kMatMul || changes == 0) continue;
    const Shape& a = s.g.node(node.inputs[0]).shape;
    EXPECT_EQ(a[a.rank - 1], (p.k + 7) / 8 * 8);
  }
  return changes;
}

TEST(PadMatmuls, AnOddKIsPadded) {
  EXPECT_EQ(Padded({}, 1), 1);
  EXPECT_EQ(Padded({.k = 131, .n = 1280, .dtype = DType::kBF16, .transposed = true}, 1), 1);
  EXPECT_EQ(Padded({.m = 200, .n = 771, .batches = 4}, 1), 1);
  EXPECT_EQ(Padded({.constant = false}, 2), 1);
}

// A constant costs nothing.
TEST(PadMatmuls, AConstantIsStoredByColumns) {
  EXPECT_EQ(Padded({.k = 144}, 0), 1);
  EXPECT_EQ(Padded({.m = 3, .k = 64, .n = 99}, 0), 1);
  EXPECT_EQ(Padded({.m = 3, .k = 64, .n = 99, .batches = 2}, 0), 1);
}

TEST(PadMatmuls, OthersStay) {
  EXPECT_EQ(Padded({.k = 144, .constant = false}, 0), 0);
  EXPECT_EQ(Padded({.k = 144, .transposed = true}, 0), 0) << "its columns lie there";
  EXPECT_EQ(Padded({.k = 142}, 0), 0) << "pairs are read as words";
  EXPECT_EQ(Padded({.k = 144, .n = 99, .transposed = true}, 0), 0);
  EXPECT_EQ(Padded({.m = 16, .n = 40000}, 0), 0) << "few rows";
  EXPECT_EQ(Padded({.m = 40, .n = 64}, 0), 0) << "saves less than a kernel costs";
  EXPECT_EQ(Padded({.dtype = DType::kF32}, 0), 0);
  EXPECT_EQ(Padded({.n = 771, .constant = false}, 0), 0) << "its columns would be read element by element";
  EXPECT_EQ(Padded({.tensor_cores = false}, 0), 0);
  EXPECT_EQ(Padded({.m = 400000, .k = 3}, 0), 0) << "storing the results takes the time";
  EXPECT_EQ(Padded({.k = 8}, 0), 0);
}

// The compiler keeps reordered constants in memory, so they are limited.
TEST(PadMatmuls, ConstantsBeyondTheLimitStay) {
  constexpr int64_t kBytes = 2 * 64 * 96 * 2;  // of both
  for (const int64_t limit : {kBytes, kBytes - 1}) {
    SmallGraph s;
    const NodeId x = s.In("x", Shape{40, 64}, DType::kF16);
    for (const char* name : {"y", "z"}) {
      std::vector<uint8_t> bytes(64 * 96 * 2, name[0] == 'y' ? 1 : 2);
      const NodeId w = s.b.Constant(ir::ConstantData::Own(DType::kF16, Shape{64, 96}, std::move(bytes)));
      s.Out(name, s.b.Cast(s.b.MatMul(x, w), DType::kF32));
    }
    PassOptions options;
    options.target.tensor_cores = true;
    options.reordered_bytes = limit;
    EXPECT_EQ(ExpectSame(&s, PadMatmuls, options).changes, limit == kBytes ? 2 : 0);
  }
}

// A constant of whole vectors stays if it would lie in memory twice, or if its numbers are synthetic.
TEST(PadMatmuls, AConstantThatOthersReadStays) {
  for (const bool other_reader : {false, true}) {
    for (const bool synthetic : {false, true}) {
      SmallGraph s;
      auto data = std::make_shared<ir::ConstantData>();
      data->dtype = DType::kF16;
      data->shape = Shape{64, 96};
      data->synthetic = true;
      data->synthetic_scale = 1;
      const NodeId w = s.b.Constant(synthetic ? data : ir::WithBytes(data));
      s.Out("y", s.b.Cast(s.b.MatMul(s.In("x", Shape{40, 64}, DType::kF16), w), DType::kF32));
      if (other_reader) s.Out("z", s.b.Cast(s.b.Add(w, s.In("u", Shape{64, 96}, DType::kF16)), DType::kF32));
      PassOptions options;
      options.target.tensor_cores = true;
      EXPECT_EQ(ExpectSame(&s, PadMatmuls, options).changes, other_reader || synthetic ? 0 : 1)
          << other_reader << synthetic;
    }
  }
}

// Layers that share their weights keep one matrix.
TEST(PadMatmuls, MatmulsOfOneBReadOneMatrix) {
  SmallGraph s;
  const NodeId w =
      s.b.Constant(ir::ConstantData::Own(DType::kF16, Shape{64, 96}, std::vector<uint8_t>(64 * 96 * 2, 1)));
  for (const char* name : {"x", "y"})
    s.Out(name, s.b.Cast(s.b.MatMul(s.In(name, Shape{40, 64}, DType::kF16), w), DType::kF32));
  PassOptions options;
  options.target.tensor_cores = true;
  EXPECT_EQ(ExpectSame(&s, PadMatmuls, options).changes, 2);
  EXPECT_EQ(s.CountOf(Op::kConstant), 1);
}

// A gate and its matmul read one copy.
TEST(PadMatmuls, MatmulsOfOneAReadOneCopy) {
  SmallGraph s;
  const NodeId x = s.In("x", Shape{800, 143}, DType::kF16);
  const NodeId y = s.b.MatMul(x, s.In("w", Shape{143, 768}, DType::kF16)),
               z = s.b.MatMul(x, s.In("v", Shape{143, 768}, DType::kF16));
  s.Out("y", s.b.Cast(s.b.Mul(y, z), DType::kF32));
  PassOptions options;
  options.target.tensor_cores = true;
  EXPECT_EQ(ExpectSame(&s, PadMatmuls, options).changes, 2);
  EXPECT_EQ(s.CountOf(Op::kConcat), 3);
}

}  // namespace
}  // namespace rondo::passes
