// PackBytes: weights of 8 bits that matmuls of floats read stay 8 bits (DequantizeLinear of a constant: what
// quantisers of weights alone write). By themselves they would be folded to floats, or widened in every run.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "compiler/ir/packed.h"
#include "compiler/ir/shares.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/weight_layout.h"
#include "core/scalar.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

constexpr int64_t kLeastElements = 4096;  // of a weight that is worth it

// (codes - zero) * scale; zero may be none. All are constants, shown in the shape of the weight.
struct Widened {
  NodeId codes = ir::kNoNode, zero = ir::kNoNode, scale = ir::kNoNode;
};

bool IsKnown(const Graph& g, NodeId id) {
  const Node& n = g.node(g.BaseOf(id));
  if (n.op != Op::kConstant) return false;
  const ConstantData& data = *n.As<ir::ConstantAttrs>().data;
  return !data.synthetic && data.packed == nullptr;
}
const ConstantData& DataOf(const Graph& g, NodeId id) {
  return *g.node(g.BaseOf(id)).As<ir::ConstantAttrs>().data;
}

bool HoldsBytes(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

NodeId SkipFloatCasts(const Graph& g, NodeId id) {
  while (IsCastOfFloats(g, id)) id = g.node(id).inputs[0];
  return id;
}

std::optional<Widened> Match(const Graph& g, NodeId id) {
  const Node* product = AsPointwise(g, SkipFloatCasts(g, id), TapeOp::kMul);
  if (product == nullptr || !HoldsBytes(product->dtype)) return std::nullopt;
  for (const size_t side : {0, 1}) {
    Widened w;
    w.scale = product->inputs[1 - side];
    NodeId x = SkipFloatCasts(g, product->inputs[side]);
    if (const Node* difference = AsPointwise(g, x, TapeOp::kSub)) {
      if (!HoldsBytes(difference->dtype)) continue;
      w.zero = difference->inputs[1];
      x = difference->inputs[0];
    }
    const Node* cast = AsPointwise(g, x, TapeOp::kCast);
    if (cast == nullptr || !HoldsBytes(cast->dtype)) continue;
    w.codes = cast->inputs[0];
    const DType type = g.node(w.codes).dtype;
    if ((type != DType::kI8 && type != DType::kU8) || !IsKnown(g, w.codes) || !IsKnown(g, w.scale) ||
        (w.zero != ir::kNoNode && !IsKnown(g, w.zero)) || !g.ViewOf(w.codes).affine())
      continue;
    return w;
  }
  return std::nullopt;
}

// How many numbers along dim `along` of a matrix show one and the same element: all, or blocks; 0 if it
// cannot be said.
int64_t BlockAlong(const ir::View& view, int along) {
  ir::LoopNest nest(view.shape());
  if (!ir::RefineLoops(view, &nest)) return 0;
  const std::optional<ir::AffineMap> map = ir::MapOver(view, nest);
  if (!map) return 0;
  size_t loop = 0;
  for (int d = 0; d < along; ++d) loop += nest.factors[static_cast<size_t>(d)].size();
  const std::vector<int64_t>& factors = nest.factors[static_cast<size_t>(along)];
  int64_t block = 1;
  for (size_t i = factors.size(); i-- > 0 && (map->strides[loop + i] == 0 || factors[i] == 1);)
    block *= factors[i];
  return block;
}

class Packer {
 public:
  explicit Packer(Graph* graph) : g_(graph) {}

  // Whether `id` is such a weight; then it is a packed constant from here on.
  bool Pack(NodeId id) {
    const Shape& shape = g_->node(id).shape;
    if (shape.rank != 2 || shape.elements() < kLeastElements || !HoldsBytes(g_->node(id).dtype)) return false;
    const std::optional<Widened> widened = Match(*g_, id);
    if (!widened) return false;
    const std::optional<WeightLayout> layout = WeightLayoutOf(g_, id);
    if (!layout) return false;
    const int along = layout->k_stride == 1 ? 1 : 0;
    int64_t block = BlockAlong(g_->ViewOf(widened->scale), along);
    if (widened->zero != ir::kNoNode) block = std::gcd(block, BlockAlong(g_->ViewOf(widened->zero), along));
    if (block == 0 || (block % 16 != 0 && block < layout->k)) return false;
    const DType dtype = g_->node(id).dtype;
    const std::shared_ptr<const ir::PackedMatrix> matrix = MatrixOf(*widened, *layout, block, dtype);
    if (matrix == nullptr) return false;
    ir::Builder b = BuilderLike(g_, id);
    bytes_ += matrix->byte_size();
    NodeId packed = b.Constant(ir::PackedConstant(matrix, dtype, DataOf(*g_, widened->codes).name));
    if (along == 0) packed = b.Transpose(packed, {1, 0});
    g_->Replace(id, packed);
    return true;
  }
  int64_t bytes() const { return bytes_; }

 private:
  // Element (n, k) of what `id` shows, of which `layout` says which dim is which.
  float At(NodeId id, const WeightLayout& layout, int64_t n, int64_t k) const {
    const ConstantData& data = DataOf(*g_, id);
    const int64_t index[] = {layout.k_stride == 1 ? n : k, layout.k_stride == 1 ? k : n};
    return scalar::Load<float>(data.dtype, data.bytes.data(), ir::Resolve(g_->ViewOf(id), index));
  }

  // Codes of signed bytes count from the least one. Null where a zero point is no code.
  std::shared_ptr<const ir::PackedMatrix> MatrixOf(const Widened& w, const WeightLayout& layout,
                                                   int64_t block, DType dtype) const {
    const uint8_t flip = g_->node(w.codes).dtype == DType::kI8 ? 0x80 : 0;
    const int64_t blocks = (layout.k + block - 1) / block;
    std::vector<float> scales, zeros;
    bool one_zero = true, narrow = true;
    for (int64_t n = 0; n < layout.n; ++n) {
      for (int64_t i = 0; i < blocks; ++i) {
        scales.push_back(At(w.scale, layout, n, i * block));
        zeros.push_back((w.zero == ir::kNoNode ? 0 : At(w.zero, layout, n, i * block)) + flip);
        if (!(zeros.back() >= 0 && zeros.back() <= 255 && zeros.back() == std::floor(zeros.back())))
          return nullptr;
        one_zero &= zeros.back() == zeros[0];
        uint8_t rounded[4] = {};
        scalar::Store<float>(dtype, rounded, 0, scales.back());
        narrow &= scalar::Load<float>(dtype, rounded, 0) == scales.back();
      }
    }
    const int32_t zero = one_zero ? static_cast<int32_t>(zeros[0]) : 0;
    if (one_zero) zeros.clear();
    return ir::Pack(PackedType::kU8, layout.n, layout.k, block, CodesOf(w, layout, flip), scales, zeros, zero,
                    narrow ? dtype : DType::kF32);
  }

  std::vector<uint8_t> CodesOf(const Widened& w, const WeightLayout& layout, uint8_t flip) const {
    const uint8_t* const bytes = DataOf(*g_, w.codes).bytes.data();
    const ir::View view = g_->ViewOf(w.codes);
    const ir::ViewStep& step = view.steps[0];
    const int64_t n_step = step.strides[layout.k_stride == 1 ? 0 : 1],
                  k_step = step.strides[layout.k_stride == 1 ? 1 : 0];
    std::vector<uint8_t> codes(static_cast<size_t>(layout.n * layout.k));
    constexpr int64_t kSide = 64;  // squares whose lines stay in cache, along whichever the weight lies
    ir::InShares((layout.n + kSide - 1) / kSide, 1, [&](int64_t first, int64_t last) {
      for (int64_t rows = first * kSide; rows < std::min(layout.n, last * kSide); rows += kSide) {
        for (int64_t columns = 0; columns < layout.k; columns += kSide) {
          for (int64_t n = rows; n < std::min(layout.n, rows + kSide); ++n) {
            for (int64_t k = columns; k < std::min(layout.k, columns + kSide); ++k) {
              codes[static_cast<size_t>(n * layout.k + k)] =
                  bytes[step.offset + n * n_step + k * k_step] ^ flip;
            }
          }
        }
      }
    });
    return codes;
  }

  Graph* g_;
  int64_t bytes_ = 0;
};

}  // namespace

Result<PassResult> PackBytes(Graph* graph, const PassOptions& options) {
  PassResult result;
  if (!options.target.widens_as_it_reads) {
    result.text = "for the host alone";
    return result;
  }
  Packer packer(graph);
  for (NodeId id = 0, end = graph->size(); id < end; ++id) {
    const Node& n = graph->node(id);
    if (n.dead || n.op != Op::kMatMul) continue;
    if (packer.Pack(graph->BaseOf(n.inputs[1]))) ++result.changes;
  }
  if (result.changes == 0) return result;
  Tidy(graph);
  result.text =
      Count(result.changes, "weight") + " in 8 bits, of " + std::to_string(packer.bytes()) + " bytes";
  return result;
}

}  // namespace rondo::passes
