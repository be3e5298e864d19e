#include "compiler/shard/pad_uneven.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/shard/describe.h"
#include "compiler/shard/pad_weight.h"

namespace rondo::shard {
namespace {

using Data = std::shared_ptr<const ConstantData>;

// The multiple of `devices` to which `extent` is padded. Units of 64, 16 or 8 elements per device are
// preferred while they cost little, because kernels run faster with them; the unit is at least `least`.
int64_t PaddedTo(int64_t extent, int64_t devices, int64_t least) {
  for (const auto& [unit, share] : {std::pair<int64_t, int64_t>{64, 32}, {16, 32}, {8, 16}}) {
    const int64_t to = (extent + unit * devices - 1) / (unit * devices) * (unit * devices);
    if ((to - extent) * share <= extent && unit >= least) return to;
  }
  return (extent + devices * least - 1) / (devices * least) * devices * least;
}

class Padding {
 public:
  Padding(const Costs& costs, const std::set<std::string>& leave, Graph* graph)
      : costs_(costs), leave_(leave), g_(*graph), b_(graph), old_(graph->size()) {}

  // Pads all uneven dims, or only those of tables.
  std::vector<PaddedDim> Run(bool tables = false) {
    tables_ = tables;
    for (NodeId id = 0; id < old_; ++id) {
      if (g_.IsConstant(id) && g_.node(id).As<ir::ConstantAttrs>().data->packed != nullptr)
        unit_ = kPackedUnit;
    }
    for (NodeId id : g_.TopologicalOrder()) {
      if (g_.node(id).op == Op::kMatMul && !tables) PadColumns(id);
      if (g_.node(id).op == Op::kIndexedRead) PadTable(id);
    }
    if (!done_.empty()) {
      g_.RemoveDead();
      g_.Compact();
    }
    return std::move(done_);
  }

 private:
  // Values whose last dim is padded, and their readers.
  struct Region {
    int64_t from = 0, to = 0;
    std::set<NodeId> values;                     // matmuls with a weight, pointwise nodes
    std::set<std::pair<NodeId, size_t>> sums;    // matmuls that sum over the dim, with the input
    std::set<std::pair<NodeId, size_t>> others;  // readers of the old part; views with input 0
    std::set<NodeId> views;                      // views of the values, over their whole dim
    bool tangled = false;                        // values are read in other ways by values
  };

  bool Uneven(int64_t extent) const {
    const int64_t devices = costs_.devices();
    return extent % devices != 0 && extent >= 2 * devices &&
           4 * PaddedTo(extent, devices, unit_) <= 3 * extent * devices;
  }

  // ------------------------------------------------------------------------------- what to pad

  // The dim of the constant behind `in` along which dim `dim` of `in` runs.
  std::optional<int> ConstantDim(NodeId in, int dim, int64_t extent) const {
    const NodeId base = g_.BaseOf(in);
    if (!g_.IsConstant(base) || base >= old_) return std::nullopt;
    const ConstantData& data = *g_.node(base).As<ir::ConstantAttrs>().data;
    int64_t stride = 1;
    for (int d = data.shape.rank - 1; d >= 0; --d) {
      if (data.shape[d] == extent && CanPad(data, d) && Widen(g_.ViewOf(in), dim, stride, extent, extent + 1))
        return d;
      stride *= data.shape[d];
    }
    return std::nullopt;
  }

  int Last(NodeId id) const { return g_.node(id).shape.rank - 1; }
  bool HasExtent(NodeId id, int64_t extent) const {
    const Node& node = g_.node(id);
    return node.shape.rank > 0 && node.shape[node.shape.rank - 1] == extent;
  }
  bool IsProducer(NodeId id, int64_t extent) const {
    const Node& node = g_.node(id);
    return node.op == Op::kMatMul && HasExtent(id, extent) && ConstantDim(node.inputs[1], Last(id), extent) &&
           !g_.IsConstant(g_.BaseOf(node.inputs[0]));
  }
  bool Repeats(NodeId in) const {
    const View view = g_.ViewOf(in);
    return view.affine() && view.shape().rank > 0 && view.steps[0].strides[view.shape().rank - 1] == 0;
  }

  // Adds `id` and all nodes that must be padded with it to `values`; false if that is impossible.
  bool Join(NodeId id, int64_t extent, std::set<NodeId>* values) const {
    if (values->count(id) != 0) return true;
    if (taken_.count(id) != 0 || id >= old_) return false;
    if (IsProducer(id, extent)) {
      values->insert(id);
      return true;
    }
    const Node& node = g_.node(id);
    if (node.op != Op::kPointwise || !HasExtent(id, extent)) return false;
    std::set<NodeId> more = *values;
    more.insert(id);
    for (NodeId in : node.inputs) {
      if (Repeats(in) || ConstantDim(in, Last(in), extent)) continue;
      const NodeId base = g_.BaseOf(in);
      if (base != in && !Widen(g_.ViewOf(in), Last(in), 1, extent, extent + 1)) return false;
      if (more.size() > kMostValues || !Join(base, extent, &more)) return false;
    }
    *values = std::move(more);
    return true;
  }

  // Classifies the readers of `value`, or of the view `seen` of it, by input; true if more values have
  // joined.
  bool Read(NodeId seen, Region* region) {
    bool more = false;
    for (NodeId user : g_.UsersOf(seen)) {
      const Node& reader = g_.node(user);
      if (region->values.count(user) != 0) {
        region->tangled = region->tangled || reader.op == Op::kMatMul;
        continue;
      }
      if (reader.op == Op::kView) {
        if (Widen(reader.As<ir::ViewAttrs>().view, Last(user), 1, region->from, region->to)) {
          region->views.insert(user);
          more = Read(user, region) || more;
        } else {
          region->others.insert({user, 0});
        }
        continue;
      }
      const size_t before = region->values.size();
      if (reader.op == Op::kPointwise && Join(user, region->from, &region->values)) {
        more = more || region->values.size() > before;
        continue;
      }
      for (size_t slot = 0; slot < reader.inputs.size(); ++slot) {
        if (reader.inputs[slot] != seen) continue;
        const bool sums = reader.op == Op::kMatMul && slot == 0 && user < old_ && taken_.count(user) == 0 &&
                          ConstantDim(reader.inputs[1], Last(user) - 1, region->from);
        (sums ? region->sums : region->others).insert({user, slot});
      }
    }
    return more;
  }

  void PadColumns(NodeId id) {
    const int64_t extent = g_.node(id).shape[Last(id)];
    if (taken_.count(id) != 0 || !Uneven(extent) || !IsProducer(id, extent)) return;
    Region region;
    region.from = extent;
    region.to = PaddedTo(extent, costs_.devices(), unit_);
    region.values.insert(id);
    for (bool more = true; more;) {
      region.sums.clear();
      region.others.clear();
      region.views.clear();
      more = false;
      for (NodeId value : std::set<NodeId>(region.values)) more = Read(value, &region) || more;
    }
    const int64_t summed = g_.node(g_.node(id).inputs[0]).shape[Last(id)];
    const bool ends =
        std::any_of(region.values.begin(), region.values.end(), [&](NodeId v) { return g_.IsOutput(v); });
    for (NodeId value : region.values) {
      for (NodeId in : g_.node(value).inputs)
        region.tangled = region.tangled || (Repeats(in) && region.values.count(g_.BaseOf(in)) != 0);
    }
    if (region.tangled || (region.sums.empty() && extent < 2 * summed)) return;
    if (!region.sums.empty() && ends && extent < 2 * summed) return;
    if (WorthIt(region)) Apply(region);
  }

  bool WorthIt(const Region& region) const {
    std::set<NodeId> weights;
    for (NodeId value : region.values) {
      for (NodeId in : g_.node(value).inputs) {
        if (g_.IsConstant(g_.BaseOf(in))) weights.insert(g_.BaseOf(in));
      }
    }
    for (const auto& [sum, slot] : region.sums) weights.insert(g_.BaseOf(g_.node(sum).inputs[1]));
    int64_t bytes = 0;
    for (NodeId weight : weights) bytes += BytesOf(g_.node(weight));
    return costs_.PaysAMessage(bytes) && leave_.count(NameFor(region)) == 0;
  }
  std::string NameFor(const Region& region) const {
    const NodeId first = *std::find_if(region.values.begin(), region.values.end(),
                                       [&](NodeId v) { return g_.node(v).op == Op::kMatMul; });
    return NameOf(g_.node(g_.BaseOf(g_.node(first).inputs[1])));
  }

  // -------------------------------------------------------------------------------------- doing it

  NodeId PaddedWeight(NodeId in, int dim, const Region& region, PaddedDim* done) {
    const int d = *ConstantDim(in, dim, region.from);
    const View view = g_.ViewOf(in);
    return b_.ViewNode(PaddedConstant(g_.BaseOf(in), d, region.to, done),
                       *Widen(view, dim, view.steps[0].strides[dim], region.from, region.to));
  }

  NodeId PaddedConstant(NodeId base, int d, int64_t to, PaddedDim* done) {
    NodeId& padded = constants_.try_emplace({base, d, to}, ir::kNoNode).first->second;
    if (padded == ir::kNoNode) {
      Node node = g_.node(base);
      const Data data = Pad(node.As<ir::ConstantAttrs>().data, d, to);
      node.shape = data->shape;
      node.attrs = ir::ConstantAttrs{data};
      padded = g_.Add(std::move(node));
    }
    const Data& data = g_.node(padded).As<ir::ConstantAttrs>().data;
    if (std::find(done->weights.begin(), done->weights.end(), data) == done->weights.end())
      done->weights.push_back(data);
    return padded;
  }

  void Speak(const Node& node) {
    b_.SetSources(node.sources);
    b_.SetAnnotations(node.annotations);
  }

  void Apply(const Region& region) {
    PaddedDim done{NameFor(region), region.from, region.to, {}};
    taken_.insert(region.values.begin(), region.values.end());
    for (NodeId id : region.values) {
      const Node node = g_.node(id);
      Speak(node);
      for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
        const NodeId in = node.inputs[slot];
        if (node.op == Op::kMatMul && slot == 0) continue;
        if (node.op == Op::kMatMul || (!Repeats(in) && ConstantDim(in, Last(in), region.from))) {
          g_.SetInput(id, slot, PaddedWeight(in, Last(in), region, &done));
        } else if (Repeats(in)) {
          View wide = g_.ViewOf(in);
          wide.steps[0].shape[Last(in)] = region.to;
          g_.SetInput(id, slot, b_.ViewNode(g_.BaseOf(in), wide));
        }
      }
      g_.node(id).shape[node.shape.rank - 1] = region.to;
    }
    for (NodeId id : region.views) {
      Node& view = g_.node(id);
      auto& shown = view.As<ir::ViewAttrs>().view;
      shown = *Widen(shown, Last(id), 1, region.from, region.to);
      view.shape = shown.shape();
    }
    for (const auto& [id, slot] : region.sums) SumOverOldPart(id, region, &done);
    for (const auto& [id, slot] : region.others) SeeOldPart(id, slot, region.from);
    for (NodeId id : region.values) SeeOldPartOutside(id, region.from);
    for (NodeId id : region.views) SeeOldPartOutside(id, region.from);
    done_.push_back(std::move(done));
  }

  // A matmul that sums over the dim gets zeros beyond the old end, and its weight gets rows there.
  void SumOverOldPart(NodeId id, const Region& region, PaddedDim* done) {
    const Node node = g_.node(id);
    Speak(node);
    std::vector<int64_t> inside(static_cast<size_t>(region.to), 0);
    std::fill_n(inside.begin(), region.from, 1);
    const NodeId old = b_.Ints(DType::kBool, Shape({region.to}), inside);
    const NodeId zero = b_.Scalar(b_.dtype(node.inputs[0]), 0);
    g_.SetInput(id, 0, b_.Select(old, node.inputs[0], zero));
    g_.SetInput(id, 1, PaddedWeight(node.inputs[1], Last(id) - 1, region, done));
    taken_.insert(id);
  }

  NodeId OldPart(NodeId id, int64_t extent) { return b_.Slice(id, Last(id), 0, 1, extent); }

  void SeeOldPart(NodeId id, size_t slot, int64_t extent) {
    Node& node = g_.node(id);
    Speak(node);
    if (node.op == Op::kView) {
      auto& shown = node.As<ir::ViewAttrs>().view;
      const View whole = ir::DenseView(g_.node(node.inputs[0]).shape);
      shown = ir::Compose(ir::Slice(whole, whole.shape().rank - 1, 0, 1, extent), shown);
    } else {
      g_.SetInput(id, slot, OldPart(node.inputs[slot], extent));
    }
  }
  void SeeOldPartOutside(NodeId id, int64_t extent) {
    Speak(g_.node(id));
    for (size_t output : g_.OutputsAt(id)) g_.SetOutput(output, OldPart(id, extent));
  }

  // -------------------------------------------------------------------------------------- tables

  // Pads the rows of a table that is read by index. Indices beyond its old end are out of range as before.
  void PadTable(NodeId id) {
    const Node node = g_.node(id);
    const NodeId base = node.inputs[0];
    if (!g_.IsConstant(base) || base >= old_ || g_.node(base).shape.rank == 0) return;
    const Data& data = g_.node(base).As<ir::ConstantAttrs>().data;
    const int64_t rows = data->shape[0], row = data->shape.elements() / std::max<int64_t>(rows, 1);
    if (!Uneven(rows) || !CanPad(*data, 0) || !costs_.PaysAMessage(data->byte_size())) return;
    const auto& dims = node.As<ir::IndexedAttrs>().dims;
    const auto by_row = [&](const ir::IndexedDim& dim) { return dim.stride == row && dim.extent == rows; };
    if (std::count_if(dims.begin(), dims.end(), by_row) != 1) return;
    const int64_t devices = costs_.devices();
    const int64_t to = tables_ ? (rows + devices - 1) / devices * devices : PaddedTo(rows, devices, unit_);
    PaddedDim done{NameOf(g_.node(base)), rows, to, {}};
    if (leave_.count(done.name) != 0 || !OthersArePadded(base, id, rows)) return;
    Speak(node);
    const auto k = static_cast<size_t>(std::find_if(dims.begin(), dims.end(), by_row) - dims.begin());
    const NodeId index = node.inputs[k + 1];
    const NodeId guarded = Guarded(g_.BaseOf(index), dims[k], done.to);
    g_.SetInput(id, k + 1, b_.ViewNode(guarded, g_.ViewOf(index)));
    g_.SetInput(id, 0, PaddedConstant(base, 0, done.to, &done));
    ir::IndexedDim& dim = g_.node(id).As<ir::IndexedAttrs>().dims[k];
    dim.extent = done.to;
    dim.wrap = false;
    done_.push_back(std::move(done));
  }

  // Whether all other readers of a table read it as padded columns; otherwise the table would be held twice.
  bool OthersArePadded(NodeId table, NodeId reader, int64_t rows) {
    for (NodeId user : g_.UsersOf(table)) {
      if (user == reader) continue;
      if (g_.node(user).op != Op::kView || tables_) return false;
      for (NodeId id : g_.UsersOf(user)) {
        const Node& node = g_.node(id);
        if (node.op != Op::kMatMul || node.inputs[1] != user || !IsProducer(id, rows)) return false;
        if (rows < 2 * g_.node(node.inputs[0]).shape[Last(node.inputs[0])]) return false;
      }
    }
    return true;
  }

  // `index` where it is in range, otherwise `to`.
  NodeId Guarded(NodeId index, const ir::IndexedDim& dim, int64_t to) {
    NodeId at = b_.Cast(index, DType::kI64);
    const auto number = [&](int64_t value) { return b_.Scalar(DType::kI64, static_cast<double>(value)); };
    if (dim.wrap) at = b_.Select(b_.Binary(TapeOp::kLess, at, number(0)), b_.Add(at, number(dim.extent)), at);
    const NodeId low = b_.Select(b_.Binary(TapeOp::kLess, at, number(0)), number(to), at);
    return b_.Select(b_.Binary(TapeOp::kLess, low, number(dim.extent)), low, number(to));
  }

  static constexpr int64_t kPackedUnit = 16;  // shares of packed weights are multiples of it
  static constexpr size_t kMostValues = 64;   // of one region: an MLP has a dozen or two

  const Costs& costs_;
  const std::set<std::string>& leave_;
  Graph& g_;
  ir::Builder b_;
  const NodeId old_;        // nodes before it are from the original graph
  int64_t unit_ = 1;        // of a share
  bool tables_ = false;     // pads nothing else
  std::set<NodeId> taken_;  // already padded
  std::map<std::tuple<NodeId, int, int64_t>, NodeId> constants_;
  std::vector<PaddedDim> done_;
};

}  // namespace

std::vector<PaddedDim> PadUneven(const Costs& costs, const std::set<std::string>& leave, Graph* graph) {
  return Padding(costs, leave, graph).Run();
}

void PadTables(const Costs& costs, Graph* graph) { Padding(costs, {}, graph).Run(true); }

}  // namespace rondo::shard
