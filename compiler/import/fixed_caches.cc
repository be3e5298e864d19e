// Caches of a fixed length from a model whose caches grow.
//
// The model is imported three times: for `length` positions after the run (what becomes the plan), and for one and two
// runs more. The three graphs have the same nodes; what differs between them is what depends on the number of
// cached positions. A dimension of positions stays `length` long, position j at element j, and what lies behind the
// last real position is never read. What is left to change:
//   - the new rows are written where the cached ones end, instead of standing behind a full cache;
//   - numbers that count positions become sums with the real count;
//   - slices that begin where the cached positions end begin at the real count;
//   - constants that look the same from the end on (causal masks) are moved to the real end.
// Whatever differs in another way is refused. compiler/passes/limit_to_cached.cc lets attention see real positions only.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "compiler/import/cache_ports.h"
#include "compiler/import/cached_attention.h"
#include "compiler/import/decompose.h"
#include "compiler/import/import.h"
#include "compiler/import/moved_views.h"
#include "compiler/ir/walk.h"
#include "core/scalar.h"

namespace rondo {
namespace importer {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

enum class Extent : uint8_t { kFixed, kPast, kTotal };

// The three graphs, and where they differ.
class Fixer {
 public:
  Fixer(Graph* graph, const Graph& longer, const Graph& longest, const CachePorts& ports, int64_t length, int64_t rows)
      : g_(graph), b_(graph), longer_(longer), longest_(longest), ports_(ports), length_(length), rows_(rows) {}

  Status Run() {
    RONDO_RETURN_IF_ERROR(ReadExtents());
    MakeCount();
    const NodeId end = longer_.size();
    for (NodeId id = 0; id < end; ++id) {
      if (g_->node(id).dead) continue;
      const Status status = Fix(id);
      if (!status.ok()) return Named(status, id);
    }
    for (const ir::GraphOutput& output : g_->outputs) RONDO_RETURN_IF_ERROR(CheckOutput(output));
    RONDO_RETURN_IF_ERROR(DropOldInputs());
    g_->RemoveDead();
    g_->Compact();
    return Status::Ok();
  }

 private:
  int64_t past() const { return length_ - rows_; }
  const Node& longer(NodeId id) const { return longer_.node(id); }
  const Node& longest(NodeId id) const { return longest_.node(id); }

  Status Refuse(const std::string& why) const {
    return Status::Error(Code::kUnsupported,
                         "--cache-length %lld: %s; export the model with GroupQueryAttention or a cache of a fixed "
                         "length, or compile it for one number of cached positions (--shape)",
                         static_cast<long long>(length_), why.c_str());
  }
  Status Named(const Status& status, NodeId id) const {
    const Node& n = g_->node(id);
    if (n.sources.empty() || status.source_node()[0] != '\0') return status;
    return status.At("%.400s", n.sources[0].c_str()).FromNode(n.sources[0]);
  }

  // ------------------------------------------------------------------------------------- extents

  std::optional<Extent> ExtentOf(int64_t a, int64_t b, int64_t c) const {
    if (a == b && b == c) return Extent::kFixed;
    if (b - a != rows_ || c - b != rows_) return std::nullopt;
    if (a == past()) return Extent::kPast;
    if (a == length_) return Extent::kTotal;
    return std::nullopt;
  }

  Status ReadExtents() {
    const NodeId end = g_->size();
    if (longer_.size() != end || longest_.size() != end)
      return Refuse("the model has other operations for other numbers of cached positions");
    extents_.resize(static_cast<size_t>(end));
    cached_.resize(static_cast<size_t>(end));
    for (NodeId id = 0; id < end; ++id) {
      const Node &a = g_->node(id), &b = longer(id), &c = longest(id);
      if (a.dead && b.dead && c.dead) continue;
      const auto same = [&](const Node& other) {
        return a.dead == other.dead && a.op == other.op && a.inputs == other.inputs && a.dtype == other.dtype &&
               a.shape.rank == other.shape.rank;
      };
      if (!same(b) || !same(c)) {
        return Named(Refuse("the operation is another one for other numbers of cached positions"), id);
      }
      std::vector<Extent>& extents = extents_[static_cast<size_t>(id)];
      for (int d = 0; d < a.shape.rank; ++d) {
        const std::optional<Extent> extent = ExtentOf(a.shape[d], b.shape[d], c.shape[d]);
        if (!extent) {
          return Named(Refuse("dimension " + std::to_string(d) + " is " + std::to_string(a.shape[d]) + " for " +
                              std::to_string(past()) + " cached positions and " + std::to_string(b.shape[d]) +
                              " for " + std::to_string(length_)),
                       id);
        }
        extents.push_back(*extent);
      }
      const auto from_cache = [&](NodeId in) { return cached_[static_cast<size_t>(in)]; };
      cached_[static_cast<size_t>(id)] =
          CacheAt(id) >= 0 || (Grows(id) && std::any_of(a.inputs.begin(), a.inputs.end(), from_cache));
    }
    return Status::Ok();
  }

  Extent extent(NodeId id, int d) const { return extents_[static_cast<size_t>(id)][static_cast<size_t>(d)]; }
  bool Grows(NodeId id) const {
    const std::vector<Extent>& extents = extents_[static_cast<size_t>(id)];
    return std::any_of(extents.begin(), extents.end(), [](Extent e) { return e != Extent::kFixed; });
  }

  // ------------------------------------------------------------------------------------ the ports

  // Which of the graph's inputs `id` is, if it is a cache; -1 if not.
  int CacheAt(NodeId id) const {
    for (size_t i = 0; i < g_->inputs.size(); ++i) {
      if (g_->inputs[i].node != id) continue;
      for (const GrowingCache& cache : ports_.caches) {
        if (cache.past == g_->inputs[i].name) return static_cast<int>(i);
      }
    }
    return -1;
  }
  bool IsMask(NodeId id) const {
    return std::any_of(g_->inputs.begin(), g_->inputs.end(), [&](const ir::GraphInput& input) {
      return input.node == id && std::find(ports_.masks.begin(), ports_.masks.end(), input.name) != ports_.masks.end();
    });
  }

  // count_: how many positions are cached, i64 []. After the last real one of any batch entry the mask is 0.
  void MakeCount() {
    b_.SetSources({"--cache-length"});
    b_.SetAnnotations({});
    for (const ir::GraphInput& input : g_->inputs) {
      const Node& n = g_->node(input.node);
      if (!IsMask(input.node) || n.shape.rank != 2 || IsFloat(n.dtype)) continue;
      NodeId none = b_.Binary(TapeOp::kEqual, input.node, b_.Scalar(n.dtype, 0));
      NodeId place = b_.BinaryScalar(TapeOp::kAdd, b_.Iota({length_}, 0), 1);
      NodeId last = b_.Select(none, b_.Scalar(DType::kI64, 0), place);
      last = b_.Reduce(ir::ReduceKind::kMax, last, {0, 1}, false);
      count_ = b_.BinaryScalar(TapeOp::kSub, last, static_cast<double>(rows_));
      count_ = b_.BinaryScalar(TapeOp::kMax, count_, 0);
      return;
    }
    count_ = b_.Reshape(b_.Input("past_sequence_length", DType::kI64, {1}), Shape{});
  }

  // The input of the full length that stands for cache number `at`, of which the graph has the first part.
  NodeId FullCache(int at) {
    auto [it, added] = full_.emplace(at, kNoNode);
    if (added) {
      const ir::GraphInput old = g_->inputs[static_cast<size_t>(at)];
      it->second = b_.Input(old.name, g_->node(old.node).dtype, longer(old.node).shape);
      g_->inputs.pop_back();
      g_->node(it->second).As<ir::InputAttrs>().index = at;
    }
    return it->second;
  }

  Status DropOldInputs() {
    g_->RemoveDead();
    for (const auto& [at, node] : full_) {
      ir::GraphInput& input = g_->inputs[static_cast<size_t>(at)];
      const std::vector<NodeId> readers = g_->UsersOf(input.node);
      for (NodeId reader : readers) {
        if (g_->node(reader).dead) continue;
        return Named(Refuse("it reads the cached positions of \"" + input.name + "\" apart from the new ones"), reader);
      }
      input.node = node;
    }
    for (const GrowingCache& cache : ports_.caches) {
      const auto input = std::find_if(g_->inputs.begin(), g_->inputs.end(),
                                      [&](const ir::GraphInput& i) { return i.name == cache.past; });
      const bool fixed = input != g_->inputs.end() && g_->node(input->node).shape[cache.axis] == length_;
      if (!fixed) return Refuse("the cache \"" + cache.past + "\" is not what \"" + cache.present + "\" begins with");
    }
    return Status::Ok();
  }

  Status CheckOutput(const ir::GraphOutput& output) const {
    const auto is_cache = [&](const GrowingCache& cache) { return cache.present == output.name; };
    if (output.node >= longer_.size() || !Grows(output.node) ||
        std::any_of(ports_.caches.begin(), ports_.caches.end(), is_cache)) {
      return Status::Ok();
    }
    return Named(Refuse("the output \"" + output.name + "\" grows with the cached positions, and is no cache"),
                 output.node);
  }

  // ------------------------------------------------------------------------------------ the rules

  Status Fix(NodeId id) {
    const Node& n = g_->node(id);
    b_.SetSources(n.sources);
    b_.SetAnnotations(n.annotations);
    switch (n.op) {
      case Op::kInput:
        if (!Grows(id) || CacheAt(id) >= 0 || IsMask(id)) return Status::Ok();
        return Refuse("the input \"" + n.name + "\" has a dimension of positions that is not its last");
      case Op::kConstant: return FixConstant(id);
      case Op::kView:
      case Op::kIndexedRead:
      case Op::kIndexedWrite: return FixMap(id);
      case Op::kConcat: return FixConcat(id);
      case Op::kReduce: return CheckReduce(id);
      case Op::kMatMul: return CheckMatMul(id);
      case Op::kPointwise:
      case Op::kIota: return Status::Ok();
      case Op::kAttention:
        if (n.As<ir::AttentionAttrs>().scale == longer(id).As<ir::AttentionAttrs>().scale) return Status::Ok();
        return Refuse("the scale of attention depends on the number of cached positions");
      default: {
        const std::vector<NodeId>& inputs = longer(id).inputs;
        const auto grows = [&](NodeId in) { return Grows(in); };
        if (!Grows(id) && std::none_of(inputs.begin(), inputs.end(), grows)) return Status::Ok();
        return Refuse(std::string("an operation (") + ir::Name(n.op) + ") over the cached positions");
      }
    }
  }

  // The elements of a constant, and of those of the longer graphs at the same places but for `step` runs' positions
  // along the dims that grow.
  bool Alike(const Node& a, const Node& b, int64_t shift) const {
    const auto &x = a.As<ir::ConstantAttrs>().data, &y = b.As<ir::ConstantAttrs>().data;
    const int64_t each = ByteSize(a.dtype);
    bool alike = true;
    ForEachPlace(a, b, shift, [&](int64_t i, int64_t j) {
      alike = alike && std::memcmp(x->bytes.data() + i * each, y->bytes.data() + j * each, static_cast<size_t>(each)) == 0;
    });
    return alike;
  }

  // f(place in a, place in b), b being longer in the dims that grow, where its places begin at `shift`.
  template <typename F>
  void ForEachPlace(const Node& a, const Node& b, int64_t shift, F f) const {
    ir::View view = ir::DenseView(b.shape);
    for (int d = 0; d < a.shape.rank; ++d) {
      const bool grows = a.shape[d] != b.shape[d];
      view = ir::Slice(view, d, grows ? shift : 0, 1, a.shape[d]);
    }
    int64_t i = 0;
    for (int64_t place : ir::ResolveAll(view)) f(i++, place);
  }

  Status FixConstant(NodeId id) {
    const Node &a = g_->node(id), &b = longer(id), &c = longest(id);
    const auto &x = a.As<ir::ConstantAttrs>().data, &y = b.As<ir::ConstantAttrs>().data;
    if (x->synthetic || y->synthetic || (x->bytes.data() == y->bytes.data() && a.shape == b.shape))
      return Status::Ok();
    if (Alike(a, b, 0) && Alike(a, c, 0)) return Status::Ok();
    if (Linear(id)) return Status::Ok();
    int axis = -1, growing = 0;
    for (int d = 0; d < a.shape.rank; ++d) {
      if (extent(id, d) == Extent::kTotal) axis = d;
      growing += extent(id, d) != Extent::kFixed;
    }
    if (growing != 1 || axis < 0 || !Alike(a, b, rows_) || !Alike(a, c, 2 * rows_)) {
      return Refuse(std::string("numbers of shape ") + Text(a.shape) +
                    " depend on the number of cached positions in a way that rondo cannot follow");
    }
    // The same from the end on: element j is that of position j - count + past.
    NodeId place = b_.Sub(b_.BinaryScalar(TapeOp::kAdd, b_.Iota({length_}, 0), static_cast<double>(past())), count_);
    place = Clamp(b_, place, 0, static_cast<double>(length_ - 1));
    g_->Replace(id, b_.Gather(b_.Constant(x), place, axis, false));
    return Status::Ok();
  }

  // Replaces numbers that grow by the same with every position. False if these do not.
  bool Linear(NodeId id) {
    const Node &a = g_->node(id), &b = longer(id), &c = longest(id);
    const auto values = [](const Node& n, int64_t i) {
      return scalar::Load<double>(n.dtype, n.As<ir::ConstantAttrs>().data->bytes.data(), i);
    };
    if (a.dtype == DType::kBool) return false;
    std::vector<double> slope(static_cast<size_t>(a.shape.elements())), next = slope;
    ForEachPlace(a, b, 0, [&](int64_t i, int64_t j) { slope[static_cast<size_t>(i)] = values(b, j) - values(a, i); });
    ForEachPlace(a, c, 0, [&](int64_t i, int64_t j) { next[static_cast<size_t>(i)] = values(c, j) - values(a, i); });
    for (size_t i = 0; i < slope.size(); ++i) {
      const double near = IsFloat(a.dtype) ? 1e-6 * std::max(1.0, std::abs(next[i])) : 0;
      if (!(std::abs(next[i] - 2 * slope[i]) <= near)) return false;
      slope[i] /= static_cast<double>(rows_);
      if (!IsFloat(a.dtype) && slope[i] != std::floor(slope[i])) return false;
    }
    const DType dtype = IsFloat(a.dtype) ? DType::kF32 : DType::kI64;
    NodeId moved = b_.Cast(b_.BinaryScalar(TapeOp::kSub, count_, static_cast<double>(past())), dtype);
    NodeId rise = IsFloat(dtype) ? b_.Floats(dtype, a.shape, slope)
                                 : b_.Ints(dtype, a.shape, std::vector<int64_t>(slope.begin(), slope.end()));
    NodeId base = b_.Cast(b_.Constant(a.As<ir::ConstantAttrs>().data), dtype);
    g_->Replace(id, b_.Cast(b_.Add(base, b_.Mul(rise, moved)), a.dtype));
    return true;
  }

  const ir::View& MapOf(const Node& n) const {
    return n.op == Op::kView ? n.As<ir::ViewAttrs>().view : n.As<ir::IndexedAttrs>().map;
  }

  // A view, or what a read or write adds to its indices: moved with the count where it moves with the model's.
  Status FixMap(NodeId id) {
    const Node &a = g_->node(id), &b = longer(id), &c = longest(id);
    const NodeId data = a.inputs[0];
    const std::optional<int64_t> move =
        MoveOf({MapOf(a), g_->node(data).shape}, {MapOf(b), longer(data).shape}, {MapOf(c), longest(data).shape});
    if (!move || *move % rows_ != 0) return Refuse("it shows the cached positions in an order that depends on their number");
    ir::IndexedAttrs attrs;
    if (a.op != Op::kView) attrs = a.As<ir::IndexedAttrs>();
    std::vector<NodeId> index(a.inputs.begin() + std::min<ptrdiff_t>(std::ssize(a.inputs), a.op == Op::kIndexedWrite ? 2 : 1),
                              a.inputs.end());
    bool changed = *move != 0;
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      // From the end on would count from the end of the cache.
      const bool along = b.As<ir::IndexedAttrs>().dims[k].extent != attrs.dims[k].extent;
      changed = changed || (along && attrs.dims[k].wrap);
      attrs.dims[k].wrap = attrs.dims[k].wrap && !along;
    }
    if (!changed) return Status::Ok();
    attrs.map = MapOf(a);
    if (*move != 0) {
      const int64_t stride = *move / rows_;
      attrs.map.steps[0].offset -= stride * past();
      if (LeastElement(attrs.map) < 0) return Refuse("it would begin before the first position");
      attrs.dims.push_back({stride, past() + 1, false});
      index.push_back(count_);
    }
    const NodeId instead = a.op == Op::kIndexedWrite ? b_.IndexedWrite(data, a.inputs[1], index, attrs)
                                                     : b_.IndexedRead(data, index, attrs, a.shape);
    g_->Replace(id, instead);
    return Status::Ok();
  }

  // Cached positions and new ones behind them: the new ones are written where the cached ones end.
  Status FixConcat(NodeId id) {
    const Node& n = g_->node(id);
    const int axis = n.As<ir::ConcatAttrs>().axis;
    const std::vector<NodeId>& inputs = longer(id).inputs;  // as the model has them
    const auto grows = [&](NodeId in) { return extent(in, axis) != Extent::kFixed; };
    if (extent(id, axis) == Extent::kFixed && std::none_of(inputs.begin(), inputs.end(), grows))
      return Status::Ok();
    const NodeId old = inputs[0];
    if (inputs.size() != 2 || extent(id, axis) != Extent::kTotal || extent(old, axis) != Extent::kPast ||
        g_->node(n.inputs[1]).shape[axis] != rows_) {
      return Refuse("a concatenation along the cached positions that is not cached ones before new ones");
    }
    const NodeId rows = n.inputs[1], base = longer_.BaseOf(old);
    NodeId cache = kNoNode;
    if (const int at = CacheAt(base); at >= 0) {
      cache = FullCache(at);
      if (base != old) cache = b_.ViewNode(cache, longer(old).As<ir::ViewAttrs>().view);
    } else {
      std::vector<int64_t> before(static_cast<size_t>(n.shape.rank)), after = before;
      after[static_cast<size_t>(axis)] = rows_;
      cache = b_.PadConstant(n.inputs[0], b_.Scalar(n.dtype, 0), before, after);
    }
    Shape line;
    line.rank = n.shape.rank;
    std::fill(line.dims, line.dims + line.rank, 1);
    line[axis] = rows_;
    g_->Replace(id, WriteRows(b_, cache, rows, b_.Add(b_.Iota(line, axis), count_), axis));
    return Status::Ok();
  }

  // ---------------------------------------------------------------- what mixes positions with others

  // Behind the last real position there are zeros only.
  bool ZeroBeyond(NodeId id, int depth = 0) const {
    if (depth > 64 || id >= longer_.size()) return false;
    const Node& n = longer(id);  // as the model has it
    if (IsMask(id)) return true;
    if (n.op == Op::kConstant) {
      const auto& data = n.As<ir::ConstantAttrs>().data;
      return !data->synthetic && std::all_of(data->bytes.begin(), data->bytes.end(), [](uint8_t x) { return x == 0; });
    }
    const auto zero = [&](size_t k) { return ZeroBeyond(n.inputs[k], depth + 1); };
    if (n.op == Op::kView) return zero(0);
    if (n.op == Op::kReduce) return n.As<ir::ReduceAttrs>().kind == ir::ReduceKind::kSum && zero(0);
    if (n.op != Op::kPointwise) return false;
    switch (n.As<ir::PointwiseAttrs>().op) {
      case TapeOp::kCast:
      case TapeOp::kNeg:
      case TapeOp::kAbs: return zero(0);
      case TapeOp::kMul:
      case TapeOp::kBitAnd: return zero(0) || zero(1);
      case TapeOp::kAdd: return zero(0) && zero(1);
      case TapeOp::kSelect: return zero(1) && zero(2);
      default: return false;
    }
  }

  Status CheckReduce(NodeId id) const {
    const Node& n = g_->node(id);
    const ir::ReduceAttrs& attrs = n.As<ir::ReduceAttrs>();
    const NodeId in = longer(id).inputs[0];
    for (int axis : attrs.axes) {
      if (extent(in, axis) == Extent::kFixed || cached_[static_cast<size_t>(in)]) continue;
      const bool sum = attrs.kind == ir::ReduceKind::kSum || attrs.kind == ir::ReduceKind::kMax;
      if (!sum || !ZeroBeyond(in)) return Refuse("a reduction over the positions of something that is no mask");
    }
    return Status::Ok();
  }

  Status CheckMatMul(NodeId id) const {
    const NodeId a = longer(id).inputs[0], b = longer(id).inputs[1];
    if (extent(a, g_->node(id).shape.rank - 1) == Extent::kFixed || cached_[static_cast<size_t>(a)] ||
        cached_[static_cast<size_t>(b)]) {
      return Status::Ok();
    }
    return Refuse("a product that adds up over the cached positions, of something that is no cache");
  }

  Graph* g_;
  ir::Builder b_;
  const Graph &longer_, &longest_;
  const CachePorts& ports_;
  int64_t length_, rows_;
  std::vector<std::vector<Extent>> extents_;  // by node, of each of its dims
  std::vector<bool> cached_;                  // by node: some element along positions is of a cache
  std::map<int, NodeId> full_;                // by number of an input
  NodeId count_ = kNoNode;
};

}  // namespace
}  // namespace importer

Result<ir::Graph> ImportWithFixedCaches(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                                        int64_t length,
                                        const std::vector<std::pair<std::string, std::string>>& states,
                                        ImportReport* report, FixedCaches* caches) {
  *caches = {};
  RONDO_ASSIGN_OR_RETURN(importer::CachePorts ports, importer::FindGrowingCaches(*model, states));
  if (ports.caches.empty()) return ImportModel(model, options, report);
  for (const importer::GrowingCache& cache : ports.caches) {
    caches->inputs.push_back(cache.past);
    const bool given = options.input_shapes.count(cache.past) != 0;
    for (const std::string& name : ports.past_symbols) {
      if (!given && options.symbols.count(name) == 0) continue;
      return Status::Error(Code::kInvalidArgument, "--cache-length says how long \"%s\" is; --shape %s says so as well",
                           cache.past.c_str(), given ? cache.past.c_str() : name.c_str());
    }
  }
  ImportOptions bound = options;
  caches->limited = ports.written_by_operators;
  if (ports.written_by_operators) {
    importer::BindPast(*model, ports, length, length, &bound);
    return ImportModel(model, bound, report);
  }
  RONDO_ASSIGN_OR_RETURN(int64_t rows, importer::RowsOfRun(*model, ports, options));
  if (rows < 1 || rows >= length) {
    return Status::Error(Code::kInvalidArgument,
                         "--cache-length %lld: a run adds %lld positions; the cache must be longer than that",
                         static_cast<long long>(length), static_cast<long long>(rows));
  }
  const auto import = [&](int64_t total, bool shapes_only, ImportReport* said) {
    bound = options;
    bound.shapes_only = shapes_only;
    importer::BindPast(*model, ports, total - rows, total, &bound);
    return ImportModel(model, bound, said);
  };
  RONDO_ASSIGN_OR_RETURN(ir::Graph graph, import(length, false, report));
  RONDO_ASSIGN_OR_RETURN(ir::Graph longer, import(length + rows, true, nullptr));
  RONDO_ASSIGN_OR_RETURN(ir::Graph longest, import(length + 2 * rows, true, nullptr));
  importer::Fixer fixer(&graph, longer, longest, ports, length, rows);
  RONDO_RETURN_IF_ERROR(fixer.Run());
  return graph;
}

}  // namespace rondo
