// PadMatmuls: a 16-bit matmul with an odd K (143), or whose constant B has lines along N that are no vectors,
// would be read element by element on a GPU, by cuBLASLt as well. Such a B is stored column after column
// instead, with K padded to a multiple of eight. Of an odd K, A is read from a copy with the same padding,
// where the copy takes less time than the elements.
#include <algorithm>
#include <cstring>
#include <map>

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

// Whether a constant B has lines of whole vectors.
bool HasVectors(const ir::View& view) {
  const ir::ViewStep& step = view.steps[0];
  const int rank = step.shape.rank;
  const int64_t k = step.shape[rank - 2], n = step.shape[rank - 1], along_k = step.strides[rank - 2],
                along_n = step.strides[rank - 1];
  return (along_n == 1 && n % kWhole == 0 && along_k % kWhole == 0) ||
         (along_k == 1 && k % kWhole == 0 && along_n % kWhole == 0);
}

// The matrix [n, padded k] of a constant B [.., k, n].
std::shared_ptr<const ConstantData> ByColumns(const std::shared_ptr<const ConstantData>& data,
                                              const ir::View& view, const MatmulExtents& of) {
  const std::shared_ptr<const ConstantData> from = ir::WithBytes(data);
  const ir::ViewStep& step = view.steps[0];
  const int64_t along_k = step.strides[step.shape.rank - 2], along_n = step.strides[step.shape.rank - 1];
  const int64_t pitch = ToWholeVectors(of.k);
  constexpr int64_t kSize = 2;
  std::vector<uint8_t> bytes(static_cast<size_t>(of.n * pitch * kSize));
  for (int64_t n = 0; n < of.n; ++n) {
    for (int64_t k = 0; k < of.k; ++k) {
      const int64_t element = step.offset + k * along_k + n * along_n;
      std::memcpy(&bytes[static_cast<size_t>((n * pitch + k) * kSize)],
                  &from->bytes[static_cast<size_t>(element * kSize)], kSize);
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
  explicit Padder(ir::Graph* graph) : graph_(*graph) {}

  // Whether the matmul was replaced.
  bool Pad(NodeId id) {
    if (!IsHalfMatmul(graph_, graph_.node(id))) return false;
    const MatmulExtents of = MatmulExtentsOf(graph_, graph_.node(id));
    const NodeId a = graph_.node(id).inputs[0], b = graph_.node(id).inputs[1];
    const bool odd = of.k % 2 != 0;
    if (odd ? !CopyPays(of) : of.k % kWhole != 0) return false;
    ir::View view;
    const bool constant = SameInBatches(graph_, b, &view) != nullptr;
    const bool copied = !constant && odd && of.n % kWhole == 0 && CopyPays({of.batches, of.n, of.k, of.m});
    if (constant ? !odd && HasVectors(view) : !copied) return false;
    ir::Builder builder = BuilderLike(&graph_, id);
    const DType dtype = builder.dtype(id);
    const NodeId matrix =
        constant ? Columns(builder, b, view, of) : WithZeros(builder, b, builder.shape(b).rank - 2);
    const NodeId made = builder.MatMul(odd ? Copy(builder, a) : a, matrix);
    graph_.node(made).dtype = dtype;
    graph_.Replace(id, made);
    return true;
  }

 private:
  NodeId Columns(ir::Builder& builder, NodeId b, const ir::View& view, const MatmulExtents& of) {
    const NodeId base = graph_.BaseOf(b);
    const NodeId columns =
        builder.Constant(ByColumns(graph_.node(base).As<ir::ConstantAttrs>().data, view, of));
    graph_.node(columns).name = graph_.node(base).name;
    return builder.Transpose(columns, {1, 0});
  }

  // Matmuls of one A read one copy.
  NodeId Copy(ir::Builder& builder, NodeId a) {
    const auto [at, fresh] = copies_.try_emplace(a, ir::kNoNode);
    if (fresh) at->second = WithZeros(builder, a, builder.shape(a).rank - 1);
    return at->second;
  }

  ir::Graph& graph_;
  std::map<NodeId, NodeId> copies_;
};

}  // namespace

Result<PassResult> PadMatmuls(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  Padder padder(graph);
  for (NodeId id : graph->TopologicalOrder()) {
    if (options.target.tensor_cores) result.changes += padder.Pad(id);
  }
  Tidy(graph);
  result.text = Count(result.changes, "matmul") + " of lines that are no vectors read padded ones";
  return result;
}

}  // namespace rondo::passes
