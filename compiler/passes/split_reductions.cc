// SplitReductions: a reduction that would use a part of a GPU becomes one over slices of its rows, and a
// small one over the slices' results.
//
// A kernel spreads a row over the blocks of one cluster at most. Of few rows that leaves most multiprocessors
// idle; and where rows are groups of the channels of an image that lies channels last, each reads a few bytes
// of every sector, again for each stage. Slices of single channels are as many as the machine needs, and lie
// side by side: they are reduced as columns, whatever the groups.
#include "compiler/passes/split_reductions.h"

#include <algorithm>
#include <optional>

#include "compiler/passes/row_elements.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

// What a read wastes: rows of 4 channels of an image (8 bytes) took 415 us where three reads and a write are
// 120 (134 MB, an H200).
constexpr double kFullRun = 64;          // bytes of a row that must lie together for all of the bandwidth
constexpr double kReadingShare = 0.75;   // of the multiprocessors, which reach the bandwidth together
constexpr int64_t kColumnsOfBlock = 16;  // rows side by side of which a block reads whole sectors
constexpr int64_t kBlocksTogether = 2;   // of a multiprocessor, of kernels that keep rows on chip
constexpr int64_t kVector = 8;           // elements of the longest vectors
constexpr int64_t kShortRun = 64;        // elements at the end of a row that are left to the second kernel

// Parts of the dims of what a reduction reads, so that channels have dims of their own.
enum class Use : uint8_t { kKept, kSlice, kLater };  // kSlice, kLater: reduced by the first, the second
struct Dim {
  int64_t extent = 1;
  Use use = Use::kKept;
  bool slices = false;  // counts slices
};

struct Rows {
  NodeId reduce = kNoNode;
  RowElements elements;
  std::vector<Dim> dims;
  int64_t rows = 1, row = 1;   // rows, and elements of each
  int64_t bytes = 1;           // of an element in memory
  bool image = false;          // of channels that are likely to lie last
  int64_t batch = 1, run = 0;  // of the image; elements of a row that lie together
  bool columns = false;        // rows lie side by side
  int64_t rest = 0;            // of the dim that is cut: elements behind its whole slices
};

// The elements from each place to the end where a dim of `shape` begins, and 1: ascending.
std::vector<int64_t> BordersOf(const Shape& shape) {
  std::vector<int64_t> borders = {1};
  for (int d = shape.rank; d-- > 0;)
    if (shape[d] > 1) borders.push_back(borders.back() * shape[d]);
  return borders;
}

class RowSplitter {
 public:
  RowSplitter(Graph* graph, const SplitOptions& options) : g_(*graph), options_(options) {}

  int64_t Run() {
    const std::vector<NodeId> order = g_.TopologicalOrder();
    convolves_ =
        std::any_of(order.begin(), order.end(), [&](NodeId id) { return g_.node(id).op == Op::kConv; });
    int64_t changes = 0;
    for (NodeId id : order) {
      if (g_.node(id).dead) continue;
      level_.resize(static_cast<size_t>(g_.size()), 0);
      int& level = level_[static_cast<size_t>(id)];
      for (NodeId input : g_.node(id).inputs)
        level = std::max(level, level_[static_cast<size_t>(g_.BaseOf(input))]);
      changes += g_.node(id).op == Op::kReduce && Split(id);
    }
    return changes;
  }

 private:
  bool Split(NodeId id) {
    const Node& node = g_.node(id);
    const ir::ReduceKind kind = node.As<ir::ReduceAttrs>().kind;
    const auto binds = [](const auto& annotation) { return annotation.first != "label"; };
    if (kind == ir::ReduceKind::kArgMax || kind == ir::ReduceKind::kArgMin ||
        std::any_of(node.annotations.begin(), node.annotations.end(), binds) ||
        g_.node(node.inputs[0]).shape.elements() <= options_.least_slice)
      return false;
    Rows rows = RowsOf(id);
    if (FitsOnChip(rows) || !IsWorthIt(rows) || !CutSlices(&rows)) return false;
    const NodeId instead = Make(rows);
    if (!g_.CanReplace(id, instead)) return false;
    const int level = level_[static_cast<size_t>(id)] + 1;
    g_.Replace(id, instead);
    level_.resize(static_cast<size_t>(g_.size()), 0);
    level_[static_cast<size_t>(g_.BaseOf(instead))] = level;
    return true;
  }

  Rows RowsOf(NodeId id) const {
    Rows rows;
    rows.reduce = id;
    rows.elements = ElementsOf(g_, id, level_);
    const Node& input = g_.node(g_.node(id).inputs[0]);
    rows.rows = g_.node(id).shape.elements();
    rows.row = input.shape.elements() / rows.rows;
    rows.bytes = ByteSize(rows.elements.empty() ? input.dtype : g_.node(rows.elements.root()).dtype);
    rows.dims = DimsOf(rows);
    LookAtMemory(&rows);
    return rows;
  }

  // The dims of the reduction's input, divided where those of the tensors begin that its elements come from.
  std::vector<Dim> DimsOf(const Rows& rows) const {
    const Node& node = g_.node(rows.reduce);
    const Shape& shape = g_.node(node.inputs[0]).shape;
    std::vector<int64_t> borders = BordersOf(shape);
    const auto divide = [&](const Shape& tensor) {
      for (int64_t border : BordersOf(tensor)) {
        const auto next = std::lower_bound(borders.begin(), borders.end(), border);
        if (*next != border && *next % border == 0 && border % *(next - 1) == 0) borders.insert(next, border);
      }
    };
    for (const ElementStep& step : rows.elements.chain) {
      const std::optional<ir::ViewStep> shown = ReorderedIn(step);
      if (shown) divide(shown->shape);
      if (!ir::IsDense(g_.ViewOf(step.shown), shape.elements())) break;
      divide(g_.node(step.node).shape);
    }
    const std::vector<int>& axes = node.As<ir::ReduceAttrs>().axes;
    std::vector<Dim> dims;
    int axis = shape.rank;
    int64_t begin = 1;  // of `axis`
    for (size_t i = 1; i < borders.size(); ++i) {
      while (begin < borders[i]) begin *= shape[--axis];
      const bool reduced = std::binary_search(axes.begin(), axes.end(), axis);
      dims.insert(dims.begin(), {borders[i] / borders[i - 1], reduced ? Use::kLater : Use::kKept});
    }
    return dims;
  }

  // The order in which a view shows all elements of a node that is not their own, before it is reshaped.
  std::optional<ir::ViewStep> ReorderedIn(const ElementStep& step) const {
    const View view = g_.ViewOf(step.shown);
    const int64_t elements = g_.node(step.node).shape.elements();
    if (view.steps.size() > 2 || view.steps[0].shape.elements() != elements || ir::IsDense(view, elements))
      return std::nullopt;
    if (!view.affine() && !ir::IsDense(View{{view.steps[1]}}, elements)) return std::nullopt;
    return view.steps[0];
  }

  // Finds how the rows lie in memory, or will.
  void LookAtMemory(Rows* rows) const {
    size_t end = rows->dims.size();
    int64_t run = 1;
    while (end > 0 && rows->dims[end - 1].use != Use::kKept) run *= rows->dims[--end].extent;
    rows->run = run;
    const std::optional<Shape> image = ChannelsLast(rows->elements);
    const int64_t points = image ? image->elements() / ((*image)[0] * (*image)[1]) : 1;
    if (image && rows->row % points == 0) {
      rows->image = true;
      rows->batch = (*image)[0];
      rows->run = std::min(rows->row / points, (*image)[1]);
    }
    rows->columns = rows->run == 1;
  }

  // The image [n, c, spatial...] of which the elements come, if its channels lie last in memory: it is shown
  // so, or convolutions will have it so (compiler/fusion/channels_last.cc).
  std::optional<Shape> ChannelsLast(const RowElements& elements) const {
    for (size_t i = 0; i < elements.chain.size() && i <= elements.stored; ++i) {
      if (ir::IsDense(g_.ViewOf(elements.chain[i].shown), g_.node(elements.chain[i].node).shape.elements()))
        continue;
      const std::optional<ir::ViewStep> shown = ReorderedIn(elements.chain[i]);
      const bool last = shown && shown->shape.rank > 2 && shown->shape[1] > 1 && shown->strides[1] == 1;
      return last ? std::optional(shown->shape) : std::nullopt;
    }
    if (elements.empty() || !convolves_ || !options_.channels_last) return std::nullopt;
    const Node& root = g_.node(elements.root());
    const bool narrow = Is16BitFloat(root.dtype) || ByteSize(root.dtype) == 1;
    const bool image = root.op != Op::kInput && root.shape.rank > 2 && root.shape[1] % 8 == 0;
    return narrow && image ? std::optional(root.shape) : std::nullopt;
  }

  // The blocks that share a row, as in codegen/cuda/reduction/team_reduction.cc.
  int64_t BlocksOfRow(const Rows& rows) const {
    int64_t blocks = options_.row_blocks;
    while (blocks > 1 && rows.rows * blocks > kBlocksTogether * options_.processors) blocks /= 2;
    return blocks;
  }

  bool FitsOnChip(const Rows& rows) const {
    const int64_t blocks = BlocksOfRow(rows);
    const int64_t together = rows.rows * blocks > options_.processors ? kBlocksTogether : 1;
    return rows.row * rows.bytes <= blocks * options_.row_bytes / together;
  }

  // Whether what a reduction reads takes so much longer than memory needs.
  bool IsWorthIt(const Rows& rows) const {
    const int64_t blocks = rows.columns
                               ? (rows.rows + kColumnsOfBlock - 1) / kColumnsOfBlock * options_.row_blocks
                               : rows.rows * BlocksOfRow(rows);
    const double reading = kReadingShare * static_cast<double>(options_.processors);
    const double run = static_cast<double>(rows.run * rows.bytes);
    const double share = std::min(1.0, static_cast<double>(blocks) / reading) *
                         (rows.columns ? 1 : std::min(1.0, run / kFullRun));
    const double bytes = static_cast<double>(rows.rows * rows.row * rows.bytes);
    return bytes * (1 / share - 1) >= static_cast<double>(options_.worth);
  }

  // Elements of a slice, so that columns of slices still fill the machine.
  int64_t SliceOf(const Rows& rows) const {
    const int64_t blocks = kBlocksTogether * options_.processors;
    return std::clamp(rows.rows * rows.row / (kColumnsOfBlock * blocks), options_.least_slice,
                      options_.most_slice);
  }

  // A divisor of `extent` that makes slices of `inside` elements as long as they should be, and whole vectors
  // if it can; 1 if there is none.
  int64_t FactorOf(int64_t extent, int64_t inside, int64_t slice) const {
    constexpr int64_t kStill = 4;  // times shorter, or longer
    const int64_t vector = extent * inside % kVector == 0 ? kVector : 1;
    int64_t best = 1;
    for (int64_t factor = 2; factor * inside <= kStill * options_.most_slice && factor <= extent; ++factor) {
      if (extent % factor != 0 || factor * inside % vector != 0) continue;
      if (factor * inside > slice && best * inside * kStill >= options_.least_slice) break;
      best = factor;
      if (factor * inside > slice) break;
    }
    return best;
  }

  // Finds what of each row is a slice: from its end on, up to a part of a dim.
  bool CutSlices(Rows* rows) const {
    constexpr int64_t kStill = 16;  // times shorter
    const int64_t slice = SliceOf(*rows);
    std::vector<Dim>& dims = rows->dims;
    size_t end = dims.size();
    int64_t run = 1;
    while (end > 0 && dims[end - 1].use != Use::kKept) run *= dims[--end].extent;
    if (run == rows->row || run >= kShortRun) end = dims.size();
    int64_t inside = 1;
    for (size_t d = end; d-- > 0;) {
      if (dims[d].use == Use::kKept) continue;
      const int64_t extent = dims[d].extent;
      int64_t factor = inside * extent <= slice ? extent : FactorOf(extent, inside, slice);
      if (kStill * inside * factor < options_.least_slice && factor < extent)
        factor = slice / inside / kVector * kVector;
      inside *= factor;
      if (factor > 1) dims[d] = {factor, Use::kSlice};
      if (factor == extent) continue;
      rows->rest = extent % factor;
      if (factor > 1)
        dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(d), {extent / factor, Use::kLater});
      dims[d].slices = true;
      break;
    }
    return kStill * inside >= options_.least_slice && 2 * inside <= rows->row &&
           dims.size() <= static_cast<size_t>(kMaxRank);
  }

  // The order in which the slices' results lie: of images, a picture's slices before its channels.
  static std::vector<int> OrderOf(const Rows& rows) {
    std::vector<int> order(rows.dims.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int>(d);
    const auto slices =
        std::find_if(rows.dims.begin(), rows.dims.end(), [](const Dim& d) { return d.slices; });
    if (!rows.image || slices == rows.dims.end()) return order;
    size_t first = 0;
    for (int64_t n = 1; n < rows.batch && first < rows.dims.size(); ++first) n *= rows.dims[first].extent;
    const auto at = slices - rows.dims.begin();
    if (static_cast<std::ptrdiff_t>(first) < at)
      std::rotate(order.begin() + static_cast<std::ptrdiff_t>(first), order.begin() + at,
                  order.begin() + at + 1);
    return order;
  }

  NodeId Make(const Rows& rows) {
    const Node node = g_.node(rows.reduce);
    const ir::ReduceKind kind = node.As<ir::ReduceAttrs>().kind;
    const auto cut = std::find_if(rows.dims.begin(), rows.dims.end(), [](const Dim& d) { return d.slices; });
    Builder b = BuilderLike(&g_, rows.reduce);
    NodeId slices = Reduced(rows, rows.dims, 0);
    if (rows.rest > 0) {
      std::vector<Dim> last = rows.dims;
      const auto at = last.begin() + (cut - rows.dims.begin());
      const int64_t before = at->extent * (at + 1)->extent;
      at->extent = 1;
      (at + 1)->extent = rows.rest;
      slices = b.Concat({slices, Reduced(rows, last, before)}, static_cast<int>(cut - rows.dims.begin()));
    }
    const std::vector<int> order = OrderOf(rows);
    std::vector<int> axes;
    for (size_t d = 0; d < order.size(); ++d)
      if (rows.dims[static_cast<size_t>(order[d])].use == Use::kLater) axes.push_back(static_cast<int>(d));
    const NodeId all = b.Reshape(b.Reduce(kind, b.Transpose(slices, order), axes, true), node.shape);
    return b.dtype(all) == node.dtype ? all : b.Cast(all, node.dtype);
  }

  // What the first kernel makes of the slices that `dims` says, from element `first` of the dim that is cut.
  NodeId Reduced(const Rows& rows, const std::vector<Dim>& dims, int64_t first) {
    const DType dtype = g_.node(rows.reduce).dtype;
    const ir::ReduceKind kind = g_.node(rows.reduce).As<ir::ReduceAttrs>().kind;
    NodeId x = CopyElements(&g_, rows.reduce, rows.elements, &copies_[KeyOf(rows, first)]);
    Builder b = BuilderLike(&g_, rows.reduce);
    if (Is16BitFloat(dtype) && (kind == ir::ReduceKind::kSum || kind == ir::ReduceKind::kProd))
      x = b.Cast(x, DType::kF32);
    Shape whole, shape;
    std::vector<int> axes;
    int cut = 0;
    int64_t length = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].use == Use::kSlice) axes.push_back(shape.rank);
      shape.dims[shape.rank++] = dims[d].extent;
      if (rows.rest > 0 && d > 0 && dims[d - 1].slices) continue;
      const bool slices = rows.rest > 0 && dims[d].slices;
      if (slices) {
        cut = whole.rank;
        length = dims[d].extent * dims[d + 1].extent;
      }
      whole.dims[whole.rank++] =
          slices ? rows.dims[d].extent * rows.dims[d + 1].extent + rows.rest : dims[d].extent;
    }
    if (rows.rest > 0) x = b.Slice(b.Reshape(x, whole), cut, first, 1, length);
    return b.Reduce(kind, b.Reshape(x, shape), axes, true);
  }

  // Reductions of one kernel share the nodes that compute their elements: those over the same rows that
  // depend on as many reductions.
  std::vector<int64_t> KeyOf(const Rows& rows, int64_t first) const {
    std::vector<int64_t> key = {level_[static_cast<size_t>(rows.reduce)], first};
    for (const Dim& dim : rows.dims) key.insert(key.end(), {dim.extent, static_cast<int64_t>(dim.use)});
    return key;
  }

  Graph& g_;
  const SplitOptions& options_;
  bool convolves_ = false;
  std::vector<int> level_;  // by node: the split reductions ahead of it
  std::map<std::vector<int64_t>, CopiedElements> copies_;
};

}  // namespace

Result<PassResult> SplitReductions(ir::Graph* graph, const SplitOptions& options) {
  PassResult result;
  if (options.processors > 0) result.changes = RowSplitter(graph, options).Run();
  Tidy(graph);
  result.text = Count(result.changes, "reduction") + " by slices first";
  return result;
}

}  // namespace rondo::passes
