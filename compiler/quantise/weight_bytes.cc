// 8-bit weights of float matmuls stay 8 bits (DequantizeLinear of a constant, as weight-only quantisers write
// it). Otherwise they would be folded to floats, or widened in every run.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ir/packed.h"
#include "compiler/ir/shares.h"
#include "compiler/quantise/quantised.h"
#include "compiler/quantise/steps.h"
#include "compiler/quantise/weight_layout.h"
#include "core/element.h"
#include "core/scalar.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

constexpr int64_t kLeastElements = 4096;  // smaller weights are not worth it

bool HoldsBytes(DType t) { return t == DType::kF32 || Is16BitFloat(t); }

// A constant seen in the shape of the weight; null data: none.
struct Shown {
  std::shared_ptr<const ConstantData> data;
  ir::View view;
};

class WeightBytes {
 public:
  explicit WeightBytes(Graph* graph) : g_(graph) {}

  // Whether `id` is such a weight; if so, replaces it by a packed constant.
  bool Pack(NodeId id) {
    const Shape shape = g_->node(id).shape;
    const DType dtype = g_->node(id).dtype;
    if (shape.rank != 2 || shape.elements() < kLeastElements || !HoldsBytes(dtype)) return false;
    Builder b = BuilderLike(g_, id);
    const std::optional<Quantised> q = QuantisedOf(b, id);
    if (!q || !Is8BitInteger(g_->node(q->codes).dtype) || !HoldsBytes(q->type)) return false;
    const Shown codes = Of(q->codes, shape), zero = Of(q->zero, shape), scale = Of(q->scale, shape);
    if (codes.data == nullptr || !codes.view.affine() || scale.data == nullptr ||
        (zero.data == nullptr && q->zero != kNoNode))
      return false;
    const std::optional<WeightLayout> layout = WeightLayoutOf(g_, id);
    if (!layout) return false;
    const int along = layout->k_stride == 1 ? 1 : 0;
    int64_t block = BlockAlong(scale.view, along);
    if (zero.data != nullptr) block = std::gcd(block, BlockAlong(zero.view, along));
    if (block == 0 || (block % 16 != 0 && block < layout->k)) return false;
    const std::shared_ptr<const ir::PackedMatrix> matrix =
        MatrixOf(codes, zero, scale, *layout, block, dtype);
    if (matrix == nullptr) return false;
    bytes_ += matrix->byte_size();
    NodeId packed = b.Constant(ir::PackedConstant(matrix, dtype, codes.data->name));
    if (along == 0) packed = b.Transpose(packed, {1, 0});
    g_->Replace(id, packed);
    return true;
  }
  int64_t bytes() const { return bytes_; }

 private:
  Shown Of(NodeId id, const Shape& shape) const {
    if (id == kNoNode || !g_->IsConstant(g_->BaseOf(id))) return {};
    const std::shared_ptr<const ConstantData>& data = g_->node(g_->BaseOf(id)).As<ir::ConstantAttrs>().data;
    return data->synthetic ? Shown() : Shown{data, ir::Expand(g_->ViewOf(id), shape)};
  }

  // Element (n, k), with the dims of `layout`; 0 without data.
  static float At(const Shown& shown, const WeightLayout& layout, int64_t n, int64_t k) {
    if (shown.data == nullptr) return 0;
    const int64_t index[] = {layout.k_stride == 1 ? n : k, layout.k_stride == 1 ? k : n};
    return scalar::Load<float>(shown.data->dtype, shown.data->bytes.data(), ir::Resolve(shown.view, index));
  }

  // Codes of signed bytes count from the smallest. Null if a zero point is not a code.
  static std::shared_ptr<const ir::PackedMatrix> MatrixOf(const Shown& codes, const Shown& zero,
                                                          const Shown& scale, const WeightLayout& layout,
                                                          int64_t block, DType dtype) {
    const uint8_t flip = codes.data->dtype == DType::kI8 ? 0x80 : 0;
    const int64_t blocks = (layout.k + block - 1) / block;
    std::vector<float> scales, zeros;
    bool one_zero = true, narrow = true;
    for (int64_t n = 0; n < layout.n; ++n) {
      for (int64_t i = 0; i < blocks; ++i) {
        scales.push_back(At(scale, layout, n, i * block));
        zeros.push_back(At(zero, layout, n, i * block) + flip);
        if (!(zeros.back() >= 0 && zeros.back() <= 255 && zeros.back() == std::floor(zeros.back())))
          return nullptr;
        one_zero &= zeros.back() == zeros[0];
        uint8_t rounded[4] = {};
        scalar::Store<float>(dtype, rounded, 0, scales.back());
        narrow &= scalar::Load<float>(dtype, rounded, 0) == scales.back();
      }
    }
    const int32_t one = one_zero ? static_cast<int32_t>(zeros[0]) : 0;
    if (one_zero) zeros.clear();
    return ir::Pack(PackedType::kU8, layout.n, layout.k, block, CodesOf(codes, layout, flip), scales, zeros,
                    one, narrow ? dtype : DType::kF32);
  }

  static std::vector<uint8_t> CodesOf(const Shown& shown, const WeightLayout& layout, uint8_t flip) {
    const uint8_t* const bytes = shown.data->bytes.data();
    const ir::ViewStep& step = shown.view.steps[0];
    const int64_t n_step = step.strides[layout.k_stride == 1 ? 0 : 1],
                  k_step = step.strides[layout.k_stride == 1 ? 1 : 0];
    std::vector<uint8_t> codes(static_cast<size_t>(layout.n * layout.k));
    constexpr int64_t kSide = 64;  // blocks whose lines stay in cache, whichever dim is contiguous
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

int64_t KeepWeightBytes(Graph* graph, int64_t* bytes) {
  WeightBytes weights(graph);
  int64_t packed = 0;
  for (NodeId id = 0, end = graph->size(); id < end; ++id) {
    const Node& n = graph->node(id);
    if (!n.dead && n.op == Op::kMatMul) packed += weights.Pack(graph->BaseOf(n.inputs[1]));
  }
  *bytes = weights.bytes();
  return packed;
}

}  // namespace rondo::passes
