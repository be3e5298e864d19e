#include "compiler/ir/packed.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/shares.h"
#include "core/scalar.h"
#include "core/synthetic.h"

namespace rondo::ir {
namespace {

using Data = std::shared_ptr<const ConstantData>;

Data ScalesAs(DType type, const PackedShape& shape, std::span<const float> values) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.scales_covered() * ByteSize(type)));
  for (int64_t row = 0; row < shape.n; ++row) {
    for (int64_t b = 0; b < shape.blocks(); ++b) {
      scalar::Store<float>(type, bytes.data(), shape.ScaleAt(row, b * shape.block),
                           values[static_cast<size_t>(row * shape.blocks() + b)]);
    }
  }
  return ConstantData::Own(type, {shape.scales_covered()}, std::move(bytes));
}

Data Synthetic(DType dtype, int64_t elements, uint64_t key, float scale) {
  auto data = std::make_shared<ConstantData>();
  data->dtype = dtype;
  data->shape = {elements};
  data->synthetic = true;
  data->synthetic_key = key;
  data->synthetic_scale = scale;
  return data;
}

// The mask of randomly drawn codes (SyntheticBits), with which none is NaN or infinite.
float BitsOfNumbers(PackedType type) {
  return type == PackedType::kE4M3 ? 0xfe : type == PackedType::kE5M2 ? 0xfb : 0xff;
}

// The mean square of the values of evenly drawn codes.
double MeanSquare(PackedType type, int32_t zero) {
  const uint32_t codes = 1u << BitsOf(type);
  double sum = 0;
  for (uint32_t code = 0; code < codes; ++code) {
    const double value = PackedValue(type, code) - static_cast<float>(zero);
    sum += value * value;
  }
  return sum / codes;
}

}  // namespace

int64_t PackedMatrix::byte_size() const {
  return codes->byte_size() + scales->byte_size() + (zeros == nullptr ? 0 : zeros->byte_size());
}

std::shared_ptr<const PackedMatrix> Pack(PackedType type, int64_t n, int64_t k, int64_t block,
                                         std::span<const uint8_t> codes, std::span<const float> scales,
                                         std::span<const float> zeros, int32_t zero, DType scale_type) {
  auto matrix = std::make_shared<PackedMatrix>();
  matrix->type = type;
  matrix->n = n;
  matrix->k = k;
  matrix->block = block;
  matrix->zero = zero;
  const PackedShape shape = matrix->shape();
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.covered()));
  const int64_t piece = shape.piece();
  std::vector<int64_t> bits(static_cast<size_t>(piece));  // of row 0
  for (int64_t i = 0; i < piece; ++i) bits[static_cast<size_t>(i)] = shape.BitAt(0, i);
  InShares(shape.tiles(), 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first * 16; row < std::min(n, last * 16); ++row) {
      uint8_t* to = bytes.data() + (shape.BitAt(row, 0) - bits[0]) / 8;
      const uint8_t* from = codes.data() + row * k;
      for (int64_t at = 0; at < k; at += piece, to += 512) {
        for (int64_t i = 0; i < std::min(piece, k - at); ++i) {
          const int64_t bit = bits[static_cast<size_t>(i)];
          const int code = from[at + i] & ((1 << shape.bits) - 1);
          to[bit / 8] = static_cast<uint8_t>(to[bit / 8] | code << (bit % 8));
        }
      }
    }
  });
  matrix->codes = ConstantData::Own(DType::kU8, {shape.covered()}, std::move(bytes));
  matrix->scales = ScalesAs(scale_type, shape, scales);
  if (!zeros.empty()) matrix->zeros = ScalesAs(scale_type, shape, zeros);
  return matrix;
}

std::shared_ptr<const PackedMatrix> SyntheticPacked(PackedType type, int64_t n, int64_t k, int64_t block,
                                                    DType scale_type, uint64_t key, float spread) {
  auto matrix = std::make_shared<PackedMatrix>();
  matrix->type = type;
  matrix->n = n;
  matrix->k = k;
  matrix->block = block;
  matrix->zero = type <= PackedType::kU8 ? 1 << (BitsOf(type) - 1) : 0;
  const PackedShape shape = matrix->shape();
  // Scales and codes are both drawn evenly. The mean square of the scales is a third of the squared scale,
  // times that of the codes.
  const double scale = spread / std::sqrt(MeanSquare(type, matrix->zero));
  matrix->codes = Synthetic(DType::kU8, shape.covered(), key, BitsOfNumbers(type));
  matrix->scales =
      Synthetic(scale_type, shape.scales_covered(), SyntheticMix(key), static_cast<float>(scale));
  return matrix;
}

Data PackedConstant(std::shared_ptr<const PackedMatrix> matrix, DType dtype, std::string name) {
  auto data = std::make_shared<ConstantData>();
  data->dtype = dtype;
  data->shape = {matrix->n, matrix->k};
  data->synthetic = true;
  // `synthetic_scale` bounds the absolute value of every element.
  double scale = std::abs(matrix->scales->synthetic_scale), zero = std::abs(matrix->zero);
  if (!matrix->scales->synthetic) {
    const ConstantData &s = *matrix->scales, *z = matrix->zeros.get();
    for (int64_t i = 0; i < s.shape.elements(); ++i) {
      scale = std::max(scale, std::abs(scalar::Load<double>(s.dtype, s.bytes.data(), i)));
      if (z != nullptr) zero = std::max(zero, std::abs(scalar::Load<double>(z->dtype, z->bytes.data(), i)));
    }
  }
  double code = 0;
  for (uint32_t c = 0; c < 1u << BitsOf(matrix->type); ++c)
    code = std::max(code, std::abs(double{PackedValue(matrix->type, c)}));
  data->synthetic_scale = static_cast<float>(scale * (code + zero));
  data->packed = std::move(matrix);
  data->name = std::move(name);
  return data;
}

float ScaleOf(const PackedMatrix& matrix, int64_t row, int64_t at) {
  const ConstantData& scales = *matrix.scales;
  return scalar::Load<float>(scales.dtype, scales.bytes.data(), matrix.shape().ScaleAt(row, at));
}

float ZeroOf(const PackedMatrix& matrix, int64_t row, int64_t at) {
  if (matrix.zeros == nullptr) return static_cast<float>(matrix.zero);
  return scalar::Load<float>(matrix.zeros->dtype, matrix.zeros->bytes.data(),
                             matrix.shape().ScaleAt(row, at));
}

std::shared_ptr<const PackedMatrix> Rescaled(const PackedMatrix& matrix, int64_t block,
                                             std::span<const float> scales) {
  auto out = std::make_shared<PackedMatrix>(matrix);
  out->block = block;
  out->scales = ScalesAs(DType::kF32, out->shape(), scales);
  if (matrix.zeros == nullptr) return out;
  std::vector<float> zeros;
  for (int64_t row = 0; row < matrix.n; ++row) {
    for (int64_t at = 0; at < matrix.k; at += block) zeros.push_back(ZeroOf(matrix, row, at));
  }
  out->zeros = ScalesAs(DType::kF32, out->shape(), zeros);
  return out;
}

namespace {

// The number of consecutive rows with equal scales: all rows, or a multiple of 16; 0 if fewer.
int64_t RowsOfAScale(const PackedMatrix& matrix) {
  const auto fits = [&](int64_t rows) {
    for (int64_t row = 0; row < matrix.n; ++row) {
      for (int64_t at = 0; at < matrix.k; at += matrix.block) {
        if (ScaleOf(matrix, row, at) != ScaleOf(matrix, row / rows * rows, at)) return false;
      }
    }
    return true;
  };
  for (const int64_t rows : {matrix.n, int64_t{128}, int64_t{64}, int64_t{32}, int64_t{16}}) {
    if (rows <= matrix.n && fits(rows)) return rows;
  }
  return 0;
}

}  // namespace

std::shared_ptr<const PackedMatrix> Transposed(const PackedMatrix& matrix) {
  const PackedShape shape = matrix.shape();
  if (matrix.codes->synthetic || matrix.scales->synthetic || matrix.zeros != nullptr || matrix.k < 16 ||
      matrix.n < 32)
    return nullptr;
  const int64_t block = RowsOfAScale(matrix);
  if (block == 0) return nullptr;
  std::vector<uint8_t> codes(static_cast<size_t>(matrix.n * matrix.k));
  std::vector<float> scales;
  for (int64_t at = 0; at < matrix.k; ++at) {
    for (int64_t row = 0; row < matrix.n; ++row) {
      const int64_t bit = shape.BitAt(row, at);
      codes[static_cast<size_t>(at * matrix.n + row)] =
          static_cast<uint8_t>(matrix.codes->bytes[static_cast<size_t>(bit / 8)] >> (bit % 8));
    }
    for (int64_t row = 0; row < matrix.n; row += block) scales.push_back(ScaleOf(matrix, row, at));
  }
  return Pack(matrix.type, matrix.k, matrix.n, block, codes, scales, {}, matrix.zero, matrix.scales->dtype);
}

std::vector<float> Unpacked(const PackedMatrix& matrix) {
  const Data codes = WithBytes(matrix.codes), scales = WithBytes(matrix.scales);
  const Data zeros = matrix.zeros == nullptr ? nullptr : WithBytes(matrix.zeros);
  const PackedShape shape = matrix.shape();
  float values[256];
  for (uint32_t code = 0; code < 1u << shape.bits; ++code) values[code] = PackedValue(matrix.type, code);
  std::vector<float> out(static_cast<size_t>(matrix.n * matrix.k));
  for (int64_t row = 0; row < matrix.n; ++row) {
    for (int64_t at = 0; at < matrix.k; ++at) {
      const int64_t bit = shape.BitAt(row, at), block = shape.ScaleAt(row, at);
      const int code = codes->bytes[static_cast<size_t>(bit / 8)] >> (bit % 8) & ((1 << shape.bits) - 1);
      const float zero = zeros == nullptr ? static_cast<float>(matrix.zero)
                                          : scalar::Load<float>(zeros->dtype, zeros->bytes.data(), block);
      out[static_cast<size_t>(row * matrix.k + at)] =
          (values[code] - zero) * scalar::Load<float>(scales->dtype, scales->bytes.data(), block);
    }
  }
  return out;
}

PackedMatrix PackedOf(const PackedAttrs& attrs, int64_t n, int64_t k, std::span<const Data> inputs) {
  PackedMatrix matrix;
  matrix.type = attrs.weights.type;
  matrix.n = n;
  matrix.k = k;
  matrix.block = attrs.weights.block;
  matrix.zero = attrs.weights.zero;
  matrix.codes = inputs[1];
  matrix.scales = inputs[2];
  if (attrs.has_zeros) matrix.zeros = inputs[3];
  return matrix;
}

}  // namespace rondo::ir
