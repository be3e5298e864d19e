// pad_channels: the convolutions that read a copy with four channels compute the same results.
#include <random>

#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct Picture {
  Shape x = {2, 3, 64, 64}, w = {8, 3, 7, 7};
  DType dtype = DType::kF16;
  int64_t stride = 1, groups = 1;
  bool channels_last = true, constant = true;
};

NodeId Weight(SmallGraph* s, const Picture& p) {
  if (!p.constant) return s->In("w", p.w, p.dtype);
  std::mt19937 rng(5);
  std::vector<uint8_t> bytes(static_cast<size_t>(p.w.elements() * ByteSize(p.dtype)));
  for (int64_t i = 0; i < p.w.elements(); ++i)
    scalar::Store(p.dtype, bytes.data(), i, std::uniform_real_distribution<double>(-1, 1)(rng));
  return s->b.Constant(ir::ConstantData::Own(p.dtype, p.w, std::move(bytes)));
}

int64_t Padded(const Picture& p) {
  SmallGraph s;
  const ir::ConvAttrs attrs{{p.stride, p.stride}, {1, 1}, {3, 3}, {3, 3}, p.groups};
  const NodeId y = s.b.Conv(s.In("x", p.x, p.dtype), Weight(&s, p), attrs);
  s.Out("y", s.b.Cast(y, DType::kF32));
  PassOptions options;
  options.target.tensor_cores = p.channels_last;
  const int64_t changes = ExpectSame(&s, PadChannels, options).changes;
  EXPECT_EQ(s.CountOf(Op::kConcat), changes);
  EXPECT_EQ(s.CountOf(Op::kConv), 1);
  return changes;
}

TEST(PadChannels, APictureOfThreeChannelsIsReadByPixels) {
  EXPECT_EQ(Padded({}), 1);
  EXPECT_EQ(Padded({.dtype = DType::kBF16}), 1);
  EXPECT_EQ(Padded({.x = {2, 3, 96, 96}, .stride = 2}), 0) << "saves less than a kernel costs";
  EXPECT_EQ(Padded({.x = {8, 3, 96, 96}, .w = {16, 3, 7, 7}, .stride = 2}), 1);
}

TEST(PadChannels, FewOutputsAreComputedWithOthers) {
  const auto padded = [](const Picture& p) {
    SmallGraph s;
    const ir::ConvAttrs attrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, p.groups};
    const NodeId y = s.b.Conv(s.In("x", p.x, p.dtype), Weight(&s, p), attrs);
    s.Out("y", s.b.Cast(y, DType::kF32));
    PassOptions options;
    options.target.tensor_cores = p.channels_last;
    const int64_t changes = ExpectSame(&s, PadChannels, options).changes;
    for (NodeId id = 0; id < s.g.size(); ++id) {
      const ir::Node& node = s.g.node(id);
      EXPECT_TRUE(node.dead || node.op != Op::kConv || node.shape[1] == (changes == 1 ? 8 : p.w[0]));
    }
    return changes;
  };
  EXPECT_EQ(padded({.x = {1, 64, 96, 96}, .w = {3, 64, 3, 3}}), 1);
  EXPECT_EQ(padded({.x = {1, 64, 96, 96}, .w = {1, 64, 3, 3}, .dtype = DType::kBF16}), 1);
  EXPECT_EQ(padded({.x = {1, 64, 20, 20}, .w = {3, 64, 3, 3}}), 0) << "little work";
  EXPECT_EQ(padded({.x = {1, 64, 96, 96}, .w = {3, 64, 3, 3}, .constant = false}), 0);
  EXPECT_EQ(padded({.x = {1, 64, 96, 96}, .w = {3, 64, 3, 3}, .channels_last = false}), 0);
}

// Sums over windows of bytes beside a matmul read the copy as well, so both have the same input.
TEST(PadChannels, SumsBesideAProductReadTheCopy) {
  SmallGraph s;
  const ir::ConvAttrs attrs{{1, 1}, {1, 1}, {0, 0}, {0, 0}, 1};
  const Shape weight{8, 3, 7, 7};
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < weight.elements(); ++i) numbers.push_back(i % 19 - 9);
  const NodeId x = s.In("x", Shape{2, 3, 70, 70}, DType::kU8);
  const NodeId ones = s.b.Expand(s.b.Scalar(DType::kI8, 1), weight);
  const NodeId y = s.b.Conv(x, s.b.Ints(DType::kI8, weight, numbers), attrs);
  s.Out("y", s.b.Sub(y, s.b.BinaryScalar(TapeOp::kMul, s.b.Conv(x, ones, attrs), 5)));
  PassOptions options;
  options.target.tensor_cores = true;
  EXPECT_EQ(ExpectSame(&s, PadChannels, options, 255).changes, 1);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    EXPECT_TRUE(node.dead || node.op != Op::kConv || s.g.node(node.inputs[0]).shape[1] == 4);
  }
}

TEST(PadChannels, OthersStay) {
  EXPECT_EQ(Padded({.channels_last = false}), 0);
  EXPECT_EQ(Padded({.dtype = DType::kF32}), 0);
  EXPECT_EQ(Padded({.x = {2, 4, 64, 64}, .w = {8, 4, 7, 7}}), 0);
  EXPECT_EQ(Padded({.x = {1, 3, 16, 16}}), 0) << "saves less than a kernel costs";
  EXPECT_EQ(Padded({.w = {8, 3, 1, 1}}), 0) << "reads every pixel once";
  EXPECT_EQ(Padded({.w = {9, 1, 7, 7}, .groups = 3}), 0);
  EXPECT_EQ(Padded({.constant = false}), 0);
}

}  // namespace
}  // namespace rondo::passes
