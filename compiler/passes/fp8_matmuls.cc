// Products of FP8. A factor that is numbers of FP8 times a scale, as it comes from DequantizeLinear, is
// *quantised*; of two such factors the sum of products is one of the numbers, in f32, and the scales multiply
// it. Numbers of a run then lie in memory as bytes, and units that multiply bytes take them as they are.
#include <algorithm>
#include <optional>

#include "compiler/ir/packed.h"
#include "compiler/ir/shares.h"
#include "compiler/ir/turned.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/replace_matmuls.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;
using ir::PackedMatrix;

constexpr int64_t kMostFp8Bytes = int64_t{1} << 31;
constexpr int64_t kFewOfGroup = 16;  // of a group among several: windows that slide over each channel

// numbers * scale. Scale (floats) broadcasts to the numbers; kNoNode where there is none.
struct Fp8Factor {
  NodeId numbers = kNoNode, scale = kNoNode;
};

// A packed matrix of FP8 whose rows have one scale each, as bytes [n, k] and scales [n, 1]; none otherwise.
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
  // Where the codes of 16 rows and 32 of k lie in a piece of 512 bytes (core/packed_weights.h).
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

class Fp8Rewriter {
 public:
  Fp8Rewriter(ir::Graph* graph, NodeId id) : g_(*graph), b_(BuilderLike(graph, id)), id_(id) {}

  // What computes the same of numbers of FP8; kNoNode where a factor is not quantised.
  NodeId Rewrite() {
    const Node& node = g_.node(id_);
    if (!IsFloat(node.dtype) || node.dtype == DType::kF64 || node.inputs.size() != 2 ||
        node.shape.elements() == 0)
      return kNoNode;
    return node.op == Op::kMatMul ? MatMul(node) : Conv(node);
  }

 private:
  // Whether casts lead from it to numbers of FP8.
  bool LeadsToNumbers(NodeId id) {
    constexpr int kMostSteps = 4;
    for (int step = 0; step < kMostSteps; ++step) {
      const Node& node = g_.node(g_.BaseOf(id));
      if (IsFp8(node.dtype) || IsPacked(node)) return true;
      if (AsPointwise(g_, node.id, TapeOp::kCast) == nullptr || !IsFloat(node.dtype)) return false;
      id = ShownInput(b_, id, 0);
    }
    return false;
  }
  static bool IsPacked(const Node& node) {
    return node.op == Op::kConstant && node.As<ir::ConstantAttrs>().data->packed != nullptr;
  }

  // The parts of a quantised factor, from outside in: casts, a scale, casts.
  bool Read(NodeId id, Fp8Factor* q) {
    constexpr int kMostSteps = 8;
    for (int step = 0; step < kMostSteps; ++step) {
      const Node& node = g_.node(g_.BaseOf(id));
      if (IsFp8(node.dtype)) {
        q->numbers = AheadOfView(id);
        q->scale = ShownOnce(b_, q->scale);
        return true;
      }
      if (IsPacked(node)) return q->scale == kNoNode && ReadPacked(id, q);
      if (node.op != Op::kPointwise || !IsFloat(node.dtype)) return false;
      const TapeOp op = node.As<ir::PointwiseAttrs>().op;
      if (op == TapeOp::kMul && q->scale == kNoNode) {
        const bool second = LeadsToNumbers(ShownInput(b_, id, 0));
        q->scale = ShownInput(b_, id, second ? 1 : 0);
        id = ShownInput(b_, id, second ? 0 : 1);
      } else if (op == TapeOp::kCast && IsFloat(g_.node(node.inputs[0]).dtype)) {
        id = ShownInput(b_, id, 0);
      } else {
        return false;
      }
    }
    return false;
  }

  // Numbers that are quantised from a permutation of what a run makes, as a permutation of what is quantised
  // from that: so its kernel can quantise it.
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

  bool ReadPacked(NodeId id, Fp8Factor* q) {
    const ir::View view = g_.ViewOf(id);
    const NodeId base = g_.BaseOf(id);
    const ConstantData& data = *g_.node(base).As<ir::ConstantAttrs>().data;
    const std::optional<Fp8Rows> rows = Fp8RowsOf(*data.packed, data.name);
    if (!rows) return false;
    q->numbers = b_.ViewNode(b_.Constant(rows->numbers), view);
    const NodeId scales = b_.Expand(b_.Constant(rows->scales), data.shape);
    q->scale = ShownOnce(b_, b_.ViewNode(g_.BaseOf(scales), ir::Compose(g_.ViewOf(scales), view)));
    return true;
  }

  // The bytes of a constant as they are shown; null where it is none.
  std::shared_ptr<const ConstantData> Known(NodeId numbers) {
    std::shared_ptr<const ConstantData> value;
    return b_.ConstantValue(ShownOnce(b_, numbers), kMostFp8Bytes, &value) ? value : nullptr;
  }
  NodeId Weight(std::shared_ptr<const ConstantData> data, NodeId like) {
    const NodeId weight = b_.Constant(std::move(data));
    g_.node(weight).name = g_.node(g_.BaseOf(like)).name;
    return weight;
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
  // A known right side laid out with k innermost, shown as before.
  NodeId LinesAlongK(NodeId numbers) {
    const Shape shown = g_.node(numbers).shape;
    if (HasLinesAlongK(numbers)) return numbers;
    const std::shared_ptr<const ConstantData> data = Known(numbers);
    if (data == nullptr) return numbers;
    Shape laid = data->shape;
    const int r = laid.rank;
    const int64_t k = laid[r - 2], n = laid[r - 1];
    if (k != shown[r - 2] || n != shown[r - 1]) return numbers;  // one row or column for all
    std::vector<uint8_t> turned = ir::Turned(data->bytes, k, n);
    std::swap(laid[r - 2], laid[r - 1]);
    std::vector<int> perm;
    for (int d = 0; d < r; ++d) perm.push_back(d < r - 2 ? d : d == r - 2 ? r - 1 : r - 2);
    const NodeId weight = Weight(ConstantData::Own(data->dtype, laid, std::move(turned)), numbers);
    return b_.Expand(b_.Transpose(weight, perm), shown);
  }

  NodeId MatMul(const Node& node) {
    Fp8Factor a, w;
    const DType type = node.dtype;
    const int r = node.shape.rank;
    const NodeId left = node.inputs[0], right = node.inputs[1];
    if (!Read(left, &a) || !Read(right, &w)) return kNoNode;
    if (a.scale != kNoNode && g_.node(a.scale).shape[r - 1] != 1) return kNoNode;  // changes along k
    if (w.scale != kNoNode && g_.node(w.scale).shape[r - 2] != 1) return kNoNode;
    return Scaled(b_.MatMul(a.numbers, LinesAlongK(w.numbers)), a.scale, w.scale, type);
  }

  NodeId Conv(const Node& node) {
    Fp8Factor a, w;
    const DType type = node.dtype;
    const int r = node.shape.rank;
    const ir::ConvAttrs attrs = node.As<ir::ConvAttrs>();
    const NodeId input = node.inputs[0], weight = node.inputs[1];
    const Shape shape = g_.node(weight).shape;
    if ((attrs.groups > 1 && shape[1] < kFewOfGroup) || attrs.absent != 0) return kNoNode;
    if (!Read(input, &a) || !Read(weight, &w)) return kNoNode;
    if (a.scale != kNoNode && g_.node(a.scale).shape.elements() != 1) return kNoNode;
    if (w.scale != kNoNode && g_.node(w.scale).shape.elements() != g_.node(w.scale).shape[0]) return kNoNode;
    const std::shared_ptr<const ConstantData> data = Known(w.numbers);
    if (data == nullptr || !(data->shape == shape)) return kNoNode;
    const NodeId y = b_.Conv(a.numbers, Weight(data, w.numbers), attrs);
    return Scaled(y, AlongChannels(a.scale, r), AlongChannels(w.scale, r), type);
  }

  // [o, 1, ...] as [1, o, 1, ...]; what is one number stays so.
  NodeId AlongChannels(NodeId x, int rank) {
    if (x == kNoNode) return x;
    Shape shape;
    shape.rank = rank;
    for (int d = 0; d < rank; ++d) shape[d] = d == 1 ? g_.node(x).shape.elements() : 1;
    return b_.Reshape(x, shape);
  }

  NodeId Scaled(NodeId y, NodeId a, NodeId w, DType type) {
    if (a != kNoNode) a = b_.Cast(a, DType::kF32);
    if (w != kNoNode) w = b_.Cast(w, DType::kF32);
    const NodeId scale = a == kNoNode ? w : w == kNoNode ? a : b_.Mul(a, w);
    return b_.Cast(scale == kNoNode ? y : b_.Mul(y, scale), type);
  }

  ir::Graph& g_;
  Builder b_;
  const NodeId id_;
};

}  // namespace

Result<PassResult> Fp8Matmuls(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (!options.target.fp8) {
    result.text = "for GPUs that multiply FP8";
    return result;
  }
  result.changes = ReplaceMatmuls(graph, [&](NodeId id) { return Fp8Rewriter(graph, id).Rewrite(); });
  result.text = Count(result.changes, "product") + " of FP8";
  return result;
}

}  // namespace rondo::passes
