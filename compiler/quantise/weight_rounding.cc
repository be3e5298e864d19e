#include "compiler/quantise/weight_rounding.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "compiler/ir/shares.h"
#include "core/element.h"
#include "core/scalar.h"

namespace rondo::passes {

namespace {

constexpr int64_t kRows = 16;  // processed at a time: adjacent if n is the contiguous axis

// The nearest integer, ties to even, for magnitudes below 2^22.
int Nearest(float x) { return std::bit_cast<int32_t>(x + 12582912.0f) - 0x4b400000; }

// Codes of one type, for numbers divided by their scale.
class Codes {
 public:
  explicit Codes(PackedType type)
      : type_(type),
        sign_(1 << (BitsOf(type) - 1)),
        mantissa_(type == PackedType::kE4M3   ? 3
                  : type == PackedType::kE5M2 ? 2
                                              : 1),
        bias_(type == PackedType::kE4M3   ? 7
              : type == PackedType::kE5M2 ? 15
                                          : 1),
        // The last codes of FP8 are not numbers.
        last_(type == PackedType::kE4M3   ? 126
              : type == PackedType::kE5M2 ? 123
                                          : 7),
        normal_(std::ldexp(1.0f, 1 - bias_)),
        unit_(std::ldexp(1.0f, bias_ - 1 + mantissa_)) {
    for (uint32_t code = 0; code < 256; ++code)
      values_[code] =
          code < 2u * static_cast<uint32_t>(sign_) ? PackedValue(type, code) - static_cast<float>(zero()) : 0;
  }

  bool whole() const { return type_ <= PackedType::kU8; }
  int32_t zero() const { return whole() ? sign_ : 0; }
  float Value(uint8_t code) const { return values_[code]; }
  // The scale of a block whose number of greatest magnitude is `greatest`. For integers, the smallest has no
  // positive counterpart.
  float ScaleOf(float greatest) const {
    return whole() ? greatest / -static_cast<float>(sign_) : std::abs(greatest) / values_[last_];
  }
  uint8_t CodeOf(float x) const {
    if (whole()) return static_cast<uint8_t>(std::clamp(Nearest(x) + sign_, 0, 2 * sign_ - 1));
    const float size = std::abs(x);
    int code = 0;
    if (size < normal_) {
      code = Nearest(size * unit_);
    } else {
      const int shift = 23 - mantissa_;
      uint32_t bits = std::bit_cast<uint32_t>(size);
      bits += (1u << (shift - 1)) - 1 + (bits >> shift & 1);
      code = static_cast<int>(bits >> shift) - ((127 - bias_) << mantissa_);
    }
    return static_cast<uint8_t>(std::min(code, last_) | (std::signbit(x) ? sign_ : 0));
  }

 private:
  PackedType type_;
  int sign_, mantissa_, bias_, last_;
  float normal_, unit_;
  float values_[256];
};

struct Lost {
  double squares = 0, errors = 0;
};

// Rounds one row; its scales go to `scales`.
Lost RoundRow(const Codes& codes, const WeightBlocks& blocks, const float* x, int64_t k, uint8_t* to,
              float* scales) {
  Lost lost;
  for (int64_t first = 0; first < k; first += blocks.size) {
    const int64_t last = std::min(first + blocks.size, k);
    float greatest = 0;
    for (int64_t i = first; i < last; ++i) {
      if (std::abs(x[i]) > std::abs(greatest)) greatest = x[i];
    }
    uint8_t bytes[4];
    scalar::Store<float>(blocks.scale_type, bytes, 0, codes.ScaleOf(greatest));
    const float scale = scalar::Load<float>(blocks.scale_type, bytes, 0),
                inverse = scale == 0 ? 0 : 1 / scale;
    *scales++ = scale;
    for (int64_t i = first; i < last; ++i) {
      to[i] = codes.CodeOf(x[i] * inverse);
      const double off = x[i] - scale * codes.Value(to[i]);
      lost.squares += double{x[i]} * x[i];
      lost.errors += off * off;
    }
  }
  return lost;
}

// `rows` rows from `first` on as f32, row after row. False if a number is not finite.
bool ReadRows(const ir::ConstantData& data, const WeightLayout& layout, int64_t first, int64_t rows,
              float* out) {
  bool finite = true;
  const auto read = [&](auto widen) {
    const bool along_k = layout.k_stride == 1;
    const int64_t outer = along_k ? rows : layout.k, inner = along_k ? layout.k : rows;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t r = along_k ? o : i, k = along_k ? i : o;
        const float x = widen((first + r) * layout.n_stride + k * layout.k_stride);
        finite = finite && std::abs(x) <= 3.4e38f;
        out[r * layout.k + k] = x;
      }
    }
  };
  const uint8_t* bytes = data.bytes.data();
  WithElement(data.dtype, [&](auto element) {
    using E = decltype(element);
    read([&](int64_t i) {
      typename E::Stored stored;
      std::memcpy(&stored, bytes + static_cast<int64_t>(sizeof(stored)) * i, sizeof(stored));
      return static_cast<float>(E::Widen(stored));
    });
  });
  return finite;
}

}  // namespace

std::shared_ptr<const ir::PackedMatrix> RoundWeights(const ir::ConstantData& data, const WeightLayout& layout,
                                                     const WeightBlocks& blocks, double* error) {
  const int64_t count = (layout.k + blocks.size - 1) / blocks.size, groups = (layout.n + kRows - 1) / kRows;
  std::vector<uint8_t> numbers(static_cast<size_t>(layout.n * layout.k));
  std::vector<float> scales(static_cast<size_t>(layout.n * count));
  std::vector<Lost> lost(static_cast<size_t>(layout.n));
  // A buffer for each thread that there may be.
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::vector<float>> buffers(threads);
  for (std::vector<float>& buffer : buffers) buffer.resize(static_cast<size_t>(kRows * layout.k));
  std::atomic<size_t> taken = 0;
  std::atomic<bool> finite = true;
  const Codes codes(blocks.type);
  ir::InShares(groups, 4, [&](int64_t first, int64_t last) {
    float* x = buffers[taken++ % threads].data();
    for (int64_t group = first; group < last && finite; ++group) {
      const int64_t row = group * kRows, rows = std::min(kRows, layout.n - row);
      if (!ReadRows(data, layout, row, rows, x)) finite = false;
      for (int64_t r = 0; r < rows; ++r) {
        lost[static_cast<size_t>(row + r)] =
            RoundRow(codes, blocks, x + r * layout.k, layout.k, numbers.data() + (row + r) * layout.k,
                     scales.data() + (row + r) * count);
      }
    }
  });
  if (!finite) return nullptr;
  Lost all;
  for (const Lost& row : lost) {
    all.squares += row.squares;
    all.errors += row.errors;
  }
  *error = all.squares == 0 ? 0 : std::sqrt(all.errors / all.squares);
  return ir::Pack(blocks.type, layout.n, layout.k, blocks.size, numbers, scales, {}, codes.zero(),
                  blocks.scale_type);
}

}  // namespace rondo::passes
