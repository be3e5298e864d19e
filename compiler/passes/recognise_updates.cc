// Places the tensor of a state's output in the state's own storage, starting from the output: a view places
// its base through the inverse map, a concatenation its pieces in slices, an update its data in its own
// place. If the state input arrives under the same map, it has not moved: it stays in place, and only the
// updates on the path are written. If it arrives under another map, it is written to its new place.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/ir/rebase.h"
#include "compiler/ir/versions.h"
#include "compiler/passes/match.h"
#include "compiler/passes/one_hot.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

using ir::Region;

// One write of the chain: an update of the model in new coordinates, or a piece of a concatenation.
struct Write {
  NodeId origin = kNoNode;  // the node of the model that computes the updates,
  NodeId placer = kNoNode;  // and the one that puts them there, if that is another
  NodeId updates = kNoNode;
  std::vector<NodeId> index;
  ir::IndexedAttrs attrs;
  bool moves = false;  // writes the state's own data from another place
};

// A node of the model, and the place of its elements in the storage after `writes`.
struct Placed {
  View place;
  std::vector<size_t> writes;  // into State::writes
};

// Rewrites one state of a graph in a trial. On failure `why` has the reason, and the changes must be taken
// back.
class State {
 public:
  State(Graph* g, const ir::StatePair& pair)
      : g_(g),
        input_(g->inputs[static_cast<size_t>(pair.input)].node),
        output_(static_cast<size_t>(pair.output)) {}

  bool Rewrite() {
    const NodeId out = g_->outputs[output_].node;
    if (ChainedByCalls()) return Readers();
    if (out == input_ || !Place(out, ir::DenseView(g_->node(input_).shape))) return false;
    if (!kept_) return Fail("the output keeps nothing of the input");
    if (MovesOnly()) return Fail("elements of the state move within it");
    return (AlreadyChained() || Chain()) && Readers();
  }
  const std::string& why() const { return why_; }
  int64_t writes() const { return static_cast<int64_t>(writes_.size()); }

 private:
  bool Fail(const std::string& why) {
    why_ = why;
    return false;
  }

  std::string Describe(NodeId id) const {
    const Node& n = g_->node(id);
    return n.sources.empty() ? std::string(ir::Name(n.op)) : n.sources[0];
  }

  // True if `id` is a view of the state input, or made only of such views.
  bool OnlyShowsInput(NodeId id) const { return g_->BaseOf(id) == input_; }

  bool Place(NodeId id, const View& place, int depth = 0) {
    if (depth > kMostUpdates) return Fail("more than " + std::to_string(kMostUpdates) + " updates in a row");
    auto [it, added] = placed_.emplace(id, Placed{place, {}});
    if (!added) return it->second.place == place || Fail("one result would be needed at two places");
    if (OnlyShowsInput(id)) {
      kept_ = true;
      return g_->ViewOf(id) == place || Fresh(id, place, true);
    }
    const Node& n = g_->node(id);
    const std::vector<NodeId> in = n.inputs;
    switch (n.op) {
      case Op::kView: {
        const std::optional<View> base = PlaceBehind(id, place);
        if (!base) return Fresh(id, place);
        bool placed = Place(in[0], *base, depth + 1);
        if (placed) Inherit(id, in[0]);
        return placed;
      }
      case Op::kConcat: {
        int axis = n.As<ir::ConcatAttrs>().axis;
        const NodeId outer = std::exchange(concat_, id);
        int64_t at = 0;
        for (NodeId piece : in) {
          int64_t count = g_->node(piece).shape[axis];
          if (!Place(piece, ir::Slice(place, axis, at, 1, count), depth + 1)) return false;
          Inherit(id, piece);
          at += count;
        }
        concat_ = outer;
        return true;
      }
      case Op::kIndexedWrite: {
        Write write{id, kNoNode, in[1], {in.begin() + 2, in.end()}, n.As<ir::IndexedAttrs>()};
        if (!LeadsToInput(in[0])) return Fresh(id, place);
        if (!Place(in[0], place, depth + 1)) return false;
        Inherit(id, in[0]);
        if (!ir::Rebase(place, &write.attrs))
          return Fail("the index of " + Describe(id) + " has no plain stride in the state");
        return Record(id, write);
      }
      case Op::kPointwise: return PlaceOneHot(id, place, depth);
      case Op::kCall:
      case Op::kCallResult: return PlaceChanged(id, place, depth);
      default: return Fresh(id, place);
    }
  }

  // What a call makes of an argument that it changes: where that is a part of the state in its own place,
  // what was written there before stays a write to the state, and the call's result is one more.
  bool PlaceChanged(NodeId id, const View& place, int depth) {
    const ir::VersionStep step = ir::VersionStepOf(*g_, id);
    if (step.runs == kNoNode) return Fresh(id, place);
    const NodeId data = g_->node(step.runs).inputs[step.slot];
    const View from = ir::Reshape(place, g_->node(data).shape);
    std::set<NodeId> seen;
    if (!LeadsToInput(data) || !Stays(data, from, &seen)) return Fresh(id, place);
    if (!Place(data, from, depth + 1)) return false;
    Inherit(id, data);
    if (!Fresh(id, place)) return false;
    writes_.back().placer = concat_;  // the call itself writes nothing more
    return true;
  }

  // Whether all that `id` has of the state, through what Place walks, is at `place` where it is in the state.
  bool Stays(NodeId id, const View& place, std::set<NodeId>* seen) const {
    if (OnlyShowsInput(id)) return g_->ViewOf(id) == place;
    if (!seen->insert(id).second) return true;
    const Node& n = g_->node(id);
    if (n.op == Op::kView) {
      const std::optional<View> base = PlaceBehind(id, place);
      return base && Stays(n.inputs[0], *base, seen);
    }
    if (n.op == Op::kConcat) {
      const int axis = n.As<ir::ConcatAttrs>().axis;
      int64_t at = 0;
      for (NodeId piece : n.inputs) {
        const int64_t count = g_->node(piece).shape[axis];
        if (!Stays(piece, ir::Slice(place, axis, at, 1, count), seen)) return false;
        at += count;
      }
      return true;
    }
    const ir::VersionStep step = ir::VersionStepOf(*g_, id);
    if (step.runs == kNoNode) return true;
    const NodeId data = g_->node(step.runs).inputs[step.slot];
    return Stays(data, ir::Reshape(place, g_->node(data).shape), seen);
  }

  // The place of what view `id` shows. A view that leaves something out may show a version of the whole state
  // as it lies.
  std::optional<View> PlaceBehind(NodeId id, const View& place) const {
    const NodeId base = g_->node(id).inputs[0];
    const View& view = g_->node(id).As<ir::ViewAttrs>().view;
    const Shape& shape = g_->node(base).shape;
    if (const std::optional<View> behind = ir::PlaceBehind(view, shape, place)) return behind;
    const View whole = ir::DenseView(shape);
    const bool part = shape.elements() == g_->node(input_).shape.elements() && view == place;
    std::set<NodeId> seen;
    return part && LeadsToInput(base) && Stays(base, whole, &seen) ? std::optional<View>(whole)
                                                                   : std::nullopt;
  }

  // Everything is rewritten, partly from moved data: better as a whole.
  bool MovesOnly() const {
    int64_t moved = 0;
    for (const Write& write : writes_) {
      if (!write.attrs.dims.empty()) return false;
      moved += write.moves;
    }
    return moved > 0;
  }

  // A selection that writes one position of a tensor derived from the state.
  bool PlaceOneHot(NodeId id, const View& place, int depth) {
    const std::optional<OneHotUpdate> update = OneHotUpdateOf(*g_, id);
    if (!update || !LeadsToInput(update->old)) return Fresh(id, place);
    if (!Place(update->old, place, depth + 1)) return false;
    Inherit(id, update->old);
    OneHotWrite made = MakeOneHotWrite(g_, id, *update);
    Write write{id, kNoNode, made.updates, {made.index}, std::move(made.attrs)};
    if (!ir::Rebase(place, &write.attrs))
      return Fail("the position that " + Describe(id) + " writes has no plain stride in the state");
    return Record(id, write);
  }

  // Whether the tensor's data comes, through views, updates and concatenations, from the state input.
  bool LeadsToInput(NodeId id) const {
    std::set<NodeId> seen;
    std::vector<NodeId> work = {id};
    while (!work.empty()) {
      const Node& n = g_->node(work.back());
      work.pop_back();
      if (n.id == input_) return true;
      if (!seen.insert(n.id).second) continue;
      const ir::VersionStep step = ir::VersionStepOf(*g_, n.id);
      if (step.runs != kNoNode) work.push_back(g_->node(step.runs).inputs[step.slot]);
      if (n.op == Op::kView) work.push_back(n.inputs[0]);
      if (n.op == Op::kConcat) work.insert(work.end(), n.inputs.begin(), n.inputs.end());
    }
    return false;
  }

  // A tensor that is not a version of the state, or an unchanged one: written to its place as a whole.
  bool Fresh(NodeId id, const View& place, bool moves = false) {
    if (!place.affine()) return Fail("the place of " + Describe(id) + " has no plain strides");
    Write write{id, kNoNode, id, {}, {}};
    write.attrs.map = place;
    write.attrs.may_collide = false;
    write.moves = moves;
    return Record(id, write);
  }

  bool Record(NodeId id, const Write& write) {
    placed_[id].writes.push_back(writes_.size());
    writes_.push_back(write);
    return true;
  }

  void Inherit(NodeId id, NodeId from) {
    const std::vector<size_t> writes = placed_[from].writes;
    placed_[id].writes.insert(placed_[id].writes.end(), writes.begin(), writes.end());
  }

  // Whether the output already is such a chain (from the model, or from an earlier run of the pass).
  bool AlreadyChained() {
    versions_.clear();
    NodeId id = g_->outputs[output_].node;
    for (ir::VersionStep step = ir::VersionStepOf(*g_, id); step.runs != kNoNode;
         step = ir::VersionStepOf(*g_, id)) {
      versions_.push_back(id);
      id = g_->node(step.runs).inputs[step.slot];
    }
    versions_.push_back(id);
    std::reverse(versions_.begin(), versions_.end());
    return id == input_;
  }

  // Whether it already is a chain and contains calls of custom ops, which cannot be moved.
  bool ChainedByCalls() {
    const auto called = [&](NodeId id) {
      return g_->node(id).op == Op::kCall || g_->node(id).op == Op::kCallResult;
    };
    return AlreadyChained() && std::any_of(versions_.begin(), versions_.end(), called);
  }

  // The writes in the model's order, each on the version before it; data that moves within the state is read
  // before anything else is written.
  bool Chain() {
    std::vector<size_t> turns(writes_.size());
    for (size_t i = 0; i < turns.size(); ++i) turns[i] = i;
    std::sort(turns.begin(), turns.end(), [&](size_t a, size_t b) {
      const NodeId x = writes_[a].origin, y = writes_[b].origin;
      return std::tuple(!writes_[a].moves, g_->RankOf(x), x) <
             std::tuple(!writes_[b].moves, g_->RankOf(y), y);
    });
    turn_of_.assign(writes_.size(), 0);
    NodeId version = input_;
    versions_ = {input_};
    for (size_t t = 0; t < turns.size(); ++t) {
      const Write& w = writes_[turns[t]];
      const NodeId like = w.placer == kNoNode ? w.origin : w.placer;
      ir::Builder b = BuilderLike(g_, like);
      version = b.IndexedWrite(version, w.updates, w.index, w.attrs);
      g_->node(version).sources = g_->node(like).sources;
      versions_.push_back(version);
      turn_of_[turns[t]] = t;
    }
    return CheckBranches() && CheckOutput() && Redirect(version);
  }

  // No part of the output is changed by a write that another part needs.
  bool CheckOutput() {
    std::vector<NodeId> work = {g_->outputs[output_].node};
    while (!work.empty()) {
      const NodeId id = work.back();
      work.pop_back();
      const NodeId base = g_->BaseOf(id);
      if (g_->node(base).op == Op::kConcat && placed_.count(base) != 0) {
        for (NodeId piece : g_->node(base).inputs) work.push_back(piece);
        continue;
      }
      const Placed& placed = placed_.at(id);
      const std::set<size_t> own(placed.writes.begin(), placed.writes.end());
      const Region region(placed.place);
      for (size_t w = 0; w < writes_.size(); ++w) {
        if (own.count(w) == 0 && region.Meets(Region::OfWrite(writes_[w].attrs)))
          return Fail("the output has " + Describe(id) + " as it was before " + Describe(writes_[w].origin));
      }
    }
    return true;
  }

  // A placed node sees the version after its own last write. Other writes of the chain up to there must not
  // touch its place.
  bool CheckBranches() {
    for (const auto& [id, placed] : placed_) {
      if (placed.writes.empty()) continue;
      std::set<size_t> own(placed.writes.begin(), placed.writes.end());
      size_t last = LastTurn(placed);
      Region region(placed.place);
      for (size_t w = 0; w < writes_.size(); ++w) {
        if (own.count(w) != 0 || turn_of_[w] > last) continue;
        if (region.Meets(Region::OfWrite(writes_[w].attrs))) {
          return Fail("updates of " + Describe(writes_[w].origin) + " and " + Describe(id) + " overlap");
        }
      }
    }
    return true;
  }

  size_t LastTurn(const Placed& placed) const {
    size_t last = 0;
    for (size_t w : placed.writes) last = std::max(last, turn_of_[w]);
    return last;
  }

  // Every version in the model becomes a view of the chain's version.
  bool Redirect(NodeId newest) {
    for (const auto& [id, placed] : placed_) {
      if (placed.writes.empty() || g_->node(id).dead) continue;
      const bool fresh = writes_[placed.writes.back()].updates == id;
      if (fresh) continue;
      NodeId version = versions_[LastTurn(placed) + 1];
      ir::Builder b = BuilderLike(g_, id);
      NodeId shown = b.ViewNode(version, placed.place);
      if (g_->node(id).op == Op::kView && g_->BaseOf(id) == version) continue;
      if (!g_->CanReplace(id, shown)) return Fail("control edges of " + Describe(id) + " forbid it");
      g_->Replace(id, shown);
      const std::vector<NodeId>& inputs = g_->node(id).inputs;
      left_.insert(left_.end(), inputs.begin(), inputs.end());
    }
    left_.push_back(g_->outputs[output_].node);
    g_->SetOutput(output_, newest);
    return g_->Acyclic() || Fail("its readers and updates wait for each other");
  }

  // Readers of an older version must run before any later write to what they read.
  bool Readers() {
    g_->RemoveUnused(std::move(left_));
    const std::string late = ir::OrderReaders(g_, ir::Versions(*g_, versions_));
    if (!late.empty()) return Fail(late);
    for (size_t v = 0; v + 1 < versions_.size(); ++v) {
      std::vector<NodeId> shown_by = g_->UsersOf(versions_[v]);
      std::erase_if(shown_by, [&](NodeId user) { return g_->node(user).op != Op::kView; });
      shown_by.push_back(versions_[v]);
      for (NodeId shown : shown_by) {
        if (!OutputsStayAt(shown, v)) return false;
      }
    }
    return true;
  }

  // Whether no later write touches what outputs show of version number `v` through node `shown`.
  bool OutputsStayAt(NodeId shown, size_t v) {
    const std::vector<size_t> outputs = g_->OutputsAt(shown);
    if (outputs.empty()) return true;
    const Region region(g_->ViewOf(shown));
    while (++v < versions_.size()) {
      if (region.Meets(Region::OfVersion(*g_, versions_[v])))
        return Fail("output " + g_->outputs[outputs[0]].name + " shows the state as it was before");
    }
    return true;
  }

  static constexpr int kMostUpdates = 512;  // of one state, one after another
  Graph* g_;
  NodeId input_;
  size_t output_;
  bool kept_ = false;
  NodeId concat_ = kNoNode;  // the innermost concatenation whose pieces are being placed
  std::map<NodeId, Placed> placed_;
  std::vector<Write> writes_;
  std::vector<size_t> turn_of_;   // for each write, its index in the chain
  std::vector<NodeId> left_;      // nodes that may be unneeded now
  std::vector<NodeId> versions_;  // the input, then the result of each write of the chain
  std::string why_;
};

}  // namespace

Result<PassResult> RecogniseUpdates(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  std::string failures;
  int64_t states = 0;
  std::vector<ir::StatePair> pairs = graph->states;
  for (const ir::Donation& donation : graph->donations) {
    if (donation.output >= 0) pairs.push_back({donation.input, donation.output, true});
  }
  for (const ir::StatePair& pair : pairs) {
    const std::string name = graph->inputs[static_cast<size_t>(pair.input)].name;
    if (graph->outputs[static_cast<size_t>(pair.output)].node ==
        graph->inputs[static_cast<size_t>(pair.input)].node) {
      ++states;
      continue;
    }
    graph->Try();
    State state(graph, pair);
    if (!state.Rewrite()) {
      graph->TakeBack();
      failures += std::string(pair.donated ? "\ndonated input " : "\nstate ") + name +
                  " is written as a whole: " + state.why();
      continue;
    }
    graph->Keep();
    ++states;
    result.changes += state.writes();
  }
  Tidy(graph);
  result.text = Count(result.changes, "in-place write") + " to " + Count(states, "state") + failures;
  return result;
}

}  // namespace rondo::passes
