#include "drivers/host/matmul/packed_sums.h"

namespace rondo::host::RONDO_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVector = 64;  // bytes
#elif defined(__AVX2__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif
// Of a vector; vectors for the words of two columns.
constexpr int kFloats = kVector / 4, kParts = 64 / kVector;
typedef float Floats __attribute__((vector_size(kVector), may_alias));
typedef uint32_t Words __attribute__((vector_size(kVector), may_alias));
typedef int32_t Signed __attribute__((vector_size(kVector), may_alias));
typedef double Doubles __attribute__((vector_size(kVector), may_alias));

const Floats& VectorAt(const float* at) { return *reinterpret_cast<const Floats*>(at); }

// Decodes the codes at one bit position of all words: minus their middle, or times 1 / kUnit.
template <int BITS, int MANTISSA>
struct Decoder {
  static constexpr int kBits = BITS;
  static constexpr bool kWhole = MANTISSA == 0;
  static constexpr float kMiddle = kWhole ? static_cast<float>(1 << (BITS - 1)) : 0.0f;
  // For floats: the least positive number
  static constexpr float kUnit = kWhole ? 1.0f : BITS == 4 ? 0.5f : MANTISSA == 3 ? 0x1p-9f : 0x1p-16f;

#if defined(__AVX512F__)
  static constexpr bool kByTable = BITS <= 4;
  // By the lower 4 bits of a word; codes of 2 bits have the next code's bits above them.
  Floats table;
  explicit Decoder(const PackedProgram& packed) {
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t code = i & packed.mask;
      table[i] = kWhole ? static_cast<float>(code) - kMiddle : packed.values[code] / kUnit;
    }
  }
#else
  static constexpr bool kByTable = false;
  Floats table;  // not used
  explicit Decoder(const PackedProgram&) : table{} {}
#endif
  // Prepares words that are decoded more than once.
  static Words Prepare(Words x) {
    constexpr uint32_t kMiddles = BITS == 2 ? 0xaaaaaaaau : BITS == 4 ? 0x88888888u : 0x80808080u;
    return kWhole && !kByTable ? x ^ kMiddles : x;
  }
  Floats At(Words x, int bit) const {
#if defined(__AVX512F__)
    if constexpr (kByTable) return __builtin_shuffle(table, reinterpret_cast<Signed>(x >> bit));
#endif
    if constexpr (kWhole) {
      const Signed code = reinterpret_cast<Signed>(x << (32 - BITS - bit)) >> (32 - BITS);
      return __builtin_convertvector(code, Floats);
    } else {
      // Moves exponent and mantissa to their places in a float; subnormal numbers are converted as integers.
      constexpr uint32_t kMost = (1u << (BITS - 1)) - 1, kExponent = (126u + MANTISSA) << 23;
      const Words code = x >> bit, size = code & kMost;
      const Words normal = (size << (23 - MANTISSA)) + kExponent;
      const Floats counted = __builtin_convertvector(reinterpret_cast<Signed>(size), Floats);
      const Words chosen = size < (1u << MANTISSA) ? reinterpret_cast<Words>(counted) : normal;
      return reinterpret_cast<Floats>(chosen | (code << (32 - BITS) & 0x80000000u));
    }
  }
};

// Of `count` blocks of a tile, at most kPackedDepth / 16: scales, and the correction besides the codes'
// middle.
struct Blocks {
  alignas(64) float scale[kPackedDepth], correction[kPackedDepth];
};

// The values of columns g and g + 8, for the first and the second words.
Floats OfWords(const float* values, int64_t first, int64_t second, int g) {
  double x, y;
  std::memcpy(&x, values + first * 16 + 2 * g, 8);
  std::memcpy(&y, values + second * 16 + 2 * g, 8);
#if defined(__AVX512F__)
  const Doubles pairs = {x, y, x, y, x, y, x, y};
#elif defined(__AVX2__)
  const Doubles pairs = {x, y, x, y};
#else
  const Doubles pairs = {x, y};
#endif
  return reinterpret_cast<Floats>(pairs);
}

template <typename Codes>
class Sums {
 public:
  Sums(const PackedProgram& packed, const PackedRows& rows, const PackedTile& tile)
      : p_(packed), rows_(rows), tile_(tile), decoder_(packed) {
    corrected_ = tile.zeros != nullptr || packed.zero != Codes::kMiddle;
  }

  // Computes rows [first, first + R).
  template <int R>
  void Add(int first, int columns, float* acc, int64_t acc_row) {
    Floats sums[R][8][kParts];
    for (int r = 0; r < R; ++r)
      for (int g = 0; g < 8; ++g)
        for (int part = 0; part < kParts; ++part) sums[r][g][part] = Floats{};
    const int64_t chunk = kPackedDepth / p_.piece;
    for (int64_t piece = 0; piece < p_.pieces; piece += chunk) {
      const int64_t end = Least(p_.pieces, piece + chunk);
      LoadBlocks(BlockOf(piece * p_.piece), BlockOf(end * p_.piece - 1));
      for (int64_t at = piece; at < end;) {
        // Pieces of one block are scaled together.
        const int64_t next = p_.whole_pieces ? (BlockOf(at * p_.piece) + 1) * p_.block / p_.piece : at + 1;
        const int64_t behind = next > at && next < end ? next : end;
        for (int group = 0; group < rows_.groups(); ++group) {
          const Run run = RunOf(first, at, behind, group);
          for (int part = 0; part < kParts; ++part)
            for (int g = 0; g < 8; g += Together<R>()) TakePieces<R>(run, part, g, sums);
        }
        at = behind;
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < columns; ++c) {
        float sum = 0;
        for (int part = 0; part < kParts; ++part)
          for (int e = c / 8; e < kFloats; e += 2) sum += sums[r][c % 8][part][e];
        acc[(first + r) * acc_row + c] = sum;
      }
    }
  }

 private:
  static constexpr int kManyRows = 8;

  // Vectors of codes that are in flight together, so that they stay in registers.
  template <int R>
  static constexpr int Together() {
    return R == 1                    ? (kVector == 64 ? 8 : 4)
           : R == 2                  ? (kVector == 64 ? 4 : 2)
           : R == 4 && kVector == 64 ? 2
                                     : 1;
  }

  // Pieces [begin, end), and in them the positions of one group: `position` and those after it. Their scales,
  // for both words of a column, are in `blocks_` at 16 times these.
  struct Run {
    int first;  // row
    int64_t begin, end;
    int group, position, positions;
    int64_t upper, lower;
  };
  Run RunOf(int first, int64_t begin, int64_t end, int group) const {
    const int count = rows_.positions() / rows_.groups();
    const int64_t word = p_.piece / 2, k = begin * p_.piece + group * (word / rows_.groups());
    return {first,
            begin,
            end,
            group,
            group * count,
            count,
            Least(BlockOf(k), last_block_) - first_block_,
            Least(BlockOf(k + word), last_block_) - first_block_};
  }
  int64_t BlockOf(int64_t k) const { return p_.block_shift >= 0 ? k >> p_.block_shift : k / p_.block; }

  template <int R>
  void TakePieces(const Run& run, int part, int g, Floats (*sums)[8][kParts]) {
    if constexpr (R < kManyRows) {
      Pieces<R>(run, part, g, sums);
    } else {
      ScaledPieces<R>(run, part, g, sums);
    }
  }

  // A run's sums by columns g and g + 8; codes are scaled before they are multiplied.
  template <int R>
  void ScaledPieces(const Run& run, int part, int g, Floats (*sums)[8][kParts]) {
    const Floats scale = OfWords(blocks_.scale, run.upper, run.lower, g);
    const Floats less = corrected_ ? scale * OfWords(blocks_.correction, run.upper, run.lower, g) : Floats{};
    Floats now[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) now[r] = sums[r][g][part];
    for (int64_t piece = run.begin; piece < run.end; ++piece) {
      Words x;
      std::memcpy(&x, tile_.codes + piece * 512 + g * 64 + part * kVector, kVector);
      x = Codes::Prepare(x);
      const float* a = rows_.At(run.first, piece, run.position) + part * kFloats;
      int bit = run.position / 2 * Codes::kBits;
      for (int n = 0; n < run.positions; n += 2, bit += Codes::kBits) {
#pragma GCC unroll 2
        for (int e = 0; e < 2; ++e, a += rows_.step()) {
          const Floats w = decoder_.At(x, bit + 16 * e) * scale - less;
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) now[r] += w * VectorAt(a + r * 16);
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sums[r][g][part] = now[r];
  }

  // A run's sums by columns g to g + Together, and the same columns plus 8.
  template <int R>
  void Pieces(const Run& run, int part, int g, Floats (*sums)[8][kParts]) {
    constexpr int G = Together<R>();
    Floats now[G][R] = {}, taken[R] = {};
    for (int64_t piece = run.begin; piece < run.end; ++piece) {
      const char* from = tile_.codes + piece * 512 + g * 64 + part * kVector;
      Words x[G];
      for (int i = 0; i < G; ++i) {
        std::memcpy(&x[i], from + i * 64, kVector);
        x[i] = Codes::Prepare(x[i]);
      }
      const float* a[R];
      for (int r = 0; r < R; ++r) a[r] = rows_.At(run.first + r, piece, run.position) + part * kFloats;
      int bit = run.position / 2 * Codes::kBits;
      for (int n = 0; n < run.positions; n += 2, bit += Codes::kBits) {
        for (int e = 0; e < 2; ++e) {
          for (int i = 0; i < G; ++i) {
            const Floats w = decoder_.At(x[i], bit + 16 * e);
            for (int r = 0; r < R; ++r) now[i][r] += w * VectorAt(a[r] + (n + e) * rows_.step());
          }
        }
      }
      if (corrected_) {
        for (int r = 0; r < R; ++r)
          taken[r] +=
              VectorAt(rows_.At(run.first + r, piece, rows_.positions() + run.group) + part * kFloats);
      }
    }
    for (int i = 0; i < G; ++i) {
      const Floats scale = OfWords(blocks_.scale, run.upper, run.lower, g + i);
      if (corrected_) {
        const Floats correction = OfWords(blocks_.correction, run.upper, run.lower, g + i);
        for (int r = 0; r < R; ++r) now[i][r] -= correction * taken[r];
      }
      for (int r = 0; r < R; ++r) sums[r][g + i][part] += scale * now[i][r];
    }
  }

  void LoadBlocks(int64_t first, int64_t last) {
    last = Least(last, p_.blocks - 1);
    if (first == first_block_ && last == last_block_) return;
    first_block_ = first;
    last_block_ = last;
    const int count = static_cast<int>(last - first + 1) * 16;
    LanePattern lane;
    lane.kind = LaneKind::kUnit;
    lane.stride = 1;
    tile_.scale->load(blocks_.scale, tile_.scales + first * 16 * tile_.scale->size, lane, count);
    if (tile_.zeros != nullptr)
      tile_.scale->load(blocks_.correction, tile_.zeros + first * 16 * tile_.scale->size, lane, count);
    for (int i = 0; i < count; ++i) {
      blocks_.scale[i] *= Codes::kUnit;
      const float zero = tile_.zeros != nullptr ? blocks_.correction[i] : p_.zero;
      blocks_.correction[i] = zero / Codes::kUnit - Codes::kMiddle;
    }
  }

  const PackedProgram& p_;
  const PackedRows& rows_;
  const PackedTile& tile_;
  const Codes decoder_;
  bool corrected_;
  int64_t first_block_ = -1, last_block_ = -1;  // the blocks whose scales are loaded
  Blocks blocks_;
};

template <typename Codes>
void SumsOf(const PackedProgram& packed, const PackedRows& rows, const PackedTile& tile, int columns,
            float* acc, int64_t acc_row) {
  Sums<Codes> sums(packed, rows, tile);
  int first = 0;
#if defined(__AVX512F__)
  for (; rows.rows() - first >= 16; first += 16) sums.template Add<16>(first, columns, acc, acc_row);
#endif
#if defined(__AVX2__)
  for (; rows.rows() - first >= 8; first += 8) sums.template Add<8>(first, columns, acc, acc_row);
#endif
  for (; rows.rows() - first >= 4; first += 4) sums.template Add<4>(first, columns, acc, acc_row);
  if (rows.rows() - first >= 2) {
    sums.template Add<2>(first, columns, acc, acc_row);
    first += 2;
  }
  if (rows.rows() > first) sums.template Add<1>(first, columns, acc, acc_row);
}

}  // namespace

PackedRows::PackedRows(const PackedProgram& packed, float* memory)
    : packed_(packed),
      memory_(memory),
      positions_(static_cast<int>(32 / packed.bits)),
      groups_(packed.groups),
      vectors_(positions_ + groups_) {}

void PackedRows::Arrange(const float* a, int64_t row, int rows, int64_t k) {
  rows_ = rows;
  const int64_t word = packed_.piece / 2;
  for (int r = 0; r < rows; ++r) {
    for (int64_t piece = 0; piece < packed_.pieces; ++piece) {
      float* to = memory_ + (piece * vectors_ * rows + r) * 16;
      const float* from = a + r * row + piece * packed_.piece;
      float rest[256 / 2];
      if (const int64_t there = k - piece * packed_.piece; there < packed_.piece) {
        for (int64_t i = 0; i < packed_.piece; ++i) rest[i] = i < there ? from[i] : 0.0f;
        from = rest;
      }
      for (int n = 0; n < positions_; ++n) {
        for (int lane = 0; lane < 16; ++lane)
          to[n * step() + lane] = from[lane / 2 % 2 * word + n / 2 * 8 + lane / 4 * 2 + n % 2];
      }
      const int count = positions_ / groups_;
      for (int group = 0; group < groups_; ++group) {
        for (int lane = 0; lane < 16; ++lane) {
          float sum = 0;
          for (int n = 0; n < count; ++n) sum += to[(group * count + n) * step() + lane];
          to[(positions_ + group) * step() + lane] = sum;
        }
      }
    }
  }
}

void PackedSums(const PackedProgram& packed, const PackedRows& rows, const PackedTile& tile, int columns,
                float* acc, int64_t acc_row) {
  switch (packed.type) {
    case PackedType::kU2: return SumsOf<Decoder<2, 0>>(packed, rows, tile, columns, acc, acc_row);
    case PackedType::kU4: return SumsOf<Decoder<4, 0>>(packed, rows, tile, columns, acc, acc_row);
    case PackedType::kU8: return SumsOf<Decoder<8, 0>>(packed, rows, tile, columns, acc, acc_row);
    case PackedType::kE4M3: return SumsOf<Decoder<8, 3>>(packed, rows, tile, columns, acc, acc_row);
    case PackedType::kE5M2: return SumsOf<Decoder<8, 2>>(packed, rows, tile, columns, acc, acc_row);
    case PackedType::kE2M1: return SumsOf<Decoder<4, 1>>(packed, rows, tile, columns, acc, acc_row);
    case PackedType::kNone: break;
  }
}

}  // namespace rondo::host::RONDO_ISA
