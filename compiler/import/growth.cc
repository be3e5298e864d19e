#include "compiler/import/growth.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/import/op_context.h"
#include "compiler/ir/walk.h"
#include "core/scalar.h"

namespace rondo::importer {

using ir::Node;
using ir::NodeId;
using ir::Op;

// ---------------------------------------------------------------------------------------- extents

std::optional<Extent> Growth::ExtentOf(int64_t a, int64_t b, int64_t c) const {
  if (a == b && b == c) return Extent::kFixed;
  const bool times = a > length_ && a % length_ == 0 && b - a == a / length_ * step_ && c - b == b - a;
  if (times) return Extent::kTimesTotal;
  if (b - a != step_ || c - b != step_) return std::nullopt;
  if (a == past()) return Extent::kPast;
  if (a == length_) return Extent::kTotal;
  if (a > length_) return Extent::kBeyondTotal;
  return std::nullopt;
}

Status Growth::ReadExtentsOf(NodeId id) {
  const Node &a = g_->node(id), &b = second(id), &c = third(id);
  if (a.dead && b.dead && c.dead) return Status::Ok();
  const auto same = [&](const Node& other) {
    return a.dead == other.dead && a.op == other.op && a.inputs == other.inputs && a.dtype == other.dtype &&
           a.shape.rank == other.shape.rank;
  };
  if (!same(b) || !same(c))
    return Refuse("the operation is another one for other numbers of cached positions");
  for (int d = 0; d < a.shape.rank; ++d) {
    const std::optional<Extent> extent = ExtentOf(a.shape[d], b.shape[d], c.shape[d]);
    if (!extent) {
      return Refuse("dimension " + std::to_string(d) + " is " + std::to_string(a.shape[d]) + " for " +
                    std::to_string(past()) + " cached positions and " + std::to_string(b.shape[d]) + " for " +
                    std::to_string(length_));
    }
    extents_[static_cast<size_t>(id)].push_back(*extent);
  }
  const auto from_cache = [&](NodeId in) { return cached_[static_cast<size_t>(in)]; };
  cached_[static_cast<size_t>(id)] =
      CacheAt(id) >= 0 || (Grows(id) && std::any_of(a.inputs.begin(), a.inputs.end(), from_cache));
  return Status::Ok();
}

Status Growth::ReadExtents() {
  const NodeId end = g_->size();
  if (second_.size() != end || third_.size() != end)
    return Refuse("the model has other operations for other numbers of cached positions");
  extents_.resize(static_cast<size_t>(end));
  cached_.resize(static_cast<size_t>(end));
  for (NodeId id = 0; id < end; ++id) {
    const Status status = ReadExtentsOf(id);
    if (!status.ok()) return Named(status, id);
  }
  return Status::Ok();
}

bool Growth::Grows(NodeId id) const {
  const std::vector<Extent>& extents = extents_[static_cast<size_t>(id)];
  return std::any_of(extents.begin(), extents.end(), [](Extent e) { return e != Extent::kFixed; });
}

bool Growth::HasRowsInOne(NodeId id) const {
  const std::vector<Extent>& extents = extents_[static_cast<size_t>(id)];
  return std::find(extents.begin(), extents.end(), Extent::kTimesTotal) != extents.end();
}

int Growth::CacheAt(NodeId id) const {
  for (size_t i = 0; i < g_->inputs.size(); ++i) {
    if (g_->inputs[i].node != id) continue;
    for (const GrowingCache& cache : ports_.caches) {
      if (cache.past == g_->inputs[i].name) return static_cast<int>(i);
    }
  }
  return -1;
}

namespace {

bool IsInputOf(const ir::Graph& graph, NodeId id, const std::vector<std::string>& names) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const ir::GraphInput& input) {
    return input.node == id && std::find(names.begin(), names.end(), input.name) != names.end();
  });
}

}  // namespace

bool Growth::IsMask(NodeId id) const { return IsInputOf(*g_, id, ports_.masks); }
bool Growth::IsOfPositions(NodeId id) const { return IsInputOf(*g_, id, ports_.total_inputs); }

bool Growth::MasksCaches(NodeId id) const {
  std::vector<bool> of(static_cast<size_t>(second_.size()), false);
  of[static_cast<size_t>(id)] = true;
  for (NodeId at = id + 1; at < second_.size(); ++at) {
    const Node& n = second(at);
    bool any = false, meets = false;
    for (size_t k = 0; k < n.inputs.size() && !n.dead; ++k) {
      const auto in = static_cast<size_t>(n.inputs[k]);
      any = any || of[in];
      meets = meets || (cached_[in] && n.op == Op::kPointwise);
      const bool index = n.op == Op::kIndexedWrite && k >= 2 && cached_[static_cast<size_t>(n.inputs[0])];
      if (of[in] && (index || (n.op == Op::kAttention && k >= 3))) return true;
    }
    if (any && meets) return true;
    const bool moves =
        n.op == Op::kPointwise || n.op == Op::kView || n.op == Op::kIndexedRead || n.op == Op::kConcat;
    // Numbers of positions, too: their sum says where rows go.
    of[static_cast<size_t>(at)] =
        any && (Grows(at) ? moves : !IsFloat(n.dtype) && (moves || n.op == Op::kReduce));
  }
  return false;
}

// -------------------------------------------------------------------------------------- constants

namespace {

// The places in `a` and in `b` of the elements that both have, in order: in the longer of the two `shift`
// further along the dims that grow.
struct Places {
  std::vector<int64_t> a, b;
};
Places CommonPlaces(const Shape& a, const Shape& b, int64_t shift) {
  ir::View in_a = ir::DenseView(a), in_b = ir::DenseView(b);
  for (int d = 0; d < a.rank; ++d) {
    const int64_t count = std::min(a[d], b[d]);
    in_a = ir::Slice(in_a, d, a[d] > b[d] ? shift : 0, 1, count);
    in_b = ir::Slice(in_b, d, b[d] > a[d] ? shift : 0, 1, count);
  }
  return {ir::ResolveAll(in_a), ir::ResolveAll(in_b)};
}

double ValueAt(const Node& n, int64_t i) {
  return scalar::Load<double>(n.dtype, n.As<ir::ConstantAttrs>().data->bytes.data(), i);
}

}  // namespace

bool Growth::Alike(NodeId id, const Node& other, int64_t shift) const {
  const Node& n = g_->node(id);
  const size_t each = static_cast<size_t>(ByteSize(n.dtype));
  const uint8_t* a = n.As<ir::ConstantAttrs>().data->bytes.data();
  const uint8_t* b = other.As<ir::ConstantAttrs>().data->bytes.data();
  const Places places = CommonPlaces(n.shape, other.shape, shift);
  for (size_t i = 0; i < places.a.size(); ++i) {
    const size_t in_a = static_cast<size_t>(places.a[i]) * each,
                 in_b = static_cast<size_t>(places.b[i]) * each;
    if (std::memcmp(a + in_a, b + in_b, each) != 0) return false;
  }
  return true;
}

bool Growth::Slopes(NodeId id, std::vector<double>* slopes) const {
  const Node &a = g_->node(id), &b = second(id), &c = third(id);
  if (a.dtype == DType::kBool) return false;
  const Places once = CommonPlaces(a.shape, b.shape, 0), twice = CommonPlaces(a.shape, c.shape, 0);
  slopes->assign(static_cast<size_t>(a.shape.elements()), 0);
  double one = 0;
  for (size_t i = 0; i < once.a.size(); ++i) {
    one = (ValueAt(b, once.b[i]) - ValueAt(a, once.a[i])) / static_cast<double>(step_);
    (*slopes)[static_cast<size_t>(once.a[i])] = one;
    if (!IsFloat(a.dtype) && one != std::floor(one)) return false;
  }
  for (size_t i = 0; i < twice.a.size(); ++i) {
    const double rise = ValueAt(c, twice.b[i]) - ValueAt(a, twice.a[i]);
    const double near = IsFloat(a.dtype) ? 1e-6 * std::max(1.0, std::abs(rise)) : 0;
    const double slope = (*slopes)[static_cast<size_t>(twice.a[i])];
    if (!(std::abs(rise - 2 * slope * static_cast<double>(step_)) <= near)) return false;
  }
  if (once.a.size() == slopes->size()) return true;
  // What the others have not is known only where all grow alike.
  for (const int64_t place : once.a) {
    if ((*slopes)[static_cast<size_t>(place)] != one) return false;
  }
  slopes->assign(slopes->size(), one);
  return true;
}

// ------------------------------------------------------------------ what mixes positions with others

namespace {

// The dim of a view's base that one step along dim `axis` of the view moves in; -1 if it moves in none or
// several.
int BaseAxis(const ir::View& view, const Shape& base, int axis) {
  std::vector<int64_t> index(static_cast<size_t>(view.shape().rank), 0);
  int64_t from = ir::Resolve(view, index);
  index[static_cast<size_t>(axis)] = 1;
  int64_t to = ir::Resolve(view, index);
  int moved = -1, moves = 0;
  for (int d = base.rank; d-- > 0; from /= base[d], to /= base[d]) {
    if (from % base[d] == to % base[d]) continue;
    moved = d;
    ++moves;
  }
  return moves == 1 ? moved : -1;
}

}  // namespace

// A read of something by its positions, each at its own place along dim `axis`: that dim of what is read. -1
// if it is none.
int Growth::ReadsInOrder(NodeId id, int axis) const {
  const Node& n = second(id);
  const std::vector<ir::IndexedDim>& dims = n.As<ir::IndexedAttrs>().dims;
  const Node& data = second(n.inputs[0]);
  int64_t stride = 1;
  for (int d = data.shape.rank; d-- > 0; stride *= data.shape[d]) {
    for (size_t k = 0; k < dims.size() && extent(data.id, d) == Extent::kTotal; ++k) {
      if (dims[k].stride != stride || dims[k].extent != data.shape[d]) continue;
      const auto index = EvaluateConstant(second_, n.inputs[k + 1]);
      if (!index.ok()) return -1;
      const std::vector<int64_t> places = ir::ResolveAll(ir::DenseView(n.shape));
      const int64_t behind = ir::DenseView(n.shape).steps[0].strides[axis];
      for (const int64_t i : places) {
        const int64_t at = scalar::Load<int64_t>((*index)->dtype, (*index)->bytes.data(), i);
        if (at != i / behind % n.shape[axis]) return -1;
      }
      return d;
    }
  }
  return -1;
}

// Along dim `axis`, behind the last real position there are zeros only.
bool Growth::ZeroBeyond(NodeId id, int axis, int depth) const {
  if (depth > 64) return false;
  const Node& n = second(id);  // as the model has it
  // What is added to scores may be anything there.
  if (IsMask(id)) return axis == n.shape.rank - 1 && !(IsFloat(n.dtype) && n.shape.rank > 2);
  const auto zero = [&](size_t k) { return ZeroBeyond(n.inputs[k], axis, depth + 1); };
  if (n.op == Op::kConstant) {
    const auto& data = n.As<ir::ConstantAttrs>().data;
    return !data->synthetic &&
           std::all_of(data->bytes.begin(), data->bytes.end(), [](uint8_t x) { return x == 0; });
  }
  if (n.op == Op::kView) {
    const Node& base = second(n.inputs[0]);
    if (base.op == Op::kConstant) return zero(0);
    const int moved = BaseAxis(n.As<ir::ViewAttrs>().view, base.shape, axis);
    return moved >= 0 && extent(base.id, moved) != Extent::kFixed && ZeroBeyond(base.id, moved, depth + 1);
  }
  if (n.op == Op::kIndexedRead && extent(id, axis) == Extent::kTotal) {
    const int d = ReadsInOrder(id, axis);
    return d >= 0 && ZeroBeyond(n.inputs[0], d, depth + 1);
  }
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

Status Growth::CheckReduce(NodeId id) {
  const ir::ReduceAttrs& attrs = second(id).As<ir::ReduceAttrs>();
  const NodeId in = second(id).inputs[0];
  for (int axis : attrs.axes) {
    if (extent(in, axis) == Extent::kFixed || cached_[static_cast<size_t>(in)]) continue;
    if (attrs.kind == ir::ReduceKind::kSum && ZeroBeyond(in, axis)) continue;
    asks_for_mask_ = true;
    return Refuse(
        "a reduction over the positions of something that is no mask (if an input is one, say so: "
        "--position-mask INPUT)");
  }
  return Status::Ok();
}

Status Growth::CheckMatMul(NodeId id) const {
  const NodeId a = second(id).inputs[0], b = second(id).inputs[1];
  if (extent(a, second(id).shape.rank - 1) == Extent::kFixed ||
      (cached_[static_cast<size_t>(a)] && cached_[static_cast<size_t>(b)])) {
    return Status::Ok();
  }
  return Refuse("a product that adds up over the cached positions, and not of what comes of caches alone");
}

// ----------------------------------------------------------------------------------------- errors

Status Growth::Refuse(const std::string& why) const {
  return Status::Error(
      Code::kUnsupported,
      "--cache-length %lld: %s; export the model so that attention alone depends on how much is cached "
      "(GroupQueryAttention, Attention), or with a cache of a fixed length, or compile it for one number of "
      "cached positions (--shape)",
      static_cast<long long>(length_), why.c_str());
}

Status Growth::Named(const Status& status, NodeId id) const {
  const Node& n = g_->node(id);
  if (n.sources.empty() || status.source_node()[0] != '\0') return status;
  return status.At("%.400s", n.sources[0].c_str()).FromNode(n.sources[0]);
}

}  // namespace rondo::importer
