// pad_masks: attention reads masks whose rows are no whole vectors from padded ones, with the same results.
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct OddMask {
  int64_t batch = 2, heads = 3, queries = 150, keys = 131;
  DType type = DType::kF16, mask = DType::kF16;
  bool constant = true, own = false, tensor_cores = true;  // own: each batch has a mask of its own
  bool heads_last = false;                                 // in memory, the heads of a mask are neighbours
  int times = 1;                                           // attentions with this mask
};

// The number of attentions that read a padded mask; `copies` of masks are expected.
int64_t Padded(const OddMask& p, int64_t copies) {
  SmallGraph s;
  const Shape all{p.batch, p.heads, p.queries, p.keys};
  const int64_t batch = p.own ? p.batch : 1;
  const Shape shape =
      p.heads_last ? Shape{batch, p.queries, p.keys, p.heads} : Shape{batch, p.heads, p.queries, p.keys};
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements() * ByteSize(p.mask)));
  for (int64_t i = 0; i < shape.elements(); ++i)
    scalar::Store<double>(p.mask, bytes.data(), i,
                          p.mask == DType::kBool ? i % 3 != 0 : double(i * 7919 % 101) / 50);
  NodeId mask = p.constant ? s.b.Constant(ir::ConstantData::Own(p.mask, shape, std::move(bytes)))
                           : s.In("mask", shape, p.mask);
  if (p.heads_last) mask = s.b.Transpose(mask, {0, 3, 1, 2});
  mask = s.b.Expand(mask, all);
  ir::AttentionAttrs attrs;
  attrs.has_mask = true;
  for (int i = 0; i < p.times; ++i) {
    const std::string name = std::to_string(i);
    const NodeId q = s.In("q" + name, {p.batch, p.heads, p.queries, 8}, p.type),
                 k = s.In("k" + name, {p.batch, p.heads, p.keys, 8}, p.type),
                 v = s.In("v" + name, {p.batch, p.heads, p.keys, 8}, p.type);
    s.Out("y" + name, s.b.Cast(s.b.Attention(q, k, v, mask, ir::kNoNode, attrs), DType::kF32));
  }
  PassOptions options;
  options.target.tensor_cores = p.tensor_cores;
  const int64_t changes = ExpectSame(&s, PadMasks, options).changes;
  EXPECT_EQ(s.CountOf(Op::kConcat), copies);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.dead || node.op != Op::kAttention || changes == 0) continue;
    EXPECT_EQ(s.g.ViewOf(node.inputs[3]).steps[0].strides[2], (p.keys + 7) / 8 * 8);
  }
  return changes;
}

TEST(PadMasks, OddRowsArePadded) {
  EXPECT_EQ(Padded({}, 0), 1);
  EXPECT_EQ(Padded({.mask = DType::kBool}, 0), 1);
  EXPECT_EQ(Padded({.own = true, .times = 2}, 0), 2);
  EXPECT_EQ(Padded({.batch = 1, .queries = 300, .keys = 400, .heads_last = true}, 0), 1);
  EXPECT_EQ(Padded({.batch = 8, .heads = 4, .constant = false, .times = 2}, 1), 2) << "one copy serves both";
}

TEST(PadMasks, OthersStay) {
  EXPECT_EQ(Padded({.keys = 136}, 0), 0) << "rows are whole vectors";
  EXPECT_EQ(Padded({.queries = 1}, 0), 0) << "little is read";
  EXPECT_EQ(Padded({.batch = 8, .keys = 136, .constant = false, .heads_last = true}, 0), 0);
  EXPECT_EQ(Padded({.constant = false}, 0), 0) << "saves less than a kernel costs";
  EXPECT_EQ(Padded({.type = DType::kF32, .mask = DType::kF32}, 0), 0);
  EXPECT_EQ(Padded({.tensor_cores = false}, 0), 0);
}

}  // namespace
}  // namespace rondo::passes
