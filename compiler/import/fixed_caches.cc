// Caches of a fixed length from a model whose caches grow.
//
// The model is imported three times: for `length` positions after the run (what becomes the plan), and for
// one and two runs more (or less, where the model's tables end). The three graphs have the same nodes; what
// differs between them is what depends on the number of cached positions. A dimension of positions stays
// `length` long, position j at element j, and what lies behind the last real position is never read. What is
// left to change:
//   - the new rows are written where the cached ones end, instead of standing behind a full cache;
//   - numbers that count positions become sums with the real count;
//   - slices that begin where the cached positions end begin at the real count;
//   - constants that look the same from the end on (causal masks) are moved to the real end.
// Whatever differs in another way is refused. compiler/passes/limit_to_cached.cc lets attention see real
// positions only; where its numbers are rounded on their way, uncached_positions.h does.
#include "compiler/import/fixed_caches.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/import/cache_ports.h"
#include "compiler/import/cached_attention.h"
#include "compiler/import/chosen_by_length.h"
#include "compiler/import/decompose.h"
#include "compiler/import/growth.h"
#include "compiler/import/kept_rows.h"
#include "compiler/import/moved_views.h"
#include "compiler/import/place_by_place.h"
#include "compiler/import/uncached_positions.h"
#include "compiler/ir/port_names.h"
#include "compiler/ir/walk.h"

namespace rondo::importer {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

// Makes the first of the three graphs one for any number of cached positions up to its own.
class Fixer : Growth {
 public:
  Fixer(Graph* graph, const Graph& second, const Graph& third, const CachePorts& ports, int64_t length,
        int64_t rows, int64_t step)
      : Growth(graph, second, third, ports, length, rows, step), b_(graph) {}

  Status Run() {
    RONDO_RETURN_IF_ERROR(ReadExtents());
    RONDO_RETURN_IF_ERROR(CheckMasks());
    DropPlaceholder();
    MakeCount();
    const NodeId end = second_.size();
    for (NodeId id = 0; id < end; ++id) {
      if (second(id).dead) continue;
      FollowBehind(id);
      FollowFirst(id);
      if (g_->node(id).dead) continue;
      const Status status = Fix(id);
      if (!status.ok()) return Named(status, id);
    }
    b_.SetSources({"--cache-length"});
    b_.SetAnnotations({});
    for (size_t i = 0; i < g_->outputs.size(); ++i) RONDO_RETURN_IF_ERROR(FixOutput(i));
    RONDO_RETURN_IF_ERROR(DropWhereRounded());
    ChooseByTextLength(&b_, count_, rows_, totals_);
    FillUnread();
    RONDO_RETURN_IF_ERROR(DropOldInputs());
    DropIdentities();
    DropUnusedCount();
    g_->Compact();
    return Status::Ok();
  }

  FixedNotes notes() const {
    FixedNotes notes = notes_;
    notes.asks_for_mask = asks_for_mask_;
    return notes;
  }

 private:
  // Views of all of their base in order, which were kept so that the three graphs are alike.
  void DropIdentities() {
    for (NodeId id = 0; id < g_->size(); ++id) {
      const Node& n = g_->node(id);
      if (!n.dead && IsIdentity(*g_, id) && !g_->IsOutput(id)) g_->Replace(id, n.inputs[0]);
    }
  }

  // ------------------------------------------------------------------------------------ the ports

  // What was added to constants, so that nobody decided by them before they were put right.
  void DropPlaceholder() {
    if (g_->inputs.empty() || g_->inputs.back().name != kPlaceholder) return;
    const NodeId placeholder = g_->inputs.back().node;
    g_->inputs.pop_back();
    for (NodeId id = 0; id < g_->size(); ++id) {
      if (IsHidden(*g_, id, placeholder)) g_->Replace(id, g_->node(id).inputs[0]);
    }
    g_->Replace(placeholder, b_.Scalar(DType::kI64, 0));
  }

  Status CheckMasks() {
    for (const std::string& name : ports_.MasksToShow()) {
      const int at = ir::FindPort(g_->inputs, name);
      if (at < 0 || MasksCaches(g_->inputs[static_cast<size_t>(at)].node)) continue;
      asks_for_mask_ = true;
      return UnclearMask(name);
    }
    return Status::Ok();
  }

  // count_: how many positions are cached, i64 []. After the last real one of any batch entry the mask is 0.
  void MakeCount() {
    b_.SetSources({"--cache-length"});
    b_.SetAnnotations({});
    for (const std::string& name : ports_.masks) {
      const int at = ir::FindPort(g_->inputs, name);
      if (at < 0) continue;
      const Node& n = g_->node(g_->inputs[static_cast<size_t>(at)].node);
      if (n.shape.rank != 2 || IsFloat(n.dtype)) continue;
      NodeId none = b_.Binary(TapeOp::kEqual, n.id, b_.Scalar(n.dtype, 0));
      NodeId place = b_.BinaryScalar(TapeOp::kAdd, b_.Iota({length_}, 0), 1);
      NodeId last = b_.Select(none, b_.Scalar(DType::kI64, 0), place);
      last = b_.Reduce(ir::ReduceKind::kMax, last, {0, 1}, false);
      count_ = b_.BinaryScalar(TapeOp::kSub, last, static_cast<double>(rows_));
      count_ = b_.BinaryScalar(TapeOp::kMax, count_, 0);
      return;
    }
    for (const ir::GraphInput& input : g_->inputs) {
      if (input.name != ports_.lengths || IsFloat(g_->node(input.node).dtype)) continue;
      NodeId last = b_.Reshape(b_.Cast(input.node, DType::kI64), {g_->node(input.node).shape.elements()});
      last = b_.Reduce(ir::ReduceKind::kMax, last, {0}, false);
      count_ = b_.BinaryScalar(TapeOp::kSub, last, static_cast<double>(rows_ - 1));
      count_ = b_.BinaryScalar(TapeOp::kMax, count_, 0);
      return;
    }
    asked_ = b_.Input("past_sequence_length", DType::kI64, {1});
    count_ = b_.Reshape(asked_, Shape{});
  }

  // The input of the full length that stands for cache number `at`, of which the graph has the first part.
  NodeId FullCache(int at) {
    auto [it, added] = full_.emplace(at, kNoNode);
    if (added) {
      const ir::GraphInput old = g_->inputs[static_cast<size_t>(at)];
      Shape shape = g_->node(old.node).shape;
      for (int d = 0; d < shape.rank; ++d)
        shape[d] = extent(old.node, d) == Extent::kPast ? length_ : shape[d];
      it->second = b_.Input(old.name, g_->node(old.node).dtype, shape);
      g_->inputs.pop_back();
      g_->node(it->second).As<ir::InputAttrs>().index = at;
    }
    return it->second;
  }

  // Caches that the model does not read, but gives a run's rows for: it begins them, from their first row on.
  void FillUnread() {
    g_->RemoveDead();
    size_t begun = 0;
    for (const GrowingCache& cache : ports_.caches) {
      const int at = UnreadCache(*g_, cache), present = ir::FindPort(g_->outputs, cache.present);
      if (at < 0 || present < 0 || full_.count(at) != 0) continue;
      Shape whole = g_->node(g_->outputs[static_cast<size_t>(present)].node).shape;
      if (whole.rank <= cache.axis || whole[cache.axis] > length_) continue;
      whole[cache.axis] = length_;
      const NodeId full = FullCache(at);
      if (!(g_->node(full).shape == whole)) continue;
      BeginWithOutput(b_, full, static_cast<size_t>(present), cache.axis);
      ++begun;
    }
    notes_.begins = begun == ports_.caches.size();
  }

  // Where nothing depends on how much is cached, nobody is asked.
  void DropUnusedCount() {
    g_->RemoveDead();
    if (asked_ != kNoNode && g_->inputs.back().node == asked_ && g_->UsersOf(asked_).empty())
      g_->inputs.pop_back();
  }

  Status DropOldInputs() {
    g_->RemoveDead();
    for (const auto& [at, node] : full_) {
      ir::GraphInput& input = g_->inputs[static_cast<size_t>(at)];
      const std::vector<NodeId> readers = g_->UsersOf(input.node);
      for (NodeId reader : readers) {
        if (g_->node(reader).dead) continue;
        return Named(
            Refuse("it reads the cached positions of \"" + input.name + "\" apart from the new ones"),
            reader);
      }
      input.node = node;
    }
    for (const GrowingCache& cache : ports_.caches) {
      const int at = ir::FindPort(g_->inputs, cache.past);
      const bool fixed =
          at >= 0 && g_->node(g_->inputs[static_cast<size_t>(at)].node).shape[cache.axis] == length_;
      if (!fixed)
        return Refuse("the cache \"" + cache.past + "\" is not what \"" + cache.present + "\" begins with");
    }
    return Status::Ok();
  }

  // An output with an element for every position has as many as a cache, and 0 behind the last real one.
  Status FixOutput(size_t at) {
    const ir::GraphOutput output = g_->outputs[at];
    const std::string& name = output.name;
    const NodeId id = output.node;
    const auto is_cache = [&](const GrowingCache& cache) { return cache.present == name; };
    if (std::any_of(ports_.caches.begin(), ports_.caches.end(), is_cache)) return Status::Ok();
    const NodeId was = second_.outputs[at].node;  // what the model has for it
    if (first_.count(was) != 0)
      return Named(
          Refuse("the output \"" + name + "\" has the first positions, of which a run may have fewer"), was);
    if (!Grows(was)) return Status::Ok();
    NodeId shown = id;
    for (int d = 0; d < second(was).shape.rank; ++d) {
      if (extent(was, d) == Extent::kFixed) continue;
      if (extent(was, d) != Extent::kTotal || behind_.count(was) != 0) {
        return Named(
            Status::Error(
                Code::kUnsupported,
                "--cache-length %lld: the output \"%s\" grows with the cached positions, and not by an "
                "element for each up to the run's last: take it from the model's outputs, if texts "
                "can be continued without, or compile the model for one number of cached positions "
                "(--shape)",
                static_cast<long long>(length_), name.c_str()),
            was);
      }
      Shape line = b_.shape(id);
      for (int other = 0; other < line.rank; ++other) line[other] = other == d ? length_ : 1;
      const NodeId real = b_.BinaryScalar(TapeOp::kAdd, count_, static_cast<double>(rows_));
      shown = b_.Select(b_.Binary(TapeOp::kLess, b_.Iota(line, d), real), shown, b_.Scalar(b_.dtype(id), 0));
    }
    g_->SetOutput(at, shown);
    notes_.grown.push_back(name);
    return Status::Ok();
  }

  // Attention whose numbers are rounded on their way (uncached_positions.h).
  Status DropWhereRounded() {
    std::vector<MaximumOfPositions> maxima;
    for (NodeId id = 0; id < second_.size(); ++id) {
      const Node& n = second(id);
      if (n.dead || g_->node(id).dead || n.op != Op::kReduce) continue;
      const ir::ReduceAttrs& attrs = n.As<ir::ReduceAttrs>();
      const bool found = attrs.kind == ir::ReduceKind::kMax && attrs.axes.size() == 1 &&
                         IsOfCache(n.inputs[0]) && IsFloat(second(n.inputs[0]).dtype);
      if (found && extent(n.inputs[0], attrs.axes[0]) == Extent::kTotal)
        maxima.push_back({id, attrs.axes[0]});
    }
    if (maxima.empty()) return Status::Ok();
    g_->RemoveDead();
    const NodeId real = b_.BinaryScalar(TapeOp::kAdd, count_, static_cast<double>(rows_));
    const NotShown not_shown = DropUncached(&b_, maxima, real);
    return not_shown.node == kNoNode ? Status::Ok() : Named(Refuse(not_shown.why), not_shown.node);
  }

  // ------------------------------------------------------------------------------------ the rules

  // What is computed from something behind all positions, place by place, has it there as well.
  void FollowBehind(NodeId id) {
    const std::vector<NodeId>& inputs = second(id).inputs;
    const auto has_it = [&](NodeId in) { return behind_.count(in) != 0; };
    if (std::none_of(inputs.begin(), inputs.end(), has_it)) return;
    for (int d = 0; d < second(id).shape.rank; ++d) {
      if (extent(id, d) == Extent::kBeyondTotal) behind_.insert(id);
    }
  }

  // A view of the first places of something, as many as a model's tables have: a model with fewer positions
  // has fewer of them. What is computed from them has them as well; what is of a cache is looked at again
  // once attention is known (compiler/passes/limit_to_cached.cc).
  void FollowFirst(NodeId id) {
    const Node& n = second(id);
    const auto of_cache = [&](NodeId in) { return of_cache_.count(in) != 0; };
    const auto first = [&](NodeId in) { return first_.count(in) != 0; };
    const bool all = std::all_of(n.inputs.begin(), n.inputs.end(), of_cache);
    const bool any = std::any_of(n.inputs.begin(), n.inputs.end(), of_cache);
    if (CacheAt(id) >= 0 || (n.op == Op::kMatMul ? any && !all : any)) of_cache_.insert(id);
    if (any || n.op == Op::kReduce || n.op == Op::kMatMul) return;
    if (std::any_of(n.inputs.begin(), n.inputs.end(), first) || (n.op == Op::kView && ShowsFirst(n)))
      first_.insert(id);
  }

  bool ShowsFirst(const Node& view) const {
    constexpr int64_t kMostLookedAt = 1 << 16;
    const Node& base = second(view.inputs[0]);
    if (Grows(view.id) || !Grows(base.id) || HasRowsInOne(base.id)) return false;
    if (view.shape.elements() > kMostLookedAt) return true;
    int64_t stride = base.shape.elements();
    const std::vector<int64_t> places = ir::ResolveAll(view.As<ir::ViewAttrs>().view);
    for (int d = 0; d < base.shape.rank; ++d) {
      stride /= base.shape[d];
      if (extent(base.id, d) == Extent::kFixed) continue;
      std::set<int64_t> seen;
      for (const int64_t place : places) seen.insert(place / stride % base.shape[d]);
      if (seen.size() > 1 && *seen.begin() < rows_ && *seen.rbegin() >= rows_) return true;
    }
    return false;
  }

  Status CheckFirst(NodeId id) const {
    const std::vector<NodeId>& inputs = second(id).inputs;
    const auto first = [&](NodeId in) { return first_.count(in) != 0; };
    if (std::none_of(inputs.begin(), inputs.end(), first)) return Status::Ok();
    if (second(id).op == Op::kReduce) {
      const ir::ReduceAttrs& attrs = second(id).As<ir::ReduceAttrs>();
      const auto counts = [&](int axis) { return CountsMask(inputs[0], axis); };
      if (attrs.kind == ir::ReduceKind::kSum && std::any_of(attrs.axes.begin(), attrs.axes.end(), counts))
        return Status::Ok();
    }
    return Refuse("it adds up over the first positions, of which a run may have fewer");
  }

  Status Fix(NodeId id) {
    const Node& n = g_->node(id);
    b_.SetSources(n.sources);
    b_.SetAnnotations(n.annotations);
    switch (n.op) {
      case Op::kInput:
        if (!Grows(id) || CacheAt(id) >= 0 || IsOfPositions(id)) return Status::Ok();
        return Refuse("the input \"" + n.name + "\" has a dimension of positions that is not its last");
      case Op::kConstant: return FixConstant(id);
      case Op::kView:
        return HasRowsInOne(id) || HasRowsInOne(second(id).inputs[0]) ? CheckRowsInOne(id) : FixMap(id);
      case Op::kIndexedRead: return HasRowsInOne(second(id).inputs[0]) ? FixRowsInOne(id) : FixMap(id);
      case Op::kIndexedWrite:
        if (!Grows(id) && Grows(second(id).inputs[1])) return FixFilled(id);
        RONDO_RETURN_IF_ERROR(FixMap(id));
        KeepWritten(id);
        return Status::Ok();
      case Op::kConcat: return FixConcat(id);
      case Op::kReduce: RONDO_RETURN_IF_ERROR(CheckFirst(id)); return CheckReduce(id);
      case Op::kMatMul: RONDO_RETURN_IF_ERROR(CheckFirst(id)); return CheckMatMul(id);
      case Op::kPointwise:
      case Op::kIota: return Status::Ok();
      case Op::kAttention:
        if (n.As<ir::AttentionAttrs>().scale == second(id).As<ir::AttentionAttrs>().scale)
          return Status::Ok();
        return Refuse("the scale of attention depends on the number of cached positions");
      default: {
        const std::vector<NodeId>& inputs = second(id).inputs;
        const auto grows = [&](NodeId in) { return Grows(in); };
        if (!Grows(id) && std::none_of(inputs.begin(), inputs.end(), grows)) return Status::Ok();
        return Refuse(std::string("an operation (") + ir::Name(n.op) + ") over the cached positions");
      }
    }
  }

  Status FixConstant(NodeId id) {
    const Node &a = g_->node(id), &b = second(id), &c = third(id);
    const auto &x = a.As<ir::ConstantAttrs>().data, &y = b.As<ir::ConstantAttrs>().data;
    if (x->synthetic || y->synthetic || (x->bytes.data() == y->bytes.data() && a.shape == b.shape))
      return Status::Ok();
    if (Alike(id, b, 0) && Alike(id, c, 0)) return Status::Ok();
    if (Linear(id)) return Status::Ok();
    int axis = -1, growing = 0;
    for (int d = 0; d < a.shape.rank; ++d) {
      if (extent(id, d) == Extent::kTotal) axis = d;
      growing += extent(id, d) != Extent::kFixed;
    }
    if (growing != 1 || axis < 0 || !Alike(id, b, rows_) || !Alike(id, c, 2 * rows_)) {
      return Refuse(std::string("numbers of shape ") + Text(a.shape) +
                    " depend on the number of cached positions in a way that rondo cannot follow");
    }
    // The same from the end on: element j is that of position j - count + past.
    NodeId place =
        b_.Sub(b_.BinaryScalar(TapeOp::kAdd, b_.Iota({length_}, 0), static_cast<double>(past())), count_);
    place = Clamp(b_, place, 0, static_cast<double>(length_ - 1));
    g_->Replace(id, b_.Gather(b_.Constant(x), place, axis, false));
    return Status::Ok();
  }

  // Replaces numbers that grow by the same with every position. False if these do not.
  bool Linear(NodeId id) {
    const Node& a = g_->node(id);
    std::vector<double> slope;
    if (!Slopes(id, &slope)) return false;
    const DType dtype = IsFloat(a.dtype) ? DType::kF32 : DType::kI64;
    NodeId moved = b_.Cast(b_.BinaryScalar(TapeOp::kSub, count_, static_cast<double>(past())), dtype);
    NodeId rise = IsFloat(dtype) ? b_.Floats(dtype, a.shape, slope)
                                 : b_.Ints(dtype, a.shape, std::vector<int64_t>(slope.begin(), slope.end()));
    NodeId base = b_.Cast(b_.Constant(a.As<ir::ConstantAttrs>().data), dtype);
    std::vector<int64_t> values;
    const bool whole = !IsFloat(dtype) && b_.ConstantInts(id, &values);
    const NodeId now = b_.Cast(b_.Add(base, b_.Mul(rise, moved)), a.dtype);
    g_->Replace(id, now);
    for (size_t i = 0; whole && i < values.size(); ++i) {
      if (values[i] == length_ && slope[i] == 1) totals_.push_back({now, static_cast<int64_t>(i)});
    }
    return true;
  }

  const ir::View& MapOf(const Node& n) const {
    return n.op == Op::kView ? n.As<ir::ViewAttrs>().view : n.As<ir::IndexedAttrs>().map;
  }

  // A view, or what a read or write adds to its indices: moved with the count where it moves with the
  // model's.
  Status FixMap(NodeId id) {
    const Node &a = g_->node(id), &b = second(id), &c = third(id);
    const NodeId data = a.inputs[0], was = b.inputs[0];  // now, and in the model
    const Shown here = {MapOf(a), g_->node(was).shape}, then = {MapOf(b), second(was).shape},
                last = {MapOf(c), third(was).shape};
    const auto ahead = step_ > 0 ? MoveOf(here, then, last) : MoveOf(last, then, here);
    int64_t move = 0, run = 1;  // of a run's rows, in elements of what the view shows
    for (int d = here.base.rank; ahead && d-- > 0; run *= here.base[d])
      move += (*ahead)[static_cast<size_t>(d)] * run;
    if (!ahead || move % rows_ != 0)
      return Refuse("it shows the cached positions in an order that depends on their number");
    ir::IndexedAttrs attrs;
    if (a.op != Op::kView) attrs = a.As<ir::IndexedAttrs>();
    std::vector<NodeId> index(
        a.inputs.begin() + std::min<ptrdiff_t>(std::ssize(a.inputs), a.op == Op::kIndexedWrite ? 2 : 1),
        a.inputs.end());
    bool changed = move != 0, by_place = changed;
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      // From the end on would count from the end of the cache.
      const bool along = b.As<ir::IndexedAttrs>().dims[k].extent != attrs.dims[k].extent;
      by_place = by_place || along;
      changed = changed || (along && attrs.dims[k].wrap);
      if (along && attrs.dims[k].wrap) {
        const NodeId place = b_.Cast(index[k], DType::kI64);
        const auto beside = static_cast<double>(attrs.dims[k].extent - past());
        const NodeId from_end = b_.Add(place, b_.BinaryScalar(TapeOp::kAdd, count_, beside));
        index[k] = b_.Select(b_.BinaryScalar(TapeOp::kLess, place, 0), from_end, place);
      }
      attrs.dims[k].wrap = attrs.dims[k].wrap && !along;
    }
    if (by_place && behind_.count(was) != 0)
      return Refuse("it may show what stands behind all positions, which is elsewhere in a fixed cache");
    if (!changed) return Status::Ok();
    attrs.map = MapOf(a);
    if (move != 0) {
      const int64_t stride = move / rows_;
      attrs.map.steps[0].offset -= stride * past();
      if (LeastElement(attrs.map) < 0) return Refuse("it would begin before the first position");
      if (GreatestElement(attrs.map) >= here.base.elements()) return FixFromEnd(id, here, *ahead);
      attrs.dims.push_back({stride, past() + 1, false});
      index.push_back(count_);
    }
    const NodeId instead = a.op == Op::kIndexedWrite ? b_.IndexedWrite(data, a.inputs[1], index, attrs)
                                                     : b_.IndexedRead(data, index, attrs, a.shape);
    g_->Replace(id, instead);
    return Status::Ok();
  }

  // Positions that are filled up to a fixed number: what fills them begins behind the last real one.
  Status FixFilled(NodeId id) {
    const Node& n = g_->node(id);
    const NodeId base = n.inputs[0], was = second(id).inputs[1];
    const Shown here = {MapOf(n), n.shape}, then = {MapOf(second(id)), n.shape},
                last = {MapOf(third(id)), n.shape};
    const auto ahead = step_ > 0 ? MoveOf(here, then, last) : MoveOf(last, then, here);
    const bool moves =
        !ahead || std::any_of(ahead->begin(), ahead->end(), [](int64_t by) { return by != 0; });
    const Node& fill = g_->node(g_->BaseOf(base));
    if (moves || !n.As<ir::IndexedAttrs>().dims.empty() || fill.op != Op::kConstant ||
        fill.shape.elements() != 1)
      return Refuse("it puts the cached positions into something of a fixed length");
    NodeId rows = n.inputs[1];
    const Shape shape = b_.shape(rows);
    for (int d = 0; d < shape.rank; ++d) {
      if (extent(was, d) == Extent::kFixed) continue;
      const NodeId real = b_.BinaryScalar(TapeOp::kAdd, count_, static_cast<double>(shape[d] - past()));
      const NodeId holds = b_.Binary(TapeOp::kLess, b_.Iota(shape, d), real);
      rows = b_.Select(holds, rows, b_.Reshape(fill.id, Shape{}));
    }
    const ir::IndexedAttrs attrs = g_->node(id).As<ir::IndexedAttrs>();
    g_->Replace(id, b_.IndexedWrite(base, rows, {}, attrs));
    return Status::Ok();
  }

  // A view of the last places of something, as many as there are positions: what is behind the last real one
  // shows the last place.
  Status FixFromEnd(NodeId id, const Shown& here, const std::vector<int64_t>& ahead) {
    const Node& n = g_->node(id);
    const std::optional<MovedLine> line = LineOf(here, ahead);
    if (n.op != Op::kView || !line || n.shape[line->dim] != length_)
      return Refuse("it would end behind the last position");
    ir::IndexedAttrs attrs;
    attrs.map = MapOf(n);
    attrs.map.steps[0].offset -= line->start * line->stride;
    attrs.map.steps[0].strides[line->dim] = 0;
    attrs.dims = {{line->stride, line->extent, false}};
    Shape along = n.shape;
    for (int d = 0; d < along.rank; ++d) along[d] = d == line->dim ? length_ : 1;
    NodeId place =
        b_.BinaryScalar(TapeOp::kAdd, b_.Iota(along, line->dim), static_cast<double>(line->start + past()));
    place = Clamp(b_, b_.Sub(place, count_), 0, static_cast<double>(line->extent - 1));
    const NodeId data = n.inputs[0];
    const Shape shape = n.shape;
    g_->Replace(id, b_.IndexedRead(data, {b_.Expand(place, shape)}, attrs, shape));
    return Status::Ok();
  }

  // Several rows of positions as one dim, or what was one as several rows: each row is `length` long in the
  // plan, wherever it begins.
  Status CheckRowsInOne(NodeId id) const {
    const ir::View& view = MapOf(g_->node(id));
    const ir::ViewStep& step = view.steps.back();
    const bool one = view.affine() && std::all_of(step.strides, step.strides + step.shape.rank,
                                                  [](int64_t stride) { return stride == 0; });
    if (one || ir::IsDense(view, g_->node(g_->node(id).inputs[0]).shape.elements())) return Status::Ok();
    return Refuse("it shows several rows of the cached positions as one, and not all of them in order");
  }

  // A read from such a dim: its index counts rows as long as the real positions are.
  Status FixRowsInOne(NodeId id) {
    const Node& n = g_->node(id);
    const NodeId data = n.inputs[0];
    ir::IndexedAttrs attrs = n.As<ir::IndexedAttrs>();
    const std::vector<ir::IndexedDim>& then = second(id).As<ir::IndexedAttrs>().dims;
    std::vector<NodeId> index(n.inputs.begin() + 1, n.inputs.end());
    const Shape shape = n.shape;
    const NodeId real = b_.BinaryScalar(TapeOp::kAdd, count_, static_cast<double>(rows_));
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      if (attrs.dims[k].extent == then[k].extent) continue;
      if (attrs.dims[k].extent % length_ != 0)
        return Refuse("it reads several rows of the cached positions as one");
      const auto rows = static_cast<double>(attrs.dims[k].extent / length_);
      NodeId place = b_.Cast(index[k], DType::kI64);
      if (attrs.dims[k].wrap) {
        const NodeId from_end = b_.Add(place, b_.BinaryScalar(TapeOp::kMul, real, rows));
        place = b_.Select(b_.Binary(TapeOp::kLess, place, b_.Scalar(DType::kI64, 0)), from_end, place);
        attrs.dims[k].wrap = false;
      }
      const NodeId row = b_.Binary(TapeOp::kDiv, place, real);
      const NodeId behind =
          b_.Binary(TapeOp::kSub, b_.Scalar(DType::kI64, static_cast<double>(length_)), real);
      // Of a place behind the real ones, which nobody looks at, any will do.
      const double last = static_cast<double>(attrs.dims[k].extent - 1);
      index[k] = b_.BinaryScalar(TapeOp::kMin, b_.Add(place, b_.Mul(row, behind)), last);
    }
    g_->Replace(id, b_.IndexedRead(data, index, attrs, shape));
    return Status::Ok();
  }

  // Whether what stands behind the cached positions is no more than room for what the same operator writes.
  // `writes`: where it does.
  bool HasRoom(const Node& concat, std::vector<NodeId>* writes) {
    const auto is_write = [&](NodeId id) {
      const Node& n = g_->node(id);
      return n.op == Op::kIndexedWrite && n.inputs[0] == concat.id && n.sources == concat.sources;
    };
    *writes = g_->UsersOf(concat.id);
    return second(second_.BaseOf(concat.inputs[1])).op == Op::kConstant &&
           std::all_of(writes->begin(), writes->end(), is_write);
  }

  // Rows that an operator writes to a cache that is kept otherwise than it reads it.
  void KeepWritten(NodeId id) {
    const auto found = kept_.find(id);
    if (found == kept_.end() || g_->node(id).dead) return;
    const KeptRows& kept = found->second;
    const NodeId cache = FullCache(kept.cache);
    const Node& n = g_->node(id);
    const std::vector<NodeId> places(n.inputs.begin() + 2, n.inputs.end());
    WriteAsKept(b_, kept, n.inputs[1], [&](NodeId rows) {
      return b_.IndexedWrite(cache, rows, places, g_->node(id).As<ir::IndexedAttrs>());
    });
  }

  // Node `id`, of the cached positions, for all `length`: made of a cache by casts, by scalar operations with
  // numbers, and by views that only grow. kNoNode if it is made otherwise.
  NodeId Whole(NodeId id) {
    if (const int at = CacheAt(id); at >= 0) return FullCache(at);
    const Node& n = g_->node(id);
    if (id >= second_.size()) return kNoNode;  // moved with the count
    if (n.op == Op::kView) {
      const auto map = [](const Node& view) -> const ir::View& { return view.As<ir::ViewAttrs>().view; };
      const std::optional<ir::View> whole =
          step_ > 0 ? Grown(map(n), map(n), map(second(id))) : Grown(map(n), map(second(id)), map(n));
      const NodeId base = whole ? Whole(n.inputs[0]) : kNoNode;
      return base == kNoNode ? kNoNode : b_.ViewNode(base, *whole);
    }
    if (n.op != Op::kPointwise) return kNoNode;
    std::vector<NodeId> inputs;
    for (NodeId in : n.inputs) {
      const std::shared_ptr<const ir::ConstantData> number = OneNumberOf(*g_, in);
      inputs.push_back(number != nullptr ? b_.Constant(number) : Whole(in));
      if (inputs.back() == kNoNode) return kNoNode;
    }
    const ir::PointwiseAttrs attrs = g_->node(id).As<ir::PointwiseAttrs>();
    return b_.Pointwise(attrs, g_->node(id).dtype, std::move(inputs));
  }

  // Cached positions and new ones behind them: the new ones are written where the cached ones end.
  Status FixConcat(NodeId id) {
    const Node& n = g_->node(id);
    const int axis = n.As<ir::ConcatAttrs>().axis;
    const std::vector<NodeId>& inputs = second(id).inputs;  // as the model has them
    const auto grows = [&](NodeId in) { return extent(in, axis) != Extent::kFixed; };
    if (extent(id, axis) == Extent::kFixed && std::none_of(inputs.begin(), inputs.end(), grows))
      return Status::Ok();
    const NodeId old = inputs[0];
    // Positions, each at its place, and something behind them all.
    if (inputs.size() == 2 && extent(old, axis) == Extent::kTotal && !grows(inputs[1])) {
      behind_.insert(id);
      return Status::Ok();
    }
    if (inputs.size() != 2 || extent(id, axis) != Extent::kTotal || extent(old, axis) != Extent::kPast ||
        g_->node(n.inputs[1]).shape[axis] != rows_) {
      return Refuse("a concatenation along the cached positions that is not cached ones before new ones");
    }
    Shape line;
    line.rank = n.shape.rank;
    std::fill(line.dims, line.dims + line.rank, 1);
    line[axis] = rows_;
    const NodeId rows = n.inputs[1], base = second_.BaseOf(old);
    if (const std::optional<KeptRows> kept = FindKeptRows(g_, ports_, n.inputs[0], id)) {
      const NodeId places = b_.Add(b_.Iota(line, axis), count_), whole = FullCache(kept->cache);
      WriteAsKept(b_, *kept, rows,
                  [&](NodeId as_kept) { return WriteRows(b_, whole, as_kept, places, axis); });
      return Status::Ok();
    }
    std::vector<NodeId> writes;
    const bool has_room = HasRoom(n, &writes);
    if (has_room && writes.size() == 1) {
      if (const std::optional<KeptRows> kept = FindKeptRows(g_, ports_, n.inputs[0], writes[0]))
        kept_.emplace(writes[0], *kept);
    }
    NodeId cache = kNoNode;
    if (const int at = CacheAt(base); at >= 0 && base == old) {
      cache = FullCache(at);
    } else if (cache = Whole(n.inputs[0]); cache == kNoNode) {
      if (at >= 0) return Refuse("the cache is shown in a form that depends on the number of its positions");
      std::vector<int64_t> before(static_cast<size_t>(n.shape.rank)), after = before;
      after[static_cast<size_t>(axis)] = rows_;
      cache = b_.PadConstant(n.inputs[0], b_.Scalar(n.dtype, 0), before, after);
    }
    if (has_room) {
      g_->Replace(id, cache);
      return Status::Ok();
    }
    const NodeId places = b_.Add(b_.Iota(line, axis), count_);
    g_->Replace(id, WriteRows(b_, cache, rows, places, axis));
    return Status::Ok();
  }

  ir::Builder b_;
  FixedNotes notes_;
  std::map<int, NodeId> full_;       // by number of an input
  std::map<NodeId, KeptRows> kept_;  // by what writes them
  std::set<NodeId> behind_;          // that have something behind all positions, where the last of them ends
  std::set<NodeId> first_;           // that have the first positions, as many as a number says, of no cache
  std::set<NodeId> of_cache_;        // that are computed from one, up to what adds up over its positions
  std::vector<ElementOf> totals_;    // the number of positions up to the run's end
  NodeId count_ = kNoNode;
  NodeId asked_ = kNoNode;  // the input that count_ is, if no mask says it
};

}  // namespace

bool IsHidden(const Graph& graph, NodeId id, NodeId placeholder) {
  const Node& n = graph.node(id);
  if (n.dead || n.op != Op::kPointwise || n.inputs.size() != 2) return false;
  const NodeId zero = graph.BaseOf(n.inputs[1]);
  const bool cast =
      zero != placeholder && graph.node(zero).op == Op::kPointwise && graph.node(zero).inputs.size() == 1;
  return zero == placeholder || (cast && graph.BaseOf(graph.node(zero).inputs[0]) == placeholder);
}

int UnreadCache(Graph& graph, const GrowingCache& cache) {
  const int at = ir::FindPort(graph.inputs, cache.past);
  return at >= 0 && graph.UsersOf(graph.inputs[static_cast<size_t>(at)].node).empty() ? at : -1;
}

Status UnclearMask(const std::string& name) {
  return Status::Error(Code::kInvalidArgument,
                       "--cache-length: \"%s\" has a length of its own, and nothing shows that it is a mask "
                       "over cached positions: --position-mask %s says that it is; if it is of something "
                       "else, --position-mask NAME (none, where there is no such mask) and its length "
                       "(--shape)",
                       name.c_str(), name.c_str());
}

Result<ir::Graph> FixCaches(const ir::Graph& graph, const ir::Graph& second, const ir::Graph& third,
                            const CachePorts& ports, int64_t length, int64_t rows, int64_t step,
                            FixedNotes* notes) {
  ir::Graph fixed = graph;
  Fixer fixer(&fixed, second, third, ports, length, rows, step);
  const Status status = fixer.Run();
  *notes = fixer.notes();
  RONDO_RETURN_IF_ERROR(status);
  return fixed;
}

}  // namespace rondo::importer
