#include "compiler/import/packed_blocks.h"

#include <algorithm>
#include <cmath>

#include "compiler/import/packed_bits.h"
#include "compiler/ir/packed.h"
#include "core/scalar.h"

namespace rondo::importer {

namespace {

using ir::Builder;
using DataPointer = std::shared_ptr<const ir::ConstantData>;

constexpr int64_t kMostBytes = int64_t{1} << 44;
constexpr int64_t kMost = int64_t{1} << 28;  // rows or columns of a weight

bool PowerOfTwo(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

// Input `i` holds `count` elements.
Status RequireCount(const OpContext& c, int i, int64_t count) {
  if (c.shape(i).elements() == count) return Status::Ok();
  return Status::Error(Code::kCorrupt, "input %d has shape %s; %lld elements are needed", i,
                       Text(c.shape(i)).c_str(), static_cast<long long>(count));
}

Status Check(const OpContext& c, const PackedBlocks& blocks, int weights, int scales, int zeros) {
  const int64_t all = blocks.n * blocks.count();
  if (!c.Has(weights) || !c.Has(scales))
    return Status::Error(Code::kCorrupt, "weights or scales are missing");
  if (c.dtype(weights) != DType::kU8)
    return Status::Error(Code::kUnsupported, "packed weights of type %s; u8 is needed",
                         Name(c.dtype(weights)));
  RONDO_RETURN_IF_ERROR(RequireCount(c, weights, all * blocks.bytes()));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(scales));
  RONDO_RETURN_IF_ERROR(RequireCount(c, scales, all));
  if (!c.Has(zeros)) return Status::Ok();
  if (c.dtype(zeros) == DType::kU8)
    return RequireCount(c, zeros, all / blocks.zero_row() * blocks.zero_bytes());
  RONDO_RETURN_IF_ERROR(c.RequireFloat(zeros));
  return RequireCount(c, zeros, all);
}

// [n, blocks, 1] f32: the zero points of the blocks.
NodeId ZeroPoints(OpContext& c, const PackedBlocks& blocks, int zeros) {
  Builder& b = c.b;
  if (!c.Has(zeros)) return b.Scalar(DType::kF32, blocks.middle());
  NodeId zero = c.In(zeros);
  if (c.dtype(zeros) == DType::kU8) {
    zero =
        UnpackBits(b, b.Reshape(zero, {c.shape(zeros).elements() / blocks.zero_bytes(), blocks.zero_bytes()}),
                   blocks.bits);
    zero = b.Slice(zero, 1, 0, 1, blocks.zero_row());
  }
  return b.Reshape(b.Cast(zero, DType::kF32), {blocks.n, blocks.count(), 1});
}

NodeId Unpacked(OpContext& c, const PackedBlocks& blocks, int weights, int scales, int zeros, DType dtype) {
  Builder& b = c.b;
  NodeId w = UnpackBits(b, b.Reshape(c.In(weights), {blocks.n, blocks.count(), blocks.bytes()}), blocks.bits);
  NodeId scale = b.Reshape(b.Cast(c.In(scales), DType::kF32), {blocks.n, blocks.count(), 1});
  w = b.Mul(b.Sub(b.Cast(w, DType::kF32), ZeroPoints(c, blocks, zeros)), scale);
  w = b.Slice(b.Reshape(w, {blocks.n, blocks.count() * blocks.size}), 1, 0, 1, blocks.k);
  return b.Cast(w, dtype);
}

// Number `i` of those packed into `bytes`.
int64_t NumberAt(const uint8_t* bytes, int64_t i, int64_t bits) {
  return (bytes[i * bits / 8] >> (i * bits % 8)) & ((int64_t{1} << bits) - 1);
}

// The zero point of block number `at`.
float ZeroAt(const PackedBlocks& blocks, const DataPointer& zeros, int64_t at) {
  if (zeros == nullptr) return static_cast<float>(blocks.middle());
  if (zeros->dtype != DType::kU8) return scalar::Load<float>(zeros->dtype, zeros->bytes.data(), at);
  const uint8_t* row = zeros->bytes.data() + at / blocks.zero_row() * blocks.zero_bytes();
  return static_cast<float>(NumberAt(row, at % blocks.zero_row(), blocks.bits));
}

// The codes of block `block` of row `row`, up to the end of the row; padding is `filling`.
void ReadBlock(const PackedBlocks& blocks, const DataPointer& weights, int64_t row, int64_t block,
               uint8_t filling, std::vector<uint8_t>* codes) {
  const uint8_t* bytes = weights->bytes.data() + row * blocks.count() * blocks.bytes();
  const int64_t first = block * blocks.block(), end = std::min(first + blocks.block(), blocks.columns());
  codes->clear();
  for (int64_t i = first; i < end; ++i) {
    const int64_t at = blocks.order.empty() ? i : blocks.order[static_cast<size_t>(i)];
    codes->push_back(at < 0 ? filling : static_cast<uint8_t>(NumberAt(bytes, at, blocks.bits)));
  }
}

std::vector<uint8_t> Folded(const PackedBlocks& blocks, const DataPointer& weights, const DataPointer& scales,
                            const DataPointer& zeros, DType dtype) {
  std::vector<uint8_t> out(static_cast<size_t>(blocks.n * blocks.columns() * ByteSize(dtype))), codes;
  for (int64_t row = 0; row < blocks.n; ++row) {
    for (int64_t block = 0; block < blocks.blocks(); ++block) {
      const int64_t at = row * blocks.count() + blocks.group(block), first = block * blocks.block();
      const float scale = scalar::Load<float>(scales->dtype, scales->bytes.data(), at);
      const float zero = ZeroAt(blocks, zeros, at);
      ReadBlock(blocks, weights, row, block, 0, &codes);
      for (size_t i = 0; i < codes.size(); ++i) {
        const auto column = first + static_cast<int64_t>(i);
        const bool fills = !blocks.order.empty() && blocks.order[static_cast<size_t>(column)] < 0;
        const float w = fills ? 0 : (static_cast<float>(codes[i]) - zero) * scale;
        scalar::Store<float>(dtype, out.data(), row * blocks.columns() + column, w);
      }
    }
  }
  return out;
}

// The weights in the packed form that kernels read; null if they do not fit it (fractional zero points, or
// too few weights for a tile).
std::shared_ptr<const ir::PackedMatrix> Packed(const PackedBlocks& blocks, const DataPointer& weights,
                                               const DataPointer& scales, const DataPointer& zeros) {
  const int64_t k = blocks.columns();
  if (blocks.n < 16 || k < 32 || (blocks.block() % 16 != 0 && blocks.block() < k)) return nullptr;
  std::vector<uint8_t> codes(static_cast<size_t>(blocks.n * k)), some;
  const int64_t all = blocks.n * blocks.blocks();
  std::vector<float> scale(static_cast<size_t>(all)), zero(zeros == nullptr ? 0 : static_cast<size_t>(all));
  for (int64_t to = 0; to < all; ++to) {
    const int64_t row = to / blocks.blocks(), block = to % blocks.blocks();
    const int64_t from = row * blocks.count() + blocks.group(block);
    const float z = ZeroAt(blocks, zeros, from);
    if (!(z == std::floor(z) && z >= 0 && z <= 255)) return nullptr;
    ReadBlock(blocks, weights, row, block, static_cast<uint8_t>(z), &some);
    std::copy(some.begin(), some.end(), codes.begin() + row * k + block * blocks.block());
    scale[static_cast<size_t>(to)] = scalar::Load<float>(scales->dtype, scales->bytes.data(), from);
    if (zeros != nullptr) zero[static_cast<size_t>(to)] = z;
  }
  const PackedType type = blocks.bits == 2   ? PackedType::kU2
                          : blocks.bits == 4 ? PackedType::kU4
                                             : PackedType::kU8;
  return ir::Pack(type, blocks.n, k, blocks.block(), codes, scale, zero,
                  static_cast<int32_t>(blocks.middle()), NarrowestScale(scales->dtype, scale));
}

}  // namespace

DType NarrowestScale(DType given, std::span<const float> scales) {
  if (given != DType::kF32) return given == DType::kF64 ? DType::kF32 : given;
  for (DType type : {DType::kF16, DType::kBF16}) {
    const bool holds = std::all_of(scales.begin(), scales.end(), [&](float x) {
      uint8_t bytes[2];
      scalar::Store<float>(type, bytes, 0, x);
      return scalar::Load<float>(type, bytes, 0) == x || std::isnan(x);
    });
    if (holds) return type;
  }
  return DType::kF32;
}

Status CheckBlocks(const PackedBlocks& blocks) {
  if (blocks.bits != 2 && blocks.bits != 4 && blocks.bits != 8) {
    return Status::Error(Code::kUnsupported,
                         "weights of %lld bits: rondo reads 2, 4 and 8; quantise the model to one of them",
                         static_cast<long long>(blocks.bits));
  }
  if (blocks.n < 1 || blocks.k < 1 || blocks.n > kMost || blocks.k > kMost) {
    return Status::Error(Code::kCorrupt, "N %lld and K %lld: each is from 1 to %lld",
                         static_cast<long long>(blocks.n), static_cast<long long>(blocks.k),
                         static_cast<long long>(kMost));
  }
  if (!PowerOfTwo(blocks.size) || blocks.size < 16 || blocks.size > (1 << 30)) {
    return Status::Error(
        Code::kCorrupt,
        "block_size %lld: rondo reads powers of two from 16 on; quantise the model in such blocks",
        static_cast<long long>(blocks.size));
  }
  return Status::Ok();
}

Result<NodeId> Dequantised(OpContext& c, const PackedBlocks& blocks, int weights, int scales, int zeros,
                           DType dtype) {
  RONDO_RETURN_IF_ERROR(Check(c, blocks, weights, scales, zeros));
  DataPointer w, s, z;
  if (!c.b.ConstantValue(c.In(weights), kMostBytes, &w) || !c.b.ConstantValue(c.In(scales), kMostBytes, &s) ||
      (c.Has(zeros) && !c.b.ConstantValue(c.In(zeros), kMostBytes, &z))) {
    const bool in_rows = blocks.order.empty() && blocks.lie == WeightOrder::kRows;
    if (!in_rows && !c.host.shapes_only()) {
      return Status::Error(Code::kUnsupported,
                           "weights in an order of their own (g_idx, or prepacked) must be known when the "
                           "model is compiled");
    }
    if (in_rows) return Unpacked(c, blocks, weights, scales, zeros, dtype);
  }
  if (blocks.lie != WeightOrder::kRows && !c.host.shapes_only()) {
    const int64_t n = blocks.n / blocks.matrices;
    RONDO_RETURN_IF_ERROR(CheckOrder(blocks.lie, n, blocks.k, blocks.bits));
    auto by_rows = std::make_shared<ir::ConstantData>(*ir::ConstantData::Own(
        DType::kU8, w->shape,
        ByRows(blocks.lie, w->bytes.data(), blocks.matrices, n, blocks.k, blocks.bits)));
    by_rows->name = w->name;
    w = by_rows;
  }
  const Shape shape = {blocks.n, blocks.columns()};
  if (!c.host.shapes_only()) {
    const std::shared_ptr<const ir::PackedMatrix> packed = Packed(blocks, w, s, z);
    if (packed != nullptr) return c.b.Constant(ir::PackedConstant(packed, dtype, w->name));
  }
  if (!c.host.shapes_only())
    return c.b.Constant(ir::ConstantData::Own(dtype, shape, Folded(blocks, w, s, z, dtype)));
  auto data = std::make_shared<ir::ConstantData>();
  data->dtype = dtype;
  data->shape = shape;
  data->synthetic = true;
  return c.b.Constant(data);
}

}  // namespace rondo::importer
