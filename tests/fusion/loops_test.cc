// Loops: a round overwrites the values that it got with the values that it passes on exactly if that changes
// no result.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "compiler/ir/builder.h"
#include "compiler/ir/loop.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::Builder;
using ir::Graph;
using ir::NodeId;

constexpr int64_t kSide = 4;

// A loop with carried values of kSide x kSide, a slice x of that size in each round, and w, which is the same
// in all rounds.
class Rounds {
 public:
  Rounds(int64_t trips, size_t carried) : b_(&graph_), maker_(&b_, trips) {
    const Shape square{kSide, kSide};
    for (size_t k = 0; k < carried; ++k)
      h_.push_back(maker_.Carried(b_.Input("h" + std::to_string(k), DType::kF32, square)));
    x_ = maker_.Row(b_.Input("x", DType::kF32, Shape{trips, kSide, kSide}), false);
    w_ = b_.Input("w", DType::kF32, square);
  }
  NodeId Turned(NodeId a) { return b_.Transpose(a, {1, 0}); }
  NodeId Backwards(NodeId a) { return b_.Slice(a, 0, kSide - 1, -1, kSide); }
  NodeId Squashed(NodeId a) { return b_.Unary(TapeOp::kTanh, a); }

  // Ends the loop and checks it. Returns for each carried value whether it is written in place.
  std::vector<bool> Check(const std::vector<NodeId>& next, uint32_t seed = 1) {
    std::vector<NodeId> last, all;
    EXPECT_TRUE(maker_.Finish(next, {}, &last, &all));
    for (NodeId id : last) graph_.outputs.push_back({"y" + std::to_string(graph_.outputs.size()), id});
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, seed);
    for (const LoweredOp& op : program.ops) {
      if (op.kind != LoweredKind::kLoop) continue;
      std::vector<bool> flags(last.size(), false);
      for (size_t o = 0; o < op.rounds->carrier.size(); ++o) {
        if (op.rounds->carrier[o] >= 0) flags[o] = op.rounds->in_place[o];
      }
      return flags;
    }
    ADD_FAILURE() << "no loop is left";
    return {};
  }

  Graph graph_;
  Builder b_;
  ir::LoopMaker maker_;
  std::vector<NodeId> h_;
  NodeId x_ = ir::kNoNode, w_ = ir::kNoNode;
};

struct Case {
  const char* name;
  std::function<std::vector<NodeId>(Rounds*)> next;
  std::vector<bool> in_place;
};

const Case kCases[] = {
    {"element by element",
     [](Rounds* r) -> std::vector<NodeId> { return {r->b_.Add(r->h_[0], r->x_)}; },
     {true}},
    {"another place's element",
     [](Rounds* r) -> std::vector<NodeId> { return {r->b_.Add(r->Turned(r->h_[0]), r->x_)}; },
     {false}},
    {"an element and another place's",
     [](Rounds* r) -> std::vector<NodeId> { return {r->b_.Add(r->h_[0], r->Backwards(r->h_[0]))}; },
     {false}},
    {"whole rows",
     [](Rounds* r) -> std::vector<NodeId> { return {r->Squashed(r->b_.MatMul(r->h_[0], r->w_))}; },
     {false}},
    {"not what it was", [](Rounds* r) -> std::vector<NodeId> { return {r->Squashed(r->x_)}; }, {true}},
    {"read by a later product",
     [](Rounds* r) -> std::vector<NodeId> {
       const NodeId first = r->b_.Add(r->h_[0], r->x_);
       return {first, r->Squashed(r->b_.MatMul(r->b_.MatMul(first, r->w_), r->h_[0]))};
     },
     {false, true}},
    {"read by an earlier product alone",
     [](Rounds* r) -> std::vector<NodeId> {
       return {r->Squashed(r->b_.MatMul(r->b_.MatMul(r->h_[0], r->w_), r->w_))};
     },
     {true}},
    {"exchanged",
     [](Rounds* r) -> std::vector<NodeId> {
       return {r->Squashed(r->b_.Add(r->h_[1], r->x_)), r->Squashed(r->b_.Mul(r->h_[0], r->x_))};
     },
     {false, false}},
};

TEST(Loops, WriteOverWhatTheyWereGivenWhereNothingElseReadsIt) {
  for (const Case& c : kCases) {
    for (int64_t trips : {2, 3, 6, 7}) {
      Rounds rounds(trips, c.in_place.size());
      EXPECT_EQ(rounds.Check(c.next(&rounds)), c.in_place) << c.name << ", " << trips << " rounds";
    }
  }
}

// Random bodies; in some, a part of the values is written in place.
TEST(Loops, KeepTheirMeaning) {
  int in_place = 0, beside = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const size_t carried = 1 + random() % 3;
    Rounds r(2 + random() % 6, carried);
    std::vector<NodeId> known = r.h_, next;
    known.push_back(r.x_);
    const auto any = [&] { return known[random() % known.size()]; };
    for (int i = 0; i < 6; ++i) {
      const NodeId a = any(), b = any();
      const NodeId made[] = {r.b_.Add(a, b), r.b_.Mul(a, b), r.Turned(a), r.Backwards(a),
                             r.Squashed(r.b_.MatMul(a, r.w_))};
      known.push_back(r.Squashed(made[random() % 5]));
    }
    for (size_t k = 0; k < carried; ++k)
      next.push_back(r.Squashed(r.b_.Add(random() % 2 == 0 ? r.h_[k] : any(), any())));
    for (bool flag : r.Check(next, seed)) ++(flag ? in_place : beside);
  }
  EXPECT_GT(in_place, 10);
  EXPECT_GT(beside, 10);
}

}  // namespace
}  // namespace rondo
