// Caches of a fixed length for a model whose caches grow.
//
// The model is imported with `length` positions. The number of cached positions is a run-time size: every dim
// of positions has room for all of them, position j is element j, and elements beyond the last real position
// are never read. Numbers, ranges and masks that depend on the size are already computed at run time. The
// rest is done here:
//   - new rows are written at the end of the cached ones, instead of following a full cache;
//   - reductions over positions that are not of a cache leave out the empty positions;
//   - indices into a dim of several rows of positions count rows of length `length`.
// Any graph that cannot be followed is refused. compiler/passes/limit_to_cached.cc lets attention see only
// real positions; if its numbers are rounded on the way, mask_uncached_scores.h does.
#include "compiler/import/fixed_caches.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "compiler/import/cache_encoding.h"
#include "compiler/import/cache_length_analysis.h"
#include "compiler/import/cached_attention.h"
#include "compiler/import/decompose.h"
#include "compiler/import/mask_uncached_scores.h"
#include "compiler/import/neutral_number.h"
#include "compiler/import/place_by_place.h"
#include "compiler/import/select_by_text_length.h"
#include "compiler/ir/port_names.h"

namespace rondo::importer {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

// `view` with dim `axis` of its base, of shape `base`, `extent` long. None unless one dim of the view covers
// all of that dim in order.
std::optional<ir::View> Stretched(const ir::View& view, const Shape& base, int axis, int64_t extent) {
  ir::View out = view;
  Shape shape = base;
  for (ir::ViewStep& step : out.steps) {
    const Shape shown = step.shape;
    int64_t inner = 1;
    for (int d = axis + 1; d < shape.rank; ++d) inner *= shape[d];
    const int64_t whole = inner * shape[axis];
    int found = -1;
    for (int d = 0; d < shown.rank; ++d) {
      int64_t& stride = step.strides[d];
      if (stride < 0) return std::nullopt;
      if (stride % whole == 0) {
        stride = stride / whole * inner * extent;
      } else if (stride == inner && shown[d] == shape[axis] && found < 0) {
        found = d;
        step.shape[d] = extent;
      } else if (shown[d] > 1 && stride * (shown[d] - 1) >= inner) {
        return std::nullopt;
      }
    }
    if (found < 0 || step.offset % whole >= inner) return std::nullopt;
    step.offset = step.offset / whole * inner * extent + step.offset % whole;
    shape = shown;
    axis = found;
  }
  return out;
}

// Makes a graph valid for any number of cached positions up to its own.
class Fixer : CacheLengthAnalysis {
 public:
  Fixer(Graph* graph, ir::Sizes* sizes, const CachePorts& ports, int64_t length, const ir::Size& past,
        int64_t rows, const CachedCount& count)
      : CacheLengthAnalysis(graph, sizes, ports, length, past, rows),
        b_(graph),
        count_(count.node),
        asked_(count.asked) {
    b_.Follow(sizes);
  }

  Status Run() {
    RONDO_RETURN_IF_ERROR(ReadExtents());
    RONDO_RETURN_IF_ERROR(CheckMasks());
    const NodeId end = model_.size();
    for (NodeId id = 0; id < end; ++id) {
      if (model(id).dead) continue;
      RONDO_RETURN_IF_ERROR(FollowBehind(id));
      if (g_->node(id).dead) continue;
      const Status status = Fix(id);
      if (!status.ok()) return Named(status, id);
    }
    b_.SetSources({"--cache-length"});
    b_.SetAnnotations({});
    for (size_t i = 0; i < g_->outputs.size(); ++i) RONDO_RETURN_IF_ERROR(FixOutput(i));
    RONDO_RETURN_IF_ERROR(DropWhereRounded());
    if (const NodeId all = sizes_->NodeOf(total()); all != kNoNode)
      SelectByTextLength(&b_, count_, rows_, {{all, 0}});
    FillUnread();
    RONDO_RETURN_IF_ERROR(DropOldInputs());
    DropIdentityViews(g_);
    DropUnusedCount();
    g_->Compact();
    return Status::Ok();
  }

  FixedNotes notes() const { return notes_; }

 private:
  // ------------------------------------------------------------------------------------ the ports

  Status CheckMasks() {
    for (const std::string& name : ports_.MasksToShow()) {
      const int at = ir::FindPort(g_->inputs, name);
      if (at < 0 || MasksCaches(g_->inputs[static_cast<size_t>(at)].node)) continue;
      notes_.asks_for_mask = true;
      return UnclearMask(name);
    }
    return Status::Ok();
  }

  // The input of full length for cache number `at`. The graph has the first part of it.
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

  // Caches that the model writes but does not read begin with this run's rows, at their first row.
  void FillUnread() {
    RemoveDeadBut(g_, count_);
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

  // If nothing depends on the number of cached positions, the input for it is dropped.
  void DropUnusedCount() {
    g_->RemoveDead();
    if (asked_ != kNoNode && g_->inputs.back().node == asked_ && g_->UsersOf(asked_).empty())
      g_->inputs.pop_back();
  }

  Status DropOldInputs() {
    g_->RemoveDead();
    for (const auto& [at, node] : full_) {
      const ir::GraphInput& input = g_->inputs[static_cast<size_t>(at)];
      const std::vector<NodeId> readers = g_->UsersOf(input.node);
      for (NodeId reader : readers) {
        if (g_->node(reader).dead) continue;
        return Named(
            Refuse("it reads the cached positions of \"" + input.name + "\" apart from the new ones"),
            reader);
      }
      g_->SetInputNode(static_cast<size_t>(at), node);
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

  // An output with an element for every position gets the cache's length, with 0 beyond the last real
  // position.
  Status FixOutput(size_t at) {
    const ir::GraphOutput output = g_->outputs[at];
    const std::string& name = output.name;
    const NodeId id = output.node;
    const auto is_cache = [&](const GrowingCache& cache) { return cache.present == name; };
    if (std::any_of(ports_.caches.begin(), ports_.caches.end(), is_cache)) return Status::Ok();
    const NodeId was = model_.outputs[at].node;  // the model's own node for it
    if (!Grows(was)) return Status::Ok();
    NodeId shown = id;
    for (int d = 0; d < model(was).shape.rank; ++d) {
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

  // Masks attention whose numbers are rounded on the way (mask_uncached_scores.h).
  Status DropWhereRounded() {
    std::vector<MaximumOfPositions> maxima;
    for (NodeId id = 0; id < model_.size(); ++id) {
      const Node& n = model(id);
      if (n.dead || g_->node(id).dead || n.op != Op::kReduce) continue;
      const ir::ReduceAttrs& attrs = n.As<ir::ReduceAttrs>();
      const bool found = attrs.kind == ir::ReduceKind::kMax && attrs.axes.size() == 1 &&
                         IsOfCache(n.inputs[0]) && IsFloat(model(n.inputs[0]).dtype);
      if (found && extent(n.inputs[0], attrs.axes[0]) == Extent::kTotal)
        maxima.push_back({id, attrs.axes[0]});
    }
    if (maxima.empty()) return Status::Ok();
    RemoveDeadBut(g_, count_);
    const NodeId real = b_.BinaryScalar(TapeOp::kAdd, count_, static_cast<double>(rows_));
    const NotProven not_proven = DropUncached(&b_, maxima, real);
    return not_proven.node == kNoNode ? Status::Ok() : Named(Refuse(not_proven.why), not_proven.node);
  }

  // ------------------------------------------------------------------------------------ the rules

  // A value computed elementwise from one with an element behind all positions has such an element as well,
  // beyond the room for all positions. A part that ends with the positions does not.
  Status FollowBehind(NodeId id) {
    const std::vector<NodeId>& inputs = model(id).inputs;
    const auto has_it = [&](NodeId in) { return behind_.count(in) != 0; };
    if (std::none_of(inputs.begin(), inputs.end(), has_it)) return Status::Ok();
    for (int d = 0; d < model(id).shape.rank; ++d) {
      if (extent(id, d) == Extent::kBeyondTotal) behind_.insert(id);
      if (extent(id, d) == Extent::kOther) return Named(ShowsBehind(), id);
    }
    return Status::Ok();
  }

  Status ShowsBehind() const {
    return Refuse("it may show what stands behind all positions, which is elsewhere in a fixed cache");
  }

  Status Fix(NodeId id) {
    const Node& n = g_->node(id);
    b_.SetSources(n.sources);
    b_.SetAnnotations(n.annotations);
    const std::vector<NodeId>& inputs = model(id).inputs;
    switch (n.op) {
      case Op::kInput:
        if (!Grows(id) || CacheAt(id) >= 0 || IsOfPositions(id)) return Status::Ok();
        return Refuse("the input \"" + n.name + "\" has a dimension of positions that is not its last");
      case Op::kView: return HasRowsInOne(id) || HasRowsInOne(inputs[0]) ? CheckRowsInOne(id) : Status::Ok();
      case Op::kIndexedRead: return HasRowsInOne(inputs[0]) ? FixRowsInOne(id) : CheckPlaces(id);
      case Op::kIndexedWrite:
        RONDO_RETURN_IF_ERROR(CheckPlaces(id));
        if (!Grows(id) && Grows(inputs[1]) && !n.As<ir::IndexedAttrs>().dims.empty())
          return Refuse("it puts the cached positions into something of a fixed length");
        KeepWritten(id);
        return Status::Ok();
      case Op::kConcat: return FixConcat(id);
      case Op::kReduce: return FixReduce(id);
      case Op::kMatMul: return CheckMatMul(id);
      case Op::kConstant:
      case Op::kPointwise:
      case Op::kIota:
      case Op::kAttention: return Status::Ok();
      default: {
        const auto grows = [&](NodeId in) { return Grows(in); };
        if (!Grows(id) && std::none_of(inputs.begin(), inputs.end(), grows)) return Status::Ok();
        return Refuse(std::string("an operation (") + ir::Name(n.op) + ") over the cached positions");
      }
    }
  }

  // An index cannot reach the element behind all positions, whose place differs.
  Status CheckPlaces(NodeId id) const {
    const NodeId data = model(id).inputs[0];
    if (behind_.count(data) == 0) return Status::Ok();
    const Shape& shape = model(data).shape;
    for (const ir::IndexedDim& dim : model(id).As<ir::IndexedAttrs>().dims) {
      int64_t stride = 1;
      for (int d = shape.rank; d-- > 0; stride *= shape[d]) {
        if (dim.stride == stride && shape[d] > 1 && extent(data, d) != Extent::kFixed) return ShowsBehind();
      }
    }
    return Status::Ok();
  }

  // Reductions of cache values are handled once attention is known (compiler/passes/limit_to_cached.cc).
  Status FixReduce(NodeId id) {
    const ir::ReduceAttrs attrs = model(id).As<ir::ReduceAttrs>();
    const NodeId in = model(id).inputs[0];
    if (IsOfCache(in)) return Status::Ok();
    NodeId x = g_->node(id).inputs[0];
    for (const int axis : attrs.axes) {
      const Extent how = extent(in, axis);
      if (how == Extent::kFixed) continue;
      if (how == Extent::kTimesTotal || behind_.count(in) != 0)
        return Refuse("a reduction over several rows of positions, or over what stands behind them");
      ir::Dims line(static_cast<size_t>(model(in).shape.rank), 1);
      line[static_cast<size_t>(axis)] = sizes_->Of(in, axis);
      const NodeId holds = b_.Binary(TapeOp::kLess, b_.IotaOver(line, axis), b_.Number(sizes_->Of(in, axis)));
      x = b_.Select(holds, x, b_.Scalar(model(in).dtype, NeutralNumber(attrs.kind, model(in).dtype)));
    }
    if (x != g_->node(id).inputs[0]) g_->SetInput(id, 0, x);
    return Status::Ok();
  }

  Status CheckMatMul(NodeId id) const {
    const NodeId a = model(id).inputs[0], b = model(id).inputs[1];
    if (extent(a, model(id).shape.rank - 1) == Extent::kFixed || (IsOfCache(a) && IsOfCache(b)))
      return Status::Ok();
    return Refuse("a product that adds up over the cached positions, and not of what comes of caches alone");
  }

  // Checks views that join several rows of positions into one dim, or split one dim into rows. In the plan
  // each row is `length` long.
  Status CheckRowsInOne(NodeId id) const {
    const ir::View& view = model(id).As<ir::ViewAttrs>().view;
    const ir::ViewStep& step = view.steps.back();
    const bool one = view.affine() && std::all_of(step.strides, step.strides + step.shape.rank,
                                                  [](int64_t stride) { return stride == 0; });
    if (one || ir::IsDense(view, model(model(id).inputs[0]).shape.elements())) return Status::Ok();
    return Refuse("it shows several rows of the cached positions as one, and not all of them in order");
  }

  // Fixes a read from such a dim. Its index counts rows of the real length; the plan's rows are `length`
  // long.
  Status FixRowsInOne(NodeId id) {
    const Node& n = g_->node(id);
    const NodeId data = n.inputs[0], was = model(id).inputs[0];
    const ir::IndexedAttrs attrs = n.As<ir::IndexedAttrs>();
    std::vector<NodeId> index(n.inputs.begin() + 1, n.inputs.end());
    const Shape shape = n.shape, from = model(was).shape;
    const NodeId real = b_.Number(total());
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      int64_t stride = 1;
      int axis = from.rank - 1;
      for (; axis >= 0 && (attrs.dims[k].stride != stride || from[axis] == 1); --axis) stride *= from[axis];
      // An index for the beginning of a run of several elements has a smaller extent.
      if (axis < 0 || attrs.dims[k].extent != from[axis])
        return Refuse("it reads several rows of the cached positions as one");
      if (extent(was, axis) == Extent::kFixed) continue;
      const NodeId place = b_.Cast(index[k], DType::kI64);
      const NodeId row = b_.Binary(TapeOp::kDiv, place, real);
      const NodeId behind = b_.Sub(b_.Ints(DType::kI64, Shape{}, {length_}), real);
      // An index beyond the real positions is clamped; nothing reads the result.
      const double last = static_cast<double>(attrs.dims[k].extent - 1);
      index[k] = b_.BinaryScalar(TapeOp::kMin, b_.Add(place, b_.Mul(row, behind)), last);
    }
    g_->Replace(id, b_.IndexedRead(data, index, attrs, shape));
    return Status::Ok();
  }

  // Whether the elements after the cached positions are only room for a write by the same operator. Sets
  // `writes` to those writes.
  bool HasRoom(const Node& concat, std::vector<NodeId>* writes) {
    const auto is_write = [&](NodeId id) {
      const Node& n = g_->node(id);
      return n.op == Op::kIndexedWrite && n.inputs[0] == concat.id && n.sources == concat.sources;
    };
    *writes = g_->UsersOf(concat.id);
    return model(model_.BaseOf(model(concat.id).inputs[1])).op == Op::kConstant &&
           std::all_of(writes->begin(), writes->end(), is_write);
  }

  // Writes an operator's rows to a cache whose stored encoding differs from what the operator reads.
  void KeepWritten(NodeId id) {
    const auto found = kept_.find(id);
    if (found == kept_.end() || g_->node(id).dead) return;
    const CacheEncoding& kept = found->second;
    const NodeId cache = FullCache(kept.cache);
    const Node& n = g_->node(id);
    const std::vector<NodeId> places(n.inputs.begin() + 2, n.inputs.end());
    WriteAsKept(b_, kept, n.inputs[1], [&](NodeId rows) {
      return b_.IndexedWrite(cache, rows, places, g_->node(id).As<ir::IndexedAttrs>());
    });
  }

  // Node `id` of the cached positions, extended to all `length`. It must come from a cache through casts,
  // scalar operations with numbers, and views that keep the positions in order; otherwise kNoNode.
  NodeId Whole(NodeId id) {
    if (const int at = CacheAt(id); at >= 0) return FullCache(at);
    const Node& n = g_->node(id);
    if (id >= model_.size()) return kNoNode;
    if (n.op == Op::kView) {
      const NodeId base = n.inputs[0];
      int axis = -1, growing = 0;
      for (int d = 0; base < model_.size() && d < model(base).shape.rank; ++d) {
        if (extent(base, d) == Extent::kPast) axis = d;
        growing += extent(base, d) != Extent::kFixed;
      }
      if (axis < 0 || growing != 1) return kNoNode;
      const std::optional<ir::View> whole =
          Stretched(n.As<ir::ViewAttrs>().view, model(base).shape, axis, length_);
      const NodeId full = whole ? Whole(base) : kNoNode;
      return full == kNoNode ? kNoNode : b_.ViewNode(full, *whole);
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

  // In a concatenation of cached and new positions, the new ones are written at the end of the cached ones.
  Status FixConcat(NodeId id) {
    const Node& n = g_->node(id);
    const int axis = n.As<ir::ConcatAttrs>().axis;
    const std::vector<NodeId>& inputs = model(id).inputs;  // in the model
    const auto grows = [&](NodeId in) { return extent(in, axis) != Extent::kFixed; };
    if (extent(id, axis) == Extent::kFixed && std::none_of(inputs.begin(), inputs.end(), grows))
      return Status::Ok();
    const NodeId old = inputs[0];
    // All positions, each at its place, followed by another element.
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
    const NodeId rows = n.inputs[1], base = model_.BaseOf(old);
    if (const std::optional<CacheEncoding> kept = FindCacheEncoding(g_, ports_, n.inputs[0], id)) {
      const NodeId places = b_.Add(b_.Iota(line, axis), count_), whole = FullCache(kept->cache);
      WriteAsKept(b_, *kept, rows,
                  [&](NodeId as_kept) { return WriteRows(b_, whole, as_kept, places, axis); });
      return Status::Ok();
    }
    std::vector<NodeId> writes;
    const bool has_room = HasRoom(n, &writes);
    if (has_room && writes.size() == 1) {
      if (const std::optional<CacheEncoding> kept = FindCacheEncoding(g_, ports_, n.inputs[0], writes[0]))
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
  std::map<int, NodeId> full_;            // by input index
  std::map<NodeId, CacheEncoding> kept_;  // by the write that stores it
  std::set<NodeId> behind_;  // nodes with an element behind all positions, at the end of the last one
  const NodeId count_;
  const NodeId asked_;  // the input behind count_, if no mask gives it
};

}  // namespace

void RemoveDeadBut(Graph* graph, NodeId count) {
  graph->inputs.push_back({"", count});
  graph->RemoveDead();
  graph->inputs.pop_back();
}

CachedCount CountCached(ir::Builder* builder, const CachePorts& ports, int64_t length, int64_t rows) {
  ir::Builder b(&builder->graph());  // without symbolic sizes: it looks at all there is room for
  b.SetSources({"--cache-length"});
  for (const std::string& name : ports.masks) {
    const int at = ir::FindPort(b.graph().inputs, name);
    if (at < 0) continue;
    const Node& n = b.graph().node(b.graph().inputs[static_cast<size_t>(at)].node);
    if (n.shape.rank != 2 || IsFloat(n.dtype)) continue;
    NodeId none = b.Binary(TapeOp::kEqual, n.id, b.Scalar(n.dtype, 0));
    NodeId place = b.BinaryScalar(TapeOp::kAdd, b.Iota({length}, 0), 1);
    NodeId last = b.Select(none, b.Scalar(DType::kI64, 0), place);
    last = b.Reduce(ir::ReduceKind::kMax, last, {0, 1}, false);
    last = b.BinaryScalar(TapeOp::kSub, last, static_cast<double>(rows));
    return {b.BinaryScalar(TapeOp::kMax, last, 0), kNoNode};
  }
  for (const ir::GraphInput& input : b.graph().inputs) {
    if (input.name != ports.lengths || IsFloat(b.dtype(input.node))) continue;
    NodeId last = b.Reshape(b.Cast(input.node, DType::kI64), {b.shape(input.node).elements()});
    last = b.Reduce(ir::ReduceKind::kMax, last, {0}, false);
    last = b.BinaryScalar(TapeOp::kSub, last, static_cast<double>(rows - 1));
    return {b.BinaryScalar(TapeOp::kMax, last, 0), kNoNode};
  }
  const NodeId asked = b.Input("past_sequence_length", DType::kI64, {1});
  return {b.Reshape(asked, Shape{}), asked};
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

Status FixCaches(Graph* graph, ir::Sizes* sizes, const CachePorts& ports, int64_t length,
                 const ir::Size& past, int64_t rows, const CachedCount& count, FixedNotes* notes) {
  Fixer fixer(graph, sizes, ports, length, past, rows, count);
  const Status status = fixer.Run();
  *notes = fixer.notes();
  return status;
}

}  // namespace rondo::importer
