#include "compiler/shard/cut_weight.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "compiler/ir/packed_parts.h"
#include "compiler/ir/walk.h"
#include "core/synthetic.h"
#include "formats/plan/live_weights.h"

namespace rondo::shard {
namespace {

using ir::IndexRuns;
using Data = std::shared_ptr<const ConstantData>;

constexpr int64_t kWorthSeparating = 1024;  // bytes

// The elements of a synthetic weight that `view` covers, if they are evenly spaced runs of the original
// weight.
std::optional<Data> CutSynthetic(const ConstantData& whole, const View& view) {
  View part = view;
  if (whole.synthetic_run != 0) {
    ir::ViewStep runs;
    runs.shape = {whole.shape.elements() / whole.synthetic_run, whole.synthetic_run};
    runs.strides[0] = whole.synthetic_step;
    runs.strides[1] = 1;
    part.steps.insert(part.steps.begin(), runs);
  }
  ir::LoopNest nest(part.shape());
  if (!ir::RefineLoops(part, &nest)) return std::nullopt;
  const auto map = ir::MapOver(part, nest);
  if (!map) return std::nullopt;
  std::vector<ir::IndexDim> loops;  // joined, outermost first
  const std::vector<int64_t> extents = nest.extents();
  for (size_t l = 0; l < extents.size(); ++l) {
    if (extents[l] == 1) continue;
    if (!loops.empty() && loops.back().stride == extents[l] * map->strides[l]) {
      loops.back() = {loops.back().extent * extents[l], map->strides[l]};
    } else {
      loops.push_back({extents[l], map->strides[l]});
    }
  }
  if (loops.empty() || loops.back().stride != 1) loops.push_back({1, 1});
  if (loops.size() > 2) return std::nullopt;
  auto cut = std::make_shared<ConstantData>(whole);
  cut->shape = view.shape();
  // Element i of a weight with key k is a function of k + i * odd constant: another first element is another
  // key.
  cut->synthetic_key += static_cast<uint64_t>(map->offset) * kSyntheticStride;
  cut->synthetic_run = loops.size() == 2 ? loops[1].extent : 0;
  cut->synthetic_step = loops.size() == 2 ? loops[0].stride : 0;
  return cut;
}

Data Cut(const Data& whole, const View& view) {
  if (whole->synthetic) {
    if (auto cut = CutSynthetic(*whole, view)) return *cut;
  }
  const Data from = ir::WithBytes(whole);
  auto cut = std::make_shared<ConstantData>(*from);
  cut->shape = view.shape();
  const auto size = static_cast<size_t>(ByteSize(from->dtype));
  const size_t bytes = static_cast<size_t>(cut->shape.elements()) * size;
  const std::vector<ir::IndexDim> dims =
      view.affine() ? ir::JoinedDims(view.steps[0]) : std::vector<ir::IndexDim>(2);
  if (dims.empty() || (dims.size() == 1 && dims[0].stride == 1)) {
    cut->bytes = from->bytes.subspan(static_cast<size_t>(view.steps[0].offset) * size, bytes);
    return cut;
  }
  auto copy = std::make_shared<std::vector<uint8_t>>(bytes);
  ir::ForEachElement(view, [&](int64_t i, int64_t at) {
    std::memcpy(copy->data() + static_cast<size_t>(i) * size,
                from->bytes.data() + static_cast<size_t>(at) * size, size);
  });
  cut->bytes = {copy->data(), copy->size()};
  cut->keep = copy;
  return cut;
}

// The part of a constant that a view covers, each element once: the part's place in the constant, and the
// view of the part.
struct Part {
  View of_constant, shown;
};
std::optional<Part> PartOf(const View& view, int64_t elements) {
  ir::LoopNest nest(view.shape());
  if (!ir::RefineLoops(view, &nest)) return std::nullopt;
  const auto map = ir::MapOver(view, nest);
  if (!map) return std::nullopt;
  struct Loop {
    int64_t extent, stride, dense;
  };
  std::vector<Loop> loops;  // of the view, in its order
  const std::vector<int64_t> extents = nest.extents();
  for (size_t l = 0; l < extents.size(); ++l) {
    if (extents[l] > 1) loops.push_back({extents[l], map->strides[l], 0});
    if (extents[l] > 1 && map->strides[l] < 0) return std::nullopt;
  }
  std::vector<Loop*> order;
  for (Loop& loop : loops) {
    if (loop.stride > 0) order.push_back(&loop);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Loop* a, const Loop* b) { return a->stride > b->stride; });
  ir::ViewStep of_constant, shown;
  of_constant.offset = map->offset;
  int64_t dense = 1;
  for (size_t l = order.size(); l-- > 0;) {
    const int64_t reach = order[l]->stride * order[l]->extent;
    if (l > 0 && order[l - 1]->stride < reach) return std::nullopt;  // an element is covered twice
    order[l]->dense = dense;
    dense *= order[l]->extent;
  }
  if (order.size() > static_cast<size_t>(kMaxRank) || loops.size() > static_cast<size_t>(kMaxRank) ||
      dense == elements) {
    return std::nullopt;
  }
  for (const Loop* loop : order) {
    of_constant.strides[of_constant.shape.rank] = loop->stride;
    of_constant.shape.dims[of_constant.shape.rank++] = loop->extent;
  }
  for (const Loop& loop : loops) {
    shown.strides[shown.shape.rank] = loop.dense;
    shown.shape.dims[shown.shape.rank++] = loop.extent;
  }
  return Part{View{{of_constant}}, ir::Reshape(View{{shown}}, view.shape())};
}

// The rows of a packed constant [n, k] that a view covers, in order; none if it covers anything else.
std::optional<IndexRuns> RowsShown(const ConstantData& whole, const View& view) {
  const int64_t k = whole.packed->k;
  const std::vector<ir::IndexDim> dims =
      view.affine() ? ir::JoinedDims(view.steps[0]) : std::vector<ir::IndexDim>();
  if (dims.empty() || dims.size() > 2 || dims.back().stride != 1 || dims.back().extent % k != 0 ||
      view.steps[0].offset % k != 0 || (dims.size() == 2 && dims[0].stride % k != 0))
    return std::nullopt;
  IndexRuns rows = {view.steps[0].offset / k, dims.back().extent / k};
  if (dims.size() == 2) {
    rows.step = dims[0].stride / k;
    rows.count = dims[0].extent;
  }
  return rows;
}

// The rows and columns of a packed constant that belong to device `rank`.
std::optional<std::pair<IndexRuns, IndexRuns>> PackedShare(const ConstantData& whole, Sharding sharding,
                                                           int64_t devices, int64_t rank) {
  const SplitDim split = DimOf(whole.shape, sharding, devices);
  if (split.dim < 0) return std::nullopt;
  const int64_t parts = sharding.parts(devices), step = parts * split.inner;
  const IndexRuns runs = {rank / sharding.copies * split.inner, split.inner, step,
                          whole.shape[split.dim] / step};
  const IndexRuns rows = {0, whole.shape[0]}, columns = {0, whole.shape[1]};
  return split.dim == 0 ? std::pair(runs, columns) : std::pair(rows, runs);
}

std::shared_ptr<ConstantData> CutRows(const Data& whole, const IndexRuns& n, const IndexRuns& k) {
  return std::make_shared<ConstantData>(
      *ir::PackedConstant(ir::CutPacked(*whole->packed, n, k), whole->dtype, whole->name));
}

// A live weight must be cut in place, so that its new values can be cut in the same way.
bool CanCutPart(const ConstantData& whole, const IndexRuns& n, const IndexRuns& k) {
  const ir::PackedMatrix& matrix = *whole.packed;
  return ir::CanCutPacked(matrix, n, k) && (ir::CutsInPlace(matrix, n, k) || !matrix.codes->synthetic ||
                                            !IsOfLiveWeight(whole.name, matrix.codes->synthetic_key));
}

// Whether the view's part of a constant can become a constant of its own; only rows of a packed one can.
bool CanBeSeparate(const ConstantData& whole, const View& view) {
  if (whole.packed == nullptr) return true;
  const auto rows = RowsShown(whole, view);
  return rows && CanCutPart(whole, *rows, {0, whole.packed->k});
}
Data Separated(const Data& whole, const View& view) {
  if (whole->packed == nullptr) return Cut(whole, view);
  return CutRows(whole, *RowsShown(*whole, view), {0, whole->packed->k});
}

}  // namespace

bool CanCut(const ConstantData& whole, Sharding sharding, int64_t devices) {
  if (whole.packed == nullptr || !sharding.is_split()) return true;
  for (int64_t rank = 0; rank < devices; rank += sharding.copies) {
    const auto share = PackedShare(whole, sharding, devices, rank);
    if (!share || !CanCutPart(whole, share->first, share->second)) return false;
  }
  return true;
}

Data ShareOf(const Data& whole, Sharding sharding, int64_t devices, int64_t rank) {
  if (!sharding.is_split()) return whole;
  if (whole->packed != nullptr) {
    const auto share = PackedShare(*whole, sharding, devices, rank);
    const auto cut = CutRows(whole, share->first, share->second);
    cut->part_of = whole;
    return cut;
  }
  auto cut = std::make_shared<ConstantData>(*Cut(whole, ShareView(whole->shape, sharding, devices, rank)));
  cut->shape = LocalShape(whole->shape, sharding, devices);
  cut->part_of = whole;
  return cut;
}

int SeparateWeights(Graph* graph) {
  int separated = 0;
  for (NodeId id = 0, end = graph->size(); id < end; ++id) {
    if (!graph->IsConstant(id) || graph->node(id).dead || graph->IsOutput(id)) continue;
    const Data whole = graph->node(id).As<ir::ConstantAttrs>().data;
    if (whole->byte_size() < kWorthSeparating) continue;
    const std::vector<NodeId> users = graph->UsersOf(id);
    std::vector<Part> parts;
    for (NodeId user : users) {
      if (graph->node(user).op != ir::Op::kView) break;
      auto part = PartOf(graph->ViewOf(user), whole->shape.elements());
      if (!part || !CanBeSeparate(*whole, part->of_constant)) break;
      parts.push_back(std::move(*part));
    }
    if (parts.size() != users.size()) continue;
    for (size_t u = 0; u < users.size(); ++u) {
      Node constant;
      constant.op = ir::Op::kConstant;
      constant.sources = graph->node(id).sources;
      constant.name = graph->node(id).name;
      const Data cut = Separated(whole, parts[u].of_constant);
      constant.dtype = cut->dtype;
      constant.shape = cut->shape;
      constant.attrs = ir::ConstantAttrs{cut};
      const NodeId own = graph->Add(std::move(constant));
      graph->node(users[u]).As<ir::ViewAttrs>().view = parts[u].shown;
      graph->SetInput(users[u], 0, own);
      ++separated;
    }
  }
  if (separated > 0) {
    graph->RemoveDead();
    graph->Compact();
  }
  return separated;
}

}  // namespace rondo::shard
