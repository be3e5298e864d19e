// Fp8Matmuls: matmuls of scaled FP8 numbers multiply the FP8 numbers with sums in f32, and the scales
// multiply the sums. Values computed at run time are then stored as bytes, and byte-multiplying units use
// them directly.
#include <algorithm>

#include "compiler/ir/packed.h"
#include "compiler/ir/shares.h"
#include "compiler/passes/rewrite.h"
#include "compiler/quantise/lowering.h"
#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;
using ir::PackedMatrix;

// Channels of a group, if there are several: computed by sliding windows over each channel.
constexpr int64_t kFewOfGroup = 16;

// A packed FP8 matrix with one scale for each row, as bytes [n, k] and scales [n, 1]; no value otherwise.
struct Fp8Rows {
  std::shared_ptr<const ConstantData> numbers, scales;
};

std::optional<Fp8Rows> Fp8RowsOf(const PackedMatrix& matrix, const std::string& name) {
  const bool fp8 = matrix.type == PackedType::kE4M3 || matrix.type == PackedType::kE5M2;
  if (!fp8 || matrix.block < matrix.k || matrix.zero != 0 || matrix.zeros != nullptr ||
      matrix.codes->synthetic || matrix.scales->synthetic)
    return std::nullopt;
  const PackedShape shape = matrix.shape();
  std::vector<uint8_t> codes(static_cast<size_t>(matrix.n * matrix.k));
  std::vector<uint8_t> scales(static_cast<size_t>(matrix.n) * sizeof(float));
  // The places of the codes of 16 rows and 32 of k in a piece of 512 bytes (core/packed_weights.h).
  constexpr int64_t kRows = 16, kDepth = 32, kBytes = kRows * kDepth;
  int64_t places[kRows][kDepth];
  for (int64_t n = 0; n < kRows; ++n) {
    for (int64_t k = 0; k < kDepth; ++k) places[n][k] = shape.BitAt(n, k) / 8;
  }
  ir::InShares(matrix.n, 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      const uint8_t* const line = matrix.codes->bytes.data() + n / kRows * shape.pieces() * kBytes;
      const int64_t* const own = places[n % kRows];
      uint8_t* const to = codes.data() + n * matrix.k;
      for (int64_t k = 0; k < matrix.k; ++k) to[k] = line[k / kDepth * kBytes + own[k % kDepth]];
    }
  });
  for (int64_t n = 0; n < matrix.n; ++n) {
    const float scale = ir::ScaleOf(matrix, n, 0);
    std::copy_n(reinterpret_cast<const uint8_t*>(&scale), sizeof(scale),
                &scales[static_cast<size_t>(n) * sizeof(scale)]);
  }
  const DType type = matrix.type == PackedType::kE4M3 ? DType::kE4M3 : DType::kE5M2;
  auto numbers =
      std::make_shared<ConstantData>(*ConstantData::Own(type, {matrix.n, matrix.k}, std::move(codes)));
  numbers->name = name;
  return Fp8Rows{std::move(numbers), ConstantData::Own(DType::kF32, {matrix.n, 1}, std::move(scales))};
}

class Fp8Rewriter : public Lowering {
 public:
  using Lowering::Lowering;

  // The same computation on FP8 numbers; kNoNode if an input is not quantised.
  NodeId Rewritten() {
    const Node& node = g_.node(id_);
    Quantised a, w;
    if (!IsFloat(node.dtype) || node.dtype == DType::kF64 || node.inputs.size() != 2 ||
        node.shape.elements() == 0 || (node.op == Op::kConv && !SuitsConv(node)) || !ReadFactors(&a, &w) ||
        !Fp8Codes(&a) || !Fp8Codes(&w) || !FollowSums(a, w))
      return kNoNode;
    return node.op == Op::kMatMul ? MatMul(a, w) : Conv(node, a, w);
  }

 private:
  // Converts its codes to FP8 bytes; false for other codes.
  bool Fp8Codes(Quantised* q) {
    if (q->zero != kNoNode) return false;
    if (IsPackedConstant(g_.node(g_.BaseOf(q->codes)))) return q->scale == kNoNode && ReadPacked(q);
    if (!IsFp8(g_.node(q->codes).dtype)) return false;
    q->codes = AheadOfView(q->codes);
    return true;
  }

  // Numbers quantised from a permutation of a computed value become a permutation of the quantised value, so
  // that the kernel that computes the value can quantise it.
  NodeId AheadOfView(NodeId id) {
    const Node* cast = AsPointwise(g_, g_.BaseOf(id), TapeOp::kCast);
    if (cast == nullptr) return id;
    const DType type = cast->dtype;
    const Node* division = AsPointwise(g_, cast->inputs[0], TapeOp::kDiv);
    if (division == nullptr || !UniformValue(g_, division->inputs[1])) return id;
    const NodeId shown = division->inputs[0], made = g_.BaseOf(shown);
    const double scale = *UniformValue(g_, division->inputs[1]);
    const ir::View view = g_.ViewOf(shown);
    const bool all = view.shape().elements() == g_.node(made).shape.elements() && IsInjective(view);
    if (shown == made || !all || IsReshape(g_, shown) || g_.node(made).op == Op::kInput ||
        g_.IsConstant(made))
      return id;
    const NodeId numbers = b_.Cast(b_.BinaryScalar(TapeOp::kDiv, made, scale), type);
    return b_.ViewNode(numbers, ir::Compose(view, g_.ViewOf(id)));
  }

  bool ReadPacked(Quantised* q) {
    const ir::View view = g_.ViewOf(q->codes);
    const ConstantData& data = *g_.node(g_.BaseOf(q->codes)).As<ir::ConstantAttrs>().data;
    const std::optional<Fp8Rows> rows = Fp8RowsOf(*data.packed, data.name);
    if (!rows) return false;
    q->codes = b_.ViewNode(b_.Constant(rows->numbers), view);
    const NodeId scales = b_.Expand(b_.Constant(rows->scales), data.shape);
    q->scale = ShownOnce(b_, b_.ViewNode(g_.BaseOf(scales), ir::Compose(g_.ViewOf(scales), view)));
    return true;
  }

  // Whether a constant [n, k] is shown as [..., k, n].
  bool HasLinesAlongK(NodeId numbers) {
    const ir::View view = g_.ViewOf(numbers);
    const Node& base = g_.node(g_.BaseOf(numbers));
    if (base.op != Op::kConstant || base.shape.rank != 2 || !view.affine()) return false;
    const ir::ViewStep& step = view.steps[0];
    const int r = step.shape.rank;
    return step.offset == 0 && step.shape[r - 1] == base.shape[0] && step.shape[r - 2] == base.shape[1] &&
           step.strides[r - 1] == base.shape[1] && step.strides[r - 2] == 1;
  }

  NodeId MatMul(const Quantised& a, const Quantised& w) {
    const Data data = HasLinesAlongK(w.codes) ? nullptr : Known(w.codes);
    const NodeId lines = data == nullptr ? kNoNode : LinesAlongK(data, w.codes);
    return Scaled(b_.MatMul(a.codes, lines == kNoNode ? w.codes : lines), a.scale, w.scale);
  }

  bool SuitsConv(const Node& node) const {
    const ir::ConvAttrs& attrs = node.As<ir::ConvAttrs>();
    return (attrs.groups == 1 || g_.node(node.inputs[1]).shape[1] >= kFewOfGroup) && attrs.absent == 0;
  }
  NodeId Conv(const Node& node, const Quantised& a, const Quantised& w) {
    const Data data = Known(w.codes);
    if (data == nullptr || !(data->shape == g_.node(node.inputs[1]).shape)) return kNoNode;
    const ir::ConvAttrs attrs = node.As<ir::ConvAttrs>();
    const NodeId y = b_.Conv(a.codes, Weight(data, w.codes), attrs);
    return Scaled(y, AlongChannels(a.scale), AlongChannels(w.scale));
  }
};

}  // namespace

int64_t LowerToFp8(Graph* graph) {
  const auto on_fp8 = [&](Match& m) { return Fp8Rewriter(graph, m.root()).Rewritten(); };
  return Total(ApplyOnce(graph, {{Op::kMatMul, on_fp8}, {Op::kConv, on_fp8}}));
}

}  // namespace rondo::passes
