#include "compiler/import/float_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/import/narrow_weight.h"
#include "compiler/import/packed_blocks.h"
#include "compiler/ir/packed.h"
#include "compiler/ir/shares.h"
#include "core/scalar.h"

namespace rondo::importer {
namespace {

using DataPointer = std::shared_ptr<const ir::ConstantData>;

// The value of each code of the type.
std::array<float, 256> NumbersOf(const NarrowCodes& type) {
  std::array<float, 256> numbers = {};
  for (uint32_t code = 0; code < 1u << type.bits; ++code)
    numbers[code] = static_cast<float>(NumberOf(type, code));
  return numbers;
}

// Whether kernels can read the weights packed: at least 16 rows of 32, blocks of 16, and no NaN or infinity.
bool Packs(const FloatBlocks& blocks, const std::array<float, 256>& numbers) {
  if (blocks.n < 16 || blocks.k < 32 || (blocks.block % 16 != 0 && blocks.block < blocks.k)) return false;
  return std::all_of(blocks.codes.begin(), blocks.codes.end(),
                     [&](uint8_t code) { return std::isfinite(numbers[code]); });
}

Status Unknown(int i) {
  return Status::Error(
      Code::kUnsupported,
      "input %d is not known when the model is compiled: weights of FP4 and FP8 in blocks, and "
      "their scales, must be initializers, in a file that is there",
      i);
}

}  // namespace

NodeId FloatWeight(ir::Builder& b, const FloatBlocks& blocks, DType dtype) {
  NarrowCodes type;
  type.bits = BitsOf(blocks.type), type.type = blocks.type;
  const std::array<float, 256> numbers = NumbersOf(type);
  if (Packs(blocks, numbers)) {
    const auto matrix =
        ir::Pack(blocks.type, blocks.n, blocks.k, std::min(blocks.block, blocks.k), blocks.codes,
                 blocks.scales, {}, 0, NarrowestScale(DType::kF32, blocks.scales));
    return b.Constant(ir::PackedConstant(matrix, dtype, blocks.name));
  }
  std::vector<uint8_t> out(static_cast<size_t>(blocks.n * blocks.k * ByteSize(dtype)));
  ir::InShares(blocks.n, 64, [&](int64_t first, int64_t last) {
    for (int64_t i = first * blocks.k; i < last * blocks.k; ++i) {
      const int64_t scale = i / blocks.k * blocks.count() + i % blocks.k / blocks.block;
      scalar::Store<float>(
          dtype, out.data(), i,
          numbers[blocks.codes[static_cast<size_t>(i)]] * blocks.scales[static_cast<size_t>(scale)]);
    }
  });
  return b.Constant(ir::ConstantData::Own(dtype, {blocks.n, blocks.k}, std::move(out)));
}

Result<DataPointer> CodesOf(const OpContext& c, int i) {
  const NarrowCodes* narrow = c.InValue(i).narrow.get();
  DataPointer data = narrow == nullptr ? nullptr : narrow->data;
  if (narrow == nullptr && !c.b.ConstantValue(c.In(i), int64_t{1} << 44, &data)) return Unknown(i);
  if (data == nullptr || data->synthetic) return Unknown(i);
  return data;
}

Result<std::vector<float>> ScalesOf(const OpContext& c, int i, bool bytes) {
  const NarrowCodes* narrow = c.InValue(i).narrow.get();
  NarrowCodes type;
  if (bytes && narrow == nullptr) type.type = PackedType::kE4M3, type.bits = 8;
  if (narrow != nullptr) type = *narrow;
  std::vector<float> scales(static_cast<size_t>(c.shape(i).elements()));
  if (type.bits == 8 && IsReal(type)) {
    RONDO_ASSIGN_OR_RETURN(const DataPointer codes, CodesOf(c, i));
    const std::array<float, 256> numbers = NumbersOf(type);
    for (size_t at = 0; at < scales.size(); ++at) scales[at] = numbers[codes->bytes[at]];
    return scales;
  }
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  Result<DataPointer> data = EvaluateConstant(c.b.graph(), c.In(i));
  if (!data.ok()) return Unknown(i);
  for (size_t at = 0; at < scales.size(); ++at)
    scales[at] = scalar::Load<float>((*data)->dtype, (*data)->bytes.data(), static_cast<int64_t>(at));
  return scales;
}

}  // namespace rondo::importer
