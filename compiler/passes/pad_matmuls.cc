// PadMatmuls: constant Bs of 16-bit matmuls are stored column after column, as cuBLASLt and wgmma tiles of
// any width read them best: a tile of lines along N is copied in whole panels of 64 columns. K is padded to a
// multiple of eight, since lines that are no vectors are read element by element. Of an odd K (143), A is
// read from a copy with the same padding, where the copy takes less time than the elements. Matmuls of a K
// below 16 are bound by their results (codegen/cuda/matmul/short_matmul.cc), and read what there is.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

constexpr int64_t kWhole = 8;  // elements of a vector
int64_t ToWholeVectors(int64_t n) { return (n + kWhole - 1) / kWhole * kWhole; }

struct MatmulExtents {
  int64_t batches, m, k, n;
};
MatmulExtents MatmulExtentsOf(const ir::Graph& graph, const Node& node) {
  const Shape &a = graph.node(node.inputs[0]).shape, &y = node.shape;
  const int64_t m = y[y.rank - 2], n = y[y.rank - 1];
  return {y.elements() / (m * n), m, a[a.rank - 1], n};
}

// A 16-bit matmul of unpacked matrices.
bool IsHalfMatmul(const ir::Graph& graph, const Node& node) {
  if (node.op != Op::kMatMul || node.inputs.size() != 2 || node.shape.elements() == 0) return false;
  const Node &a = graph.node(node.inputs[0]), &b = graph.node(node.inputs[1]);
  return Is16BitFloat(a.dtype) && a.dtype == b.dtype;
}

// Compares, in accesses, what tiles of 128 columns read of A with the copy and a kernel's start. An element
// read by itself takes 4 ns a thousand on an H200, an element copied a quarter of it.
bool CopyPays(const MatmulExtents& of) {
  constexpr double kTile = 128, kCopied = 0.25, kMargin = 1.5, kKernel = 0.5e6;
  constexpr int64_t kFewRows = 16;  // kernels of so few rows keep A, and read it once
  const double a = static_cast<double>(of.batches * of.m * of.k);
  const double tiles = std::max(1.0, static_cast<double>(of.n) / kTile);
  const double fetched = a * tiles;
  return of.m > kFewRows && fetched > kMargin * kCopied * a + kKernel;
}

// The view of a constant B that is the same matrix in all batches; null: it is none.
const ConstantData* SameInBatches(const ir::Graph& graph, NodeId b, ir::View* view) {
  const NodeId base = graph.BaseOf(b);
  if (!graph.IsConstant(base)) return nullptr;
  *view = graph.ViewOf(b);
  if (!view->affine()) return nullptr;
  const Shape& shape = view->shape();
  for (int d = 0; d < shape.rank - 2; ++d) {
    if (shape[d] > 1 && view->steps[0].strides[d] != 0) return nullptr;
  }
  return graph.node(base).As<ir::ConstantAttrs>().data.get();
}

// Whether the columns of a constant B lie in memory one after the other, in whole vectors.
bool HasColumns(const ir::View& view) {
  const ir::ViewStep& step = view.steps[0];
  const int rank = step.shape.rank;
  return step.strides[rank - 2] == 1 && step.shape[rank - 2] % kWhole == 0 &&
         step.strides[rank - 1] % kWhole == 0;
}

// Whether a constant B has rows of whole vectors.
bool HasRows(const ir::View& view) {
  const ir::ViewStep& step = view.steps[0];
  const int rank = step.shape.rank;
  return step.strides[rank - 1] == 1 && step.shape[rank - 1] % kWhole == 0 &&
         step.strides[rank - 2] % kWhole == 0;
}

// The matrix [n, padded k] of a constant B [.., k, n], square by square, since both it and B are long.
std::shared_ptr<const ConstantData> ByColumns(const std::shared_ptr<const ConstantData>& data,
                                              const ir::View& view, const MatmulExtents& of) {
  const std::shared_ptr<const ConstantData> from = ir::WithBytes(data);
  const ir::ViewStep& step = view.steps[0];
  const int64_t along_k = step.strides[step.shape.rank - 2], along_n = step.strides[step.shape.rank - 1];
  const int64_t pitch = ToWholeVectors(of.k);
  constexpr int64_t kSize = 2, kSide = 64;
  std::vector<uint8_t> bytes(static_cast<size_t>(of.n * pitch * kSize));
  for (int64_t square_n = 0; square_n < of.n; square_n += kSide) {
    for (int64_t square_k = 0; square_k < of.k; square_k += kSide) {
      for (int64_t n = square_n; n < std::min(square_n + kSide, of.n); ++n) {
        for (int64_t k = square_k; k < std::min(square_k + kSide, of.k); ++k) {
          const int64_t element = step.offset + k * along_k + n * along_n;
          std::memcpy(bytes.data() + (n * pitch + k) * kSize, from->bytes.data() + element * kSize, kSize);
        }
      }
    }
  }
  return ConstantData::Own(from->dtype, Shape{of.n, pitch}, std::move(bytes));
}

// `x` with zeros behind its elements along an axis.
NodeId WithZeros(ir::Builder& b, NodeId x, int axis) {
  Shape more = b.shape(x);
  more[axis] = ToWholeVectors(more[axis]) - more[axis];
  return b.Concat({x, b.Expand(b.Scalar(b.dtype(x), 0), more)}, axis);
}

class Padder {
 public:
  // `most_bytes`: of constants with whole rows that are to be reordered.
  Padder(ir::Graph* graph, int64_t most_bytes) : graph_(*graph) {
    std::set<NodeId> counted;
    int64_t bytes = 0;
    for (NodeId id : graph->TopologicalOrder()) {
      const Node& node = graph->node(id);
      ir::View view;
      if (!IsHalfMatmul(*graph, node) || SameInBatches(*graph, node.inputs[1], &view) == nullptr) continue;
      const NodeId base = graph->BaseOf(node.inputs[1]);
      if (Reorders(node.inputs[1], view) && counted.insert(base).second)
        bytes += graph->node(base).As<ir::ConstantAttrs>().data->byte_size();
    }
    reorders_ = bytes <= most_bytes;
  }

  // Whether the matmul was replaced.
  bool Pad(NodeId id) {
    if (!IsHalfMatmul(graph_, graph_.node(id))) return false;
    const MatmulExtents of = MatmulExtentsOf(graph_, graph_.node(id));
    const NodeId a = graph_.node(id).inputs[0], b = graph_.node(id).inputs[1];
    constexpr int64_t kShort = 16;
    if (of.k < kShort) return false;
    const bool odd = of.k % 2 != 0;
    if (odd ? !CopyPays(of) : of.k % kWhole != 0) return false;
    ir::View view;
    const ConstantData* constant = SameInBatches(graph_, b, &view);
    const bool copied =
        constant == nullptr && odd && of.n % kWhole == 0 && CopyPays({of.batches, of.n, of.k, of.m});
    if (constant != nullptr ? !odd && !Reorders(b, view) : !copied) return false;
    ir::Builder builder = BuilderLike(&graph_, id);
    const DType dtype = builder.dtype(id);
    const NodeId matrix =
        constant != nullptr ? Columns(b, view, of) : WithZeros(builder, b, builder.shape(b).rank - 2);
    const NodeId made = builder.MatMul(odd ? Copy(builder, a) : a, matrix);
    graph_.node(made).dtype = dtype;
    graph_.Replace(id, made);
    return true;
  }

 private:
  // Whether a constant B of an even K is to be stored by columns. Where its rows are vectors, synthetic
  // numbers stay synthetic, nothing is stored twice for readers that are no matmuls, and all together are
  // limited, since the compiler keeps the copies in memory.
  bool Reorders(NodeId b, const ir::View& view) {
    if (HasColumns(view)) return false;
    if (!HasRows(view)) return true;
    const NodeId base = graph_.BaseOf(b);
    return reorders_ && !graph_.node(base).As<ir::ConstantAttrs>().data->synthetic && OnlyMatmulsRead(base);
  }

  // Whether all readers of a constant are matmuls whose B it is.
  bool OnlyMatmulsRead(NodeId base) {
    return AllReaders(&graph_, base, [&](const Node& reader, NodeId read) {
      return IsHalfMatmul(graph_, reader) && reader.inputs[0] != read;
    });
  }

  // Matmuls of one B read one matrix.
  NodeId Columns(NodeId b, const ir::View& view, const MatmulExtents& of) {
    const auto [at, fresh] = columns_.try_emplace(b, ir::kNoNode);
    if (!fresh) return at->second;
    const NodeId base = graph_.BaseOf(b);
    ir::Builder builder = BuilderLike(&graph_, b);
    const NodeId columns =
        builder.Constant(ByColumns(graph_.node(base).As<ir::ConstantAttrs>().data, view, of));
    graph_.node(columns).name = graph_.node(base).name;
    return at->second = builder.Transpose(columns, {1, 0});
  }

  // Matmuls of one A read one copy.
  NodeId Copy(ir::Builder& builder, NodeId a) {
    const auto [at, fresh] = copies_.try_emplace(a, ir::kNoNode);
    if (fresh) at->second = WithZeros(builder, a, builder.shape(a).rank - 1);
    return at->second;
  }

  ir::Graph& graph_;
  bool reorders_ = true;
  std::map<NodeId, NodeId> copies_, columns_;  // by A, and by B
};

}  // namespace

Result<PassResult> PadMatmuls(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.target.tensor_cores) {
    Padder padder(graph, options.reordered_bytes);
    for (NodeId id : graph->TopologicalOrder()) result.changes += padder.Pad(id);
  }
  Tidy(graph);
  result.text = Count(result.changes, "matmul") + " with weights by columns, or padded to whole vectors";
  return result;
}

}  // namespace rondo::passes
