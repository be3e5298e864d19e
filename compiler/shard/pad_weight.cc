#include "compiler/shard/pad_weight.h"

#include <cstring>
#include <utility>
#include <vector>

#include "compiler/ir/packed_parts.h"
#include "formats/plan/live_weights.h"

namespace rondo::shard {
namespace {

using Data = std::shared_ptr<const ConstantData>;

// The numbers of elements in the dims before and after dim `dim` of a shape.
std::pair<int64_t, int64_t> Around(const Shape& shape, int dim) {
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < shape.rank; ++d) {
    if (d != dim) (d < dim ? outer : inner) *= shape[d];
  }
  return {outer, inner};
}

}  // namespace

std::optional<int64_t> Widened(int64_t distance, int64_t stride, int64_t extent, int64_t to) {
  const int64_t outer = distance / (stride * extent), inner = distance % (stride * extent);
  if (distance < 0 || inner >= stride) return std::nullopt;
  return outer * stride * to + inner;
}

std::optional<View> Widen(const View& view, int dim, int64_t stride, int64_t extent, int64_t to) {
  if (!view.affine() || view.shape()[dim] != extent || view.steps[0].strides[dim] != stride)
    return std::nullopt;
  ir::ViewStep step = view.steps[0];
  const auto offset = Widened(step.offset, stride, extent, to);
  if (!offset) return std::nullopt;
  step.offset = *offset;
  int64_t low = *offset % stride, high = low;  // the reach of the other dims inside one index
  for (int d = 0; d < step.shape.rank; ++d) {
    if (d == dim || step.shape[d] == 1) continue;
    if (step.strides[d] < 0) {  // walks backwards
      if (-step.strides[d] >= stride) return std::nullopt;
      low += step.strides[d] * (step.shape[d] - 1);
      continue;
    }
    const auto wide = Widened(step.strides[d], stride, extent, to);
    if (!wide) return std::nullopt;
    high += *wide % stride * (step.shape[d] - 1);
    step.strides[d] = *wide;
  }
  if (low < 0 || high >= stride) return std::nullopt;
  step.shape[dim] = to;
  return View{{step}};
}

bool CanPad(const ConstantData& data, int dim) {
  const ConstantData& stored = data.packed == nullptr ? data : *data.packed->codes;
  if (stored.synthetic && IsOfLiveWeight(data.name, stored.synthetic_key))
    return false;  // no zeros follow it
  if (data.packed != nullptr) return true;
  const auto [outer, inner] = Around(data.shape, dim);
  if (!data.synthetic || data.synthetic_run == 0) return true;
  return outer == 1 ? inner % data.synthetic_run == 0 : data.shape[dim] * inner == data.synthetic_run;
}

Data Pad(const Data& from, int dim, int64_t to) {
  if (from->packed != nullptr) {
    const ir::PackedMatrix& matrix = *from->packed;
    const auto padded = ir::PadPacked(matrix, dim == 0 ? to : matrix.n, dim == 1 ? to : matrix.k);
    return ir::PackedConstant(padded, from->dtype, from->name);
  }
  const auto [outer, inner] = Around(from->shape, dim);
  auto padded = std::make_shared<ConstantData>(*from);
  padded->shape[dim] = to;
  const int64_t run = from->shape[dim] * inner, wide = to * inner;
  if (from->synthetic) {
    if (outer == 1) return padded;
    if (from->synthetic_run == 0) padded->synthetic_step = run;
    padded->synthetic_run = wide;
    return padded;
  }
  const auto size = static_cast<size_t>(ByteSize(from->dtype));
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(outer * wide) * size, uint8_t{0});
  for (int64_t i = 0; i < outer; ++i)
    std::memcpy(bytes->data() + static_cast<size_t>(i * wide) * size,
                from->bytes.data() + static_cast<size_t>(i * run) * size, static_cast<size_t>(run) * size);
  padded->bytes = {bytes->data(), bytes->size()};
  padded->keep = bytes;
  return padded;
}

}  // namespace rondo::shard
