// TokenLoop: a program that draws one token of each text, written out for several rounds: each reads what the
// round before has drawn, one position further on.
//
// What it adds, for b texts and k rounds:
//   loop_rounds i64 [1]     how many rounds are wanted, at least 1
//   loop_stops i64 [8]      tokens that end a text; -1: none
//   loop_ended i64 [b, 1]   1: the text has ended before
//   loop_tokens [b, k]      an output: what was drawn
//   loop_count i64 [1]      an output: in so many rounds
// The program's other outputs are states alone. A round is not computed (compiler/fusion/conditions.h), and
// writes to no cache, if fewer are wanted, if all texts have ended, or if a logit before it was NaN.
#include <algorithm>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/ir/versions.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

constexpr int64_t kMostStops = 8;

Status Refuse(const std::string& why) {
  return Status::Error(Code::kInvalidArgument, "the program %s", why.c_str());
}

// Inputs that say how far the texts are, by the names that exporters use.
bool IsPosition(const std::string& name) {
  static const std::set<std::string> known = {"position_ids",          "positions",
                                              "cache_position",        "past_sequence_length",
                                              "total_sequence_length", "seqlens_k"};
  return known.count(name) != 0;
}
bool IsMask(const std::string& name) { return name == "attention_mask"; }

class Loop {
 public:
  Loop(Graph* graph, int64_t rounds) : g_(*graph), b_(graph), rounds_(rounds) {
    b_.SetSources({"--token-loop"});
  }

  Status Run() {
    RONDO_RETURN_IF_ERROR(FindPorts());
    for (NodeId id : g_.TopologicalOrder()) {
      const Op op = g_.node(id).op;
      if (ir::HasEffect(g_.node(id)) || op == Op::kCall || op == Op::kCollective)
        return Refuse("has a custom operator or a collective, which no round can leave out");
      if (op != Op::kInput && op != Op::kConstant) body_.push_back(id);
    }
    AddPorts();
    std::vector<NodeId> values = after_, tokens = {after_[token_]};
    NodeId ended = ended_, count = b_.I64({1});
    NodeId left = b_.BinaryScalar(TapeOp::kSub, wanted_, 1);
    for (int64_t round = 1; round < rounds_; ++round) {
      ended = Ended(ended, tokens.back());
      left = b_.Mul(left, Lives(ended, tokens.back()));
      const NodeId goes = b_.Binary(TapeOp::kLess, b_.Scalar(DType::kI64, 0), left);
      values = Round(round, values, goes);
      tokens.push_back(values[token_]);
      count = b_.Add(count, b_.Cast(goes, DType::kI64));
      left = b_.BinaryScalar(TapeOp::kSub, left, 1);
    }
    std::vector<ir::GraphOutput> outputs;
    for (size_t s = 0; s < g_.states.size(); ++s) {
      ir::StatePair& pair = g_.states[s];
      outputs.push_back({g_.outputs[static_cast<size_t>(pair.output)].name, values[s]});
      pair.output = static_cast<int>(s);
    }
    outputs.push_back({"loop_tokens", b_.Concat(tokens, 1)});
    outputs.push_back({"loop_count", count});
    g_.outputs = std::move(outputs);
    Tidy(&g_);
    const std::string late = ir::OrderStates(&g_);
    return late.empty() ? Status::Ok() : Refuse("reads a state too late: " + late);
  }

 private:
  Status FindPorts() {
    if (!g_.donations.empty()) return Refuse("has inputs that are given away (--donate)");
    std::set<int> states;
    for (size_t s = 0; s < g_.states.size(); ++s) {
      const ir::StatePair& pair = g_.states[s];
      states.insert(pair.input);
      const auto& input = g_.inputs[static_cast<size_t>(pair.input)];
      before_.push_back(input.node);
      after_.push_back(g_.outputs[static_cast<size_t>(pair.output)].node);
      if (input.name == "last_tokens") token_ = s;
      if (input.name == "text_length")
        return Refuse("chooses by the length of a text, which it is told of each run");
      NodeId at = g_.BaseOf(after_.back());
      for (ir::VersionStep step = ir::VersionStepOf(g_, at); step.runs != kNoNode;
           step = ir::VersionStepOf(g_, at)) {
        writes_.insert(step.runs);
        at = g_.BaseOf(g_.node(step.runs).inputs[step.slot]);
      }
      in_place_.push_back(at == input.node && g_.node(after_.back()).op != Op::kView);
    }
    bool named = false;
    std::vector<size_t> single;
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      if (states.count(static_cast<int>(i)) != 0) continue;
      const std::string& name = g_.inputs[i].name;
      const Node& n = g_.node(g_.inputs[i].node);
      named = named || IsPosition(name) || IsMask(name);
      const bool integer = n.dtype == DType::kI64 || n.dtype == DType::kI32;
      if (integer && n.shape.rank == 1 && n.shape[0] == 1) single.push_back(i);
      others_.push_back(i);
    }
    if (!named && single.size() == 1) position_ = single[0];
    if (token_ == SIZE_MAX || !ReadsLast())
      return Refuse(
          "reads no token that it draws: compile it for one token of each text, with --sample LOGITS "
          "and without --pp");
    if (named || position_ != SIZE_MAX) return Status::Ok();
    return Refuse("has no input that says how far the texts are: position_ids, attention_mask or the like");
  }

  // A program of several tokens writes the last one, and does not read it.
  bool ReadsLast() {
    const NodeId last = before_[token_];
    const ir::Users users = g_.AllUsers();
    return !users[static_cast<size_t>(last)].empty();
  }

  void AddPorts() {
    const NodeId last = before_[token_];
    texts_ = b_.shape(last)[0];
    wanted_ = b_.Input("loop_rounds", DType::kI64, {1});
    stops_ = b_.Input("loop_stops", DType::kI64, {kMostStops});
    ended_ = b_.Input("loop_ended", DType::kI64, {texts_, 1});
  }

  // [texts, 1]: 1 where the text has ended, with `token` at the latest.
  NodeId Ended(NodeId before, NodeId token) {
    const NodeId wide = b_.Cast(token, DType::kI64);
    const NodeId is_stop = b_.Cast(b_.Binary(TapeOp::kEqual, wide, b_.Unsqueeze(stops_, 0)), DType::kI64);
    return b_.Binary(TapeOp::kMax, before, b_.Reduce(ir::ReduceKind::kMax, is_stop, {1}, true));
  }

  // [1]: 1 if some text has not ended, and all tokens are some.
  NodeId Lives(NodeId ended, NodeId token) {
    const NodeId all = b_.Reduce(ir::ReduceKind::kMin, ended, {0, 1}, false);
    const NodeId least = b_.Reduce(ir::ReduceKind::kMin, b_.Cast(token, DType::kI64), {0, 1}, false);
    const NodeId good = b_.Cast(b_.Binary(TapeOp::kLessEqual, b_.Scalar(DType::kI64, 0), least), DType::kI64);
    const NodeId some = b_.Sub(b_.Scalar(DType::kI64, 1), all);
    return b_.Reshape(b_.Mul(some, good), {1});
  }

  // An input that is not a state, `round` positions further on.
  NodeId Advance(size_t input, int64_t round) {
    const NodeId id = g_.inputs[input].node;
    const Shape& shape = b_.shape(id);
    if (IsMask(g_.inputs[input].name)) {
      // What is seen of the first position is seen of those that come.
      const int axis = shape.rank - 1;
      Shape more = shape;
      more[axis] = std::min(round, shape[axis]);
      const NodeId first = b_.Expand(b_.Slice(id, axis, 0, 1, 1), more);
      if (more[axis] == shape[axis]) return first;
      return b_.Concat({first, b_.Slice(id, axis, 0, 1, shape[axis] - more[axis])}, axis);
    }
    if (IsPosition(g_.inputs[input].name) || input == position_)
      return b_.BinaryScalar(TapeOp::kAdd, id, static_cast<double>(round));
    return id;
  }

  // `index` where the round goes on, `otherwise` where it does not.
  NodeId Where(NodeId goes, NodeId index, int64_t otherwise) {
    const ir::View view = g_.ViewOf(index);
    const NodeId base = g_.BaseOf(index);
    const NodeId chosen = b_.Select(goes, base, b_.Scalar(b_.dtype(base), static_cast<double>(otherwise)));
    return b_.ViewNode(chosen, view);
  }

  // The states behind another round.
  std::vector<NodeId> Round(int64_t round, const std::vector<NodeId>& states, NodeId goes) {
    std::vector<NodeId> now(static_cast<size_t>(g_.size()), kNoNode);
    const auto of = [&](NodeId id) {
      const NodeId own = static_cast<size_t>(id) < now.size() ? now[static_cast<size_t>(id)] : kNoNode;
      return own == kNoNode ? id : own;
    };
    for (size_t s = 0; s < states.size(); ++s) {
      // What reads a state that is never written runs in any case (compiler/fusion/conditions.cc): a copy.
      const bool stays = after_[s] == before_[s];
      now[static_cast<size_t>(before_[s])] =
          stays ? b_.Select(goes, states[s], b_.Scalar(b_.dtype(states[s]), 0)) : states[s];
    }
    for (size_t input : others_) now[static_cast<size_t>(g_.inputs[input].node)] = Advance(input, round);
    for (NodeId id : body_) {
      if (g_.node(id).op == Op::kView) {
        now[static_cast<size_t>(id)] = b_.ViewNode(of(g_.node(id).inputs[0]), g_.ViewOf(id));
        continue;
      }
      Node copy = g_.node(id);
      copy.name.clear();
      for (NodeId& input : copy.inputs) input = of(input);
      for (auto* edges : {&copy.weak_after, &copy.strong_after}) {
        for (NodeId& before : *edges) before = of(before);
      }
      if (copy.op == Op::kIndexedRead || copy.op == Op::kIndexedWrite)
        Guard(goes, writes_.count(id) != 0, &copy);
      now[static_cast<size_t>(id)] = g_.Add(std::move(copy));
    }
    std::vector<NodeId> next;
    for (size_t s = 0; s < states.size(); ++s) {
      const NodeId value = after_[s] == before_[s] ? states[s] : of(after_[s]);
      next.push_back(in_place_[s] ? value : b_.Select(goes, value, states[s]));
    }
    return next;
  }

  // A round that is left out reads element 0, and writes none; what is written at a fixed place stays.
  void Guard(NodeId goes, bool writes_state, Node* copy) {
    ir::IndexedAttrs& attrs = copy->As<ir::IndexedAttrs>();
    const size_t first = copy->inputs.size() - attrs.dims.size();
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      ir::IndexedDim& dim = attrs.dims[k];
      NodeId& index = copy->inputs[first + k];
      if (writes_state && k == 0) {
        index = Where(goes, index, dim.extent);
        dim.fault = false;
      } else if (dim.fault && !b_.AlwaysInside(index, dim)) {
        index = Where(goes, index, 0);
      }
    }
    if (!writes_state) return;
    const NodeId stays =
        attrs.dims.empty() ? b_.ViewNode(copy->inputs[0], attrs.map) : b_.Scalar(copy->dtype, 0);
    copy->inputs[1] = b_.Select(goes, copy->inputs[1], stays);
  }

  Graph& g_;
  Builder b_;
  const int64_t rounds_;
  std::vector<NodeId> body_;            // in order
  std::vector<NodeId> before_, after_;  // by state
  std::vector<bool> in_place_;          // by state: written by indices, or not at all
  std::set<NodeId> writes_;             // those
  std::vector<size_t> others_;          // inputs that are no states
  size_t token_ = SIZE_MAX;             // the state last_tokens
  size_t position_ = SIZE_MAX;          // an input without a known name
  int64_t texts_ = 0;
  NodeId wanted_ = kNoNode, stops_ = kNoNode, ended_ = kNoNode;
};

}  // namespace

Result<PassResult> TokenLoop(Graph* graph, const PassOptions& options) {
  PassResult result;
  result.text = "one round";
  if (options.token_rounds <= 1) return result;
  const NodeId before = graph->size();
  RONDO_RETURN_IF_ERROR(Loop(graph, options.token_rounds).Run());
  result.changes = graph->size() - before;
  result.text = std::to_string(options.token_rounds) + " rounds in a run";
  return result;
}

}  // namespace rondo::passes
