#include "compiler/import/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "compiler/import/packed_blocks.h"
#include "compiler/ir/packed.h"
#include "compiler/ir/shares.h"
#include "core/scalar.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {

namespace {

using DataPointer = std::shared_ptr<const ir::ConstantData>;

constexpr int64_t kMostBytes = int64_t{1} << 44;

// The code of number `i`: its distance from the type's least value.
int CodeAt(const NarrowCodes& codes, int64_t i) {
  const int code = codes.data->bytes[static_cast<size_t>(i * codes.bits / 8)] >> (i * codes.bits % 8);
  const int mask = (1 << codes.bits) - 1;
  return (code & mask) ^ (codes.is_signed ? 1 << (codes.bits - 1) : 0);
}

// Whether the code is NaN or infinite in packed weights; in FNUZ types some of these codes are numbers.
bool IsNoNumber(const NarrowCodes& codes, int code) {
  if (codes.is_fnuz && code == 0x80) return true;
  return (codes.type == PackedType::kE4M3 && (code & 0x7f) == 0x7f) ||
         (codes.type == PackedType::kE5M2 && (code & 0x7f) >= 0x7c);
}

// The weight as a matrix [n, k] and its scales. Element (n, k) is number n * n_stride + k * k_stride; the
// scale of a row and a block is number row * scale_row + block * scale_block.
struct Layout {
  int64_t n = 0, k = 0, n_stride = 0, k_stride = 0, block = 0;
  int64_t scale_row = 0, scale_block = 0;
};

std::optional<Layout> LayoutOf(const Shape& x, const Shape& scales, int axis, int64_t block) {
  if (block < 0) return std::nullopt;
  // k is the blocks' axis; without blocks, the axis along which the scale is constant.
  const int along = block > 0 ? axis : scales.elements() == 1 ? 0 : 1 - axis;
  Layout layout;
  layout.k = x[along];
  layout.n = x[1 - along];
  layout.k_stride = along == 1 ? 1 : x[1];
  layout.n_stride = along == 1 ? x[1] : 1;
  layout.block = block > 0 ? std::min(block, layout.k) : layout.k;
  if (layout.n < 16 || layout.k < 32 || (layout.block % 16 != 0 && layout.block < layout.k))
    return std::nullopt;
  const int64_t blocks = (layout.k + layout.block - 1) / layout.block;
  if (block == 0) {
    if (scales.elements() != 1 && !(scales == Shape({layout.n}))) return std::nullopt;
    layout.scale_row = scales.elements() == 1 ? 0 : 1;
    return layout;
  }
  Shape expected = x;
  expected[along] = blocks;
  if (!(scales == expected)) return std::nullopt;
  layout.scale_row = along == 1 ? blocks : 1;
  layout.scale_block = along == 1 ? 1 : layout.n;
  return layout;
}

// Reads the numbers [n, k] of the weight. False if packed weights cannot hold one of them.
bool ReadNumbers(const NarrowCodes& codes, const Layout& layout, uint8_t* numbers) {
  constexpr int64_t kSide = 64;  // squares whose lines stay in cache, in either order of the weight
  std::atomic<bool> all = true;
  ir::InShares((layout.n + kSide - 1) / kSide, 1, [&](int64_t first, int64_t last) {
    bool numbers_alone = true;
    for (int64_t begin = first * kSide; begin < std::min(layout.n, last * kSide); begin += kSide) {
      for (int64_t k_begin = 0; k_begin < layout.k; k_begin += kSide) {
        const int64_t end = std::min(layout.n, begin + kSide), k_end = std::min(layout.k, k_begin + kSide);
        for (int64_t n = begin; n < end; ++n) {
          for (int64_t k = k_begin; k < k_end; ++k) {
            const int code = CodeAt(codes, n * layout.n_stride + k * layout.k_stride);
            numbers_alone &= !IsNoNumber(codes, code);
            numbers[n * layout.k + k] = static_cast<uint8_t>(code);
          }
        }
      }
    }
    if (!numbers_alone) all = false;
  });
  return all;
}

}  // namespace

Result<NodeId> DequantisedWeight(OpContext& c) {
  const std::shared_ptr<const NarrowCodes> codes = c.InValue(0).narrow;
  const std::shared_ptr<const NarrowCodes> zeros = c.Has(2) ? c.InValue(2).narrow : nullptr;
  if (codes == nullptr || codes->data == nullptr || codes->shape.rank != 2 || codes->data->synthetic ||
      !IsFloat(c.dtype(1)) || c.dtype(1) == DType::kF64)
    return kNoNode;
  if (c.Has(2) && (zeros == nullptr || zeros->data == nullptr || zeros->data->synthetic ||
                   zeros->type != codes->type || zeros->is_fnuz != codes->is_fnuz ||
                   zeros->is_signed != codes->is_signed || !(zeros->shape == c.shape(1))))
    return kNoNode;
  const bool whole = codes->type <= PackedType::kU8;
  DataPointer scales;
  if (!c.b.ConstantValue(c.In(1), kMostBytes, &scales)) {
    // The scales may be dequantised values themselves (FP4 has them in FP8).
    Result<DataPointer> computed = EvaluateConstant(c.b.graph(), c.In(1));
    if (!computed.ok()) return kNoNode;
    scales = computed.Take();
  }
  DType type = c.dtype(1);
  if (c.Int("output_dtype", 0) != 0) {
    RONDO_ASSIGN_OR_RETURN(type, onnx::DTypeOf(static_cast<int>(c.Int("output_dtype", 0))));
  }
  if (type != DType::kF32 && type != DType::kF16 && type != DType::kBF16) return kNoNode;
  RONDO_ASSIGN_OR_RETURN(const int axis, c.Axis(c.Int("axis", 1), codes->shape.rank));
  const std::optional<Layout> found = LayoutOf(codes->shape, c.shape(1), axis, c.Int("block_size", 0));
  if (!found) return kNoNode;
  const Layout& layout = *found;
  const int64_t blocks = (layout.k + layout.block - 1) / layout.block;
  std::vector<uint8_t> numbers(static_cast<size_t>(layout.n * layout.k));
  std::vector<float> scale(static_cast<size_t>(layout.n * blocks));
  std::vector<float> zero(zeros == nullptr ? 0 : scale.size());
  if (!ReadNumbers(*codes, layout, numbers.data())) return kNoNode;
  for (int64_t n = 0; n < layout.n; ++n) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t from = n * layout.scale_row + b * layout.scale_block;
      const size_t to = static_cast<size_t>(n * blocks + b);
      scale[to] = scalar::Load<float>(scales->dtype, scales->bytes.data(), from) * codes->unit();
      if (zeros != nullptr) zero[to] = static_cast<float>(CodeAt(*zeros, from));
      if (!whole && zeros != nullptr && zero[to] != 0) return kNoNode;  // ONNX has no such zero points
    }
  }
  if (!whole) zero.clear();  // all are 0: they only select the type
  const bool powers = c.InValue(1).narrow != nullptr && c.InValue(1).narrow->is_power;
  const DType scale_type = powers ? NarrowestScale(scales->dtype, scale) : scales->dtype;
  const int32_t middle = codes->is_signed ? 1 << (codes->bits - 1) : 0;
  const std::shared_ptr<const ir::PackedMatrix> matrix =
      ir::Pack(codes->type, layout.n, layout.k, layout.block, numbers, scale, zero, middle,
               codes->is_fnuz ? DType::kF32 : scale_type);
  NodeId w = c.b.Constant(ir::PackedConstant(matrix, type, codes->data->name));
  return layout.k_stride == 1 ? w : c.b.Transpose(w, {1, 0});
}

Result<NodeId> CastWeight(OpContext& c, DType to) {
  const std::shared_ptr<const NarrowCodes>& codes = c.InValue(0).narrow;
  if (codes == nullptr || codes->data == nullptr || codes->type <= PackedType::kU8 || !IsFloat(to))
    return kNoNode;
  Value one;
  one.node = c.b.Scalar(to, 1);
  OpContext dequantise(&c.b, &c.host, c.proto, c.opset, {}, {c.InValue(0), one});
  return DequantisedWeight(dequantise);
}

}  // namespace rondo::importer
