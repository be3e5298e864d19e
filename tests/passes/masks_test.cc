// Masks of attention: attention and limits are recognised for any large negative number and any form in which
// a model drops keys. Rows that keep no key give the model's results. Masks with other numbers stay
// unchanged.
#include <cmath>
#include <functional>
#include <limits>

#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::kNoNode;
using ir::NodeId;
using ir::Op;

constexpr int64_t kB = 2, kH = 2, kS = 4, kT = 4, kD = 8;
constexpr double kLowest = std::numeric_limits<float>::lowest();
constexpr double kInf = std::numeric_limits<double>::infinity();

// The number with which a mask drops keys, and its type in the model.
struct Drop {
  double value;
  DType type;
};

std::vector<Drop> MinusMuch() {
  std::vector<Drop> drops;
  for (const double value : {-1e4, -6e4, -65504.0, -1e9, -3.4028234663852886e38, -kInf}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) drops.push_back({value, type});
  }
  drops.push_back({-3.3895313892515355e38, DType::kBF16});  // the type's lowest
  return drops;
}

// Attention as separate operators over q, k, v. A form decides how scores are masked.
struct Masked {
  SmallGraph s;
  NodeId scores;  // [b, h, s, t]
  Drop drop;

  explicit Masked(const Drop& d) : drop(d) {
    const NodeId q = s.In("q", Shape({kB, kH, kS, kD})), k = s.In("k", Shape({kB, kH, kT, kD}));
    scores = s.b.MatMul(q, s.b.Transpose(k, {0, 1, 3, 2}));
  }
  // The value, rounded to its type, as f32.
  NodeId Dropped() { return s.b.Cast(s.b.Scalar(drop.type, drop.value), DType::kF32); }
  NodeId Keep() { return s.In("keep", Shape({kB, 1, kS, kT}), DType::kBool); }
  NodeId Triangle() {
    std::vector<int64_t> keep;
    for (int64_t r = 0; r < kS; ++r) {
      for (int64_t t = 0; t < kT; ++t) keep.push_back(t <= r);
    }
    return s.b.Ints(DType::kBool, Shape({kS, kT}), keep);
  }
  // key <= position.
  NodeId Reached() {
    const NodeId at = s.b.Unsqueeze(s.In("at", Shape({kB, 1, kS}), DType::kI64), 3);
    return s.b.Binary(TapeOp::kLessEqual, s.b.I64({0, 1, 2, 3}), at);
  }
  NodeId CausalAndPadding() {
    return s.b.Binary(TapeOp::kBitAnd, Triangle(), s.In("padding", Shape({kB, 1, 1, kT}), DType::kBool));
  }
  NodeId InPlace(NodeId keep) { return s.b.Select(keep, scores, Dropped()); }
  NodeId Added(NodeId keep) {
    return s.b.Add(scores, s.b.Select(keep, s.b.Scalar(DType::kF32, 0), Dropped()));
  }
  void Finish(NodeId masked) {
    const NodeId e =
        s.b.Unary(TapeOp::kExp, s.b.Sub(masked, s.b.Reduce(ir::ReduceKind::kMax, masked, {3}, true)));
    const NodeId p = s.b.Div(e, s.b.Reduce(ir::ReduceKind::kSum, e, {3}, true));
    s.Out("y", s.b.MatMul(p, s.In("v", Shape({kB, kH, kT, kD}))));
  }
};

struct Form {
  const char* name;
  std::function<NodeId(Masked*)> masked;
  bool limit;          // its mask keeps a prefix, so it is a limit
  bool pieces_unless;  // a number that is not very negative makes it no mask, and the operators stay separate
  bool finite = false;  // undefined with infinities
};

std::vector<Form> Forms() {
  return {
      {"in place of scores", [](Masked* m) { return m->InPlace(m->Keep()); }, false, true},
      {"in place, the other way round",
       [](Masked* m) {
         const NodeId drop = m->s.b.Unary(TapeOp::kNot, m->Keep());
         return m->s.b.Select(drop, m->Dropped(), m->scores);
       },
       false, true},
      {"added", [](Masked* m) { return m->Added(m->Keep()); }, false, false},
      {"(1 - mask) * value",
       [](Masked* m) {
         const NodeId keep = m->s.b.Cast(m->Keep(), DType::kF32);
         const NodeId drop = m->s.b.Sub(m->s.b.Scalar(DType::kF32, 1), keep);
         return m->s.b.Add(m->scores, m->s.b.Mul(drop, m->Dropped()));
       },
       false, false, true},
      {"a table that is added",
       [](Masked* m) {
         std::vector<double> table;
         for (int64_t r = 0; r < kS; ++r) {
           for (int64_t t = 0; t < kT; ++t) table.push_back(t <= r ? 0 : m->drop.value);
         }
         const NodeId constant = m->s.b.Floats(m->drop.type, Shape({kS, kT}), table);
         return m->s.b.Add(m->scores, m->s.b.Cast(constant, DType::kF32));
       },
       true, false},
      {"a triangle in place of scores", [](Masked* m) { return m->InPlace(m->Triangle()); }, true, true},
      {"positions, added", [](Masked* m) { return m->Added(m->Reached()); }, true, false},
      {"positions, in place", [](Masked* m) { return m->InPlace(m->Reached()); }, true, true},
      {"causal and padded, added", [](Masked* m) { return m->Added(m->CausalAndPadding()); }, true, false},
      {"causal and padded, in place", [](Masked* m) { return m->InPlace(m->CausalAndPadding()); }, true,
       true},
      {"positions, added before a scale",
       [](Masked* m) { return m->s.b.BinaryScalar(TapeOp::kMul, m->Added(m->Reached()), 1.0001); }, true,
       false},
      {"in place before a scale",
       [](Masked* m) { return m->s.b.BinaryScalar(TapeOp::kMul, m->InPlace(m->Keep()), 1.0001); }, false,
       true},
      {"positions, added, and at least the lowest",
       [](Masked* m) { return m->s.b.BinaryScalar(TapeOp::kMax, m->Added(m->Reached()), kLowest); }, true,
       false},
      {"two masks in place of scores",
       [](Masked* m) {
         m->scores = m->InPlace(m->Triangle());
         return m->InPlace(m->Keep());
       },
       true, true},
  };
}

// Inputs with scores q * k up to `logit`; some rows keep nothing.
ir::Values Inputs(const ir::Graph& g, double logit) {
  std::mt19937 rng(5);
  ir::Values values;
  for (const ir::GraphInput& in : g.inputs) {
    const ir::Node& n = g.node(in.node);
    std::vector<uint8_t> bytes(static_cast<size_t>(n.shape.elements() * ByteSize(n.dtype)));
    for (int64_t i = 0; i < n.shape.elements(); ++i) {
      if (in.name == "keep") {
        const int64_t row = i / kT;  // rows 1 and 6 keep nothing, row 2 one key
        scalar::Store(n.dtype, bytes.data(), i, int64_t{row != 1 && row != 6 && (row != 2 || i % kT == 3)});
      } else if (in.name == "padding") {
        scalar::Store(n.dtype, bytes.data(), i, int64_t{i != 0 && i != 1 && i != 7});
      } else if (in.name == "at") {
        constexpr int64_t kAt[] = {0, 2, -1, 3, 9, -2, 1, 0};
        scalar::Store(n.dtype, bytes.data(), i, kAt[i]);
      } else {
        const double most = in.name == "q" ? logit : 1;
        scalar::Store(n.dtype, bytes.data(), i, std::uniform_real_distribution<double>(-most, most)(rng));
      }
    }
    values.push_back(ir::ConstantData::Own(n.dtype, n.shape, bytes));
  }
  return values;
}

struct Found {
  bool attention = false, mask = false, limit = false;
};

// Runs both passes on the form and expects unchanged results. Returns what was recognised.
Found Recognised(const Form& form, const Drop& drop, double logit) {
  Masked m(drop);
  m.Finish(form.masked(&m));
  const ir::Values inputs = Inputs(m.s.g, logit);
  const Result<ir::Values> before = ir::EvaluateGraph(m.s.g, inputs);
  EXPECT_TRUE(FoldConstants(&m.s.g, {}).ok());
  EXPECT_TRUE(RecogniseAttention(&m.s.g, {}).ok());
  EXPECT_TRUE(RecogniseCausal(&m.s.g, {}).ok());
  EXPECT_EQ(ir::Validate(m.s.g), "");
  const Result<ir::Values> after = ir::EvaluateGraph(m.s.g, inputs);
  EXPECT_TRUE(before.ok() && after.ok());
  if (!before.ok() || !after.ok()) return {};
  const ir::ConstantData &x = *(*before)[0], &y = *(*after)[0];
  for (int64_t i = 0; i < x.shape.elements(); ++i) {
    const float u = scalar::Load<float>(x.dtype, x.bytes.data(), i);
    const float v = scalar::Load<float>(y.dtype, y.bytes.data(), i);
    if (std::isnan(u) && std::isnan(v)) continue;
    EXPECT_NEAR(u, v, 2e-3) << "element " << i;  // adding -65504 leaves f32 scores two decimals
    if (::testing::Test::HasFailure()) break;
  }
  Found found;
  for (NodeId id = 0; id < m.s.g.size(); ++id) {
    if (m.s.g.node(id).dead || m.s.g.node(id).op != Op::kAttention) continue;
    const ir::AttentionAttrs& attrs = m.s.g.node(id).As<ir::AttentionAttrs>();
    found = {true, attrs.has_mask, attrs.has_limit};
  }
  return found;
}

TEST(Masks, EveryMinusMuchIsTakenInEveryForm) {
  for (const Form& form : Forms()) {
    for (const Drop& drop : MinusMuch()) {
      const bool infinite = std::isinf(drop.value) || (drop.type == DType::kF16 && drop.value < -65504) ||
                            (drop.type == DType::kBF16 && drop.value < -3.39e38);
      if (form.finite && infinite) continue;
      SCOPED_TRACE(std::string(form.name) + ", " + std::to_string(drop.value) + " in " + Name(drop.type));
      const Found found = Recognised(form, drop, 1);
      EXPECT_TRUE(found.attention);
      EXPECT_EQ(found.limit, form.limit);
      if (HasFailure()) return;
    }
  }
}

TEST(Masks, WhatIsNotMuchIsNotTaken) {
  for (const Form& form : Forms()) {
    for (const double value : {-1.0, -50.0, -1000.0, -9000.0, 0.0, 1e4, kInf}) {
      if (form.finite && std::isinf(value)) continue;
      SCOPED_TRACE(std::string(form.name) + ", " + std::to_string(value));
      // If scores differ by more than the value, keys that it should drop still count.
      const Found found = Recognised(form, {value, DType::kF32}, 500);
      EXPECT_FALSE(found.limit);
      EXPECT_EQ(found.attention, !form.pieces_unless);
      if (HasFailure()) return;
    }
  }
}

// A mask that replaces scores loses them. A bias added afterwards, or another value, would then show in rows
// that keep nothing.
TEST(Masks, WhatWouldChangeRowsThatKeepNothingStaysInPieces) {
  const Form later = {"a bias after the mask",
                      [](Masked* m) {
                        return m->s.b.Add(m->InPlace(m->Keep()), m->s.In("bias", Shape({kB, kH, kS, kT})));
                      },
                      false, true};
  const Form others = {"two values in place",
                       [](Masked* m) {
                         m->scores = m->InPlace(m->Keep());
                         m->drop.value = -1e5;
                         return m->InPlace(m->Triangle());
                       },
                       false, true};
  for (const Form& form : {later, others}) {
    SCOPED_TRACE(form.name);
    EXPECT_FALSE(Recognised(form, {-1e9, DType::kF32}, 1).attention);
  }
  EXPECT_TRUE(Recognised(later, {-kInf, DType::kF32}, 1).attention);
  EXPECT_TRUE(Recognised(later, {kLowest, DType::kF32}, 1).attention);  // the lowest number absorbs the bias
}

TEST(Masks, PaddingAddedToATriangleInPlaceOfScores) {
  const Form form = {"padding, added to a triangle",
                     [](Masked* m) {
                       m->scores = m->InPlace(m->Triangle());
                       return m->Added(m->s.In("padding", Shape({kB, 1, 1, kT}), DType::kBool));
                     },
                     false, true};
  EXPECT_TRUE(Recognised(form, {kLowest, DType::kF32}, 1).attention);
  EXPECT_FALSE(Recognised(form, {-1e9, DType::kF32}, 1).attention);
}

}  // namespace
}  // namespace rondo::passes
