#include <algorithm>

#include "compiler/ir/node_annotation.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

// A view of a [rows, columns] matrix: its first step, with every stride split into rows and columns.
struct Reader {
  NodeId view = kNoNode;
  int64_t base[2] = {};                     // row and column of its first element
  std::vector<std::vector<int64_t>> moves;  // per dim of the step: rows and columns
  int64_t low = 0, high = 0;                // columns it shows: [low, high)
};

struct Columns {
  int64_t low = 0, high = 0;
  std::vector<Reader> readers;
};

std::optional<Reader> Read(const Graph& g, NodeId view, int64_t rows, int64_t columns) {
  const ir::ViewStep& step = g.node(view).As<ir::ViewAttrs>().view.steps[0];
  const ir::IndexDim dims[] = {{rows, columns}, {columns, 1}};
  std::vector<int64_t> base;
  Reader out;
  out.view = view;
  if (step.shape.elements() == 0) return std::nullopt;
  if (!ir::Decompose(
          dims, step.offset, std::span<const int64_t>(step.shape.dims, static_cast<size_t>(step.shape.rank)),
          std::span<const int64_t>(step.strides, static_cast<size_t>(step.shape.rank)), &base, &out.moves)) {
    return std::nullopt;
  }
  out.base[0] = base[0];
  out.base[1] = base[1];
  int64_t low = base[1], high = base[1];
  for (int d = 0; d < step.shape.rank; ++d) {
    int64_t reach = out.moves[static_cast<size_t>(d)][1] * (step.shape[d] - 1);
    (reach > 0 ? high : low) += reach;
  }
  out.low = low;
  out.high = high + 1;
  return out;
}

// Readers with overlapping columns stay together.
std::vector<Columns> Cluster(std::vector<Reader> readers) {
  std::sort(readers.begin(), readers.end(), [](const Reader& a, const Reader& b) {
    return a.low != b.low ? a.low < b.low : a.view < b.view;
  });
  std::vector<Columns> out;
  for (Reader& r : readers) {
    if (out.empty() || r.low >= out.back().high) out.push_back({r.low, r.high, {}});
    out.back().high = std::max(out.back().high, r.high);
    out.back().readers.push_back(std::move(r));
  }
  return out;
}

// The same elements in a matrix that holds columns [low, high) only.
ir::View Moved(const ir::View& view, const Reader& r, int64_t low, int64_t high) {
  ir::View out = view;
  ir::ViewStep& step = out.steps[0];
  const int64_t width = high - low;
  step.offset = r.base[0] * width + r.base[1] - low;
  for (int d = 0; d < step.shape.rank; ++d) {
    const std::vector<int64_t>& move = r.moves[static_cast<size_t>(d)];
    step.strides[d] = move[0] * width + move[1];
  }
  return out;
}

// With so many rows, a wide matmul fills a GPU better than its parts, each on a share of the multiprocessors.
// Fewer rows stream their weights, and parts do so as well.
constexpr int64_t kManyRows = 256;

class Splitter {
 public:
  Splitter(Graph* g, const TargetTraits& target) : g_(g), target_(target), users_(g->AllUsers()) {
    outputs_.assign(static_cast<size_t>(g->size()), false);
    for (const ir::GraphOutput& o : g->outputs) outputs_[static_cast<size_t>(o.node)] = true;
  }

  // Splits `product` if its readers allow it; returns the number of parts.
  int Split(NodeId product) {
    if (g_->node(g_->BaseOf(g_->node(product).inputs[1])).op != Op::kConstant) return 0;
    chain_ = Chain(product);
    const NodeId top = chain_.back();
    const Shape shape = g_->node(top).shape;
    const int64_t columns = shape[shape.rank - 1];
    std::vector<Reader> readers;
    if (outputs_[static_cast<size_t>(top)] || columns == 0) return 0;
    if (std::any_of(chain_.begin(), chain_.end(),
                    [&](NodeId id) { return g_->node(id).annotations.count(kOwnerKey) != 0; }))
      return 0;  // one kernel for one operator
    for (NodeId user : users_[static_cast<size_t>(top)]) {
      if (g_->node(user).op != Op::kView) return 0;
      std::optional<Reader> r = Read(*g_, user, shape.elements() / columns, columns);
      if (!r) return 0;
      readers.push_back(*r);
    }
    std::vector<Columns> parts = Cluster(std::move(readers));
    if (parts.size() < 2) return 0;
    // Attention reads columns where they are.
    const auto attends = [](const Node& reader, NodeId) { return reader.op == Op::kAttention; };
    if (shape.elements() / columns >= kManyRows && target_.tensor_cores && AllReaders(g_, top, attends))
      return 0;
    for (const Columns& part : parts) Build(part);
    return static_cast<int>(parts.size());
  }

 private:
  // The matmul and the pointwise nodes of its shape that are its only readers (a bias, a cast).
  std::vector<NodeId> Chain(NodeId product) const {
    std::vector<NodeId> chain = {product};
    constexpr size_t kMostNodes = 8;
    while (chain.size() < kMostNodes) {
      const std::span<const NodeId> users = users_[static_cast<size_t>(chain.back())];
      if (users.size() != 1 || outputs_[static_cast<size_t>(chain.back())]) break;
      if (g_->node(users[0]).op != Op::kPointwise) break;
      chain.push_back(users[0]);
    }
    return chain;
  }

  NodeId Cut(ir::Builder* b, NodeId x, const Columns& part) const {
    int last = g_->node(x).shape.rank - 1;
    return b->Slice(x, last, part.low, 1, part.high - part.low);
  }

  void Build(const Columns& part) {
    NodeId made = kNoNode;
    for (size_t i = 0; i < chain_.size(); ++i) {
      const NodeId id = chain_[i];
      const std::vector<NodeId> in = g_->node(id).inputs;
      const std::vector<NodeId> weak = g_->node(id).weak_after, strong = g_->node(id).strong_after;
      ir::Builder b = BuilderLike(g_, id);
      if (i == 0) {
        made = b.MatMul(in[0], Cut(&b, in[1], part));
      } else {
        std::vector<NodeId> xs;
        for (NodeId x : in) xs.push_back(x == chain_[i - 1] ? made : Cut(&b, x, part));
        const DType dtype = g_->node(id).dtype;
        made = b.Pointwise(g_->node(id).As<ir::PointwiseAttrs>(), dtype, xs);
      }
      // Each part inherits the whole's control edges; nodes ordered after the whole wait for every part.
      for (NodeId before : weak) g_->RunAfter(made, before);
      for (NodeId before : strong) g_->RunAfter(made, before, true);
      for (NodeId other : g_->Naming(id)) {
        auto names = [&](const std::vector<NodeId>& list) {
          return std::find(list.begin(), list.end(), id) != list.end();
        };
        if (names(g_->node(other).weak_after)) g_->RunAfter(other, made);
        if (names(g_->node(other).strong_after)) g_->RunAfter(other, made, true);
      }
    }
    for (const Reader& r : part.readers) {
      ir::Builder b = BuilderLike(g_, r.view);
      NodeId shown =
          b.ViewNode(made, Moved(g_->node(r.view).As<ir::ViewAttrs>().view, r, part.low, part.high));
      g_->Replace(r.view, shown);
    }
  }

  Graph* g_;
  const TargetTraits& target_;
  ir::Users users_;
  std::vector<bool> outputs_;
  std::vector<NodeId> chain_;
};

}  // namespace

Result<PassResult> SplitMatmuls(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  int64_t parts = 0;
  // A split changes neither the readers of another matmul, nor those of the pointwise nodes after it.
  Splitter splitter(graph, options.target);
  for (NodeId id : graph->TopologicalOrder()) {
    if (graph->node(id).op != Op::kMatMul) continue;
    int n = splitter.Split(id);
    result.changes += n > 0;
    parts += n;
  }
  Tidy(graph);
  result.text = Count(result.changes, "product") + " split into " + std::to_string(parts);
  return result;
}

}  // namespace rondo::passes
