#include <algorithm>
#include <optional>

#include "compiler/ir/packed.h"
#include "compiler/passes/rewrite.h"
#include "compiler/quantise/quantise.h"
#include "core/scalar.h"

namespace rondo::passes {

namespace {

using Data = std::shared_ptr<const ir::ConstantData>;

// A dim of a view of a packed matrix: it moves by `n` rows or by `k` columns, and in the scales by `scale`.
struct Dim {
  int64_t extent = 1, n = 0, k = 0, scale = 0;
};

// The dims of a view of the whole matrix, each along its rows or its columns; no value for other views.
std::optional<std::vector<Dim>> DimsOf(const ir::PackedMatrix& matrix, const ir::View& weight,
                                       const ir::View& scales) {
  if (!weight.affine() || !scales.affine()) return std::nullopt;
  const ir::ViewStep &w = weight.steps[0], &s = scales.steps[0];
  if (w.shape.elements() != matrix.n * matrix.k || w.offset != 0 || !IsInjective(weight)) return std::nullopt;
  std::vector<Dim> dims;
  for (int d = 0; d < w.shape.rank; ++d) {
    Dim dim = {w.shape[d], 0, 0, s.strides[d]};
    if (dim.extent == 1) continue;
    if (w.strides[d] > 0 && w.strides[d] % matrix.k == 0) {
      dim.n = w.strides[d] / matrix.k;
    } else if (w.strides[d] > 0 && (dim.extent - 1) * w.strides[d] < matrix.k) {
      dim.k = w.strides[d];
    } else {
      return std::nullopt;
    }
    dims.push_back(dim);
  }
  return dims;
}

// The numbers along k that share both an old and a new scale; 0 if kernels do not support so few.
int64_t BlockWith(const ir::PackedMatrix& matrix, const std::vector<Dim>& dims) {
  int64_t block = std::min(matrix.block, matrix.k);
  for (const Dim& dim : dims) {
    if (dim.k == 0 || dim.scale == 0) continue;
    if (dim.k % 16 != 0 || (block % dim.k != 0 && dim.k % block != 0)) return 0;
    block = std::min(block, dim.k);
  }
  return block;
}

// `matrix`, seen as `weight`, times `scales`, seen in the same shape. Null if scales differ within a block.
std::shared_ptr<const ir::PackedMatrix> Scaled(const ir::PackedMatrix& matrix, const ir::View& weight,
                                               const Data& scales, const ir::View& scale_view) {
  if (matrix.codes->synthetic || matrix.scales->synthetic || scales->bytes.empty()) return nullptr;
  const std::optional<std::vector<Dim>> dims = DimsOf(matrix, weight, scale_view);
  const int64_t block = dims ? BlockWith(matrix, *dims) : 0;
  if (block == 0) return nullptr;
  std::vector<float> both;
  for (int64_t row = 0; row < matrix.n; ++row) {
    for (int64_t at = 0; at < matrix.k; at += block) {
      int64_t place = scale_view.steps[0].offset;
      for (const Dim& dim : *dims) place += (dim.n != 0 ? row / dim.n : at / dim.k) % dim.extent * dim.scale;
      both.push_back(ir::ScaleOf(matrix, row, at) *
                     scalar::Load<float>(scales->dtype, scales->bytes.data(), place));
    }
  }
  return ir::Rescaled(matrix, block, both);
}

const Data* DataAt(const Graph& g, NodeId id) {
  const Node& n = g.node(g.BaseOf(id));
  return n.op == Op::kConstant ? &n.As<ir::ConstantAttrs>().data : nullptr;
}

// Whether it has no other reader, which would need the unscaled matrix as well.
bool IsReadOnce(Graph* g, NodeId id) {
  const NodeId base = g->BaseOf(id);
  return !g->IsOutput(id) && g->UsersOf(id).size() == 1 && (base == id || g->UsersOf(base).size() == 1);
}

// packed weight * scales -> packed weight with these in its scales
NodeId Folded(Match& m) {
  Graph* const graph = &m.graph();
  for (const size_t w : {0, 1}) {
    const NodeId weight = m.node().inputs[w], scale = m.node().inputs[1 - w];
    const Data *packed = DataAt(*graph, weight), *scales = DataAt(*graph, scale);
    if (packed == nullptr || scales == nullptr || (*packed)->packed == nullptr ||
        (*scales)->packed != nullptr || !IsReadOnce(graph, weight))
      continue;
    const ir::PackedMatrix& matrix = *(*packed)->packed;
    ir::View shown = graph->ViewOf(weight);
    std::shared_ptr<const ir::PackedMatrix> made = Scaled(matrix, shown, *scales, graph->ViewOf(scale));
    if (made == nullptr) {  // try the other dim
      const std::shared_ptr<const ir::PackedMatrix> turned = ir::Transposed(matrix);
      if (turned == nullptr) continue;
      constexpr int kSwapped[] = {1, 0};
      shown = ir::Compose(ir::Transpose(ir::DenseView({turned->n, turned->k}), kSwapped), shown);
      made = Scaled(*turned, shown, *scales, graph->ViewOf(scale));
    }
    if (made == nullptr) continue;
    Builder b = m.Make();
    return b.ViewNode(b.Constant(ir::PackedConstant(made, (*packed)->dtype, (*packed)->name)), shown);
  }
  return kNoNode;
}

}  // namespace

Result<PassResult> FoldWeightScales(ir::Graph* graph, const PassOptions&) {
  using namespace pattern;
  PassResult result;
  result.changes = Total(ApplyOnce(graph, {{x * y, Folded}}));
  result.text = Count(result.changes, "factor") + " of packed weights in their scales";
  return result;
}

}  // namespace rondo::passes
