// Matmuls of 8-bit integers (Variant::kBytes): rows of A packed as unsigned bytes, columns of B in place, and
// dot products along k, exact in 32 bits.
//
// The instructions multiply unsigned by signed bytes. Signed bytes of A are packed plus 128, and unsigned
// bytes of B are read minus 128; both flip the top bit. The sums are then corrected by 128 times the sum of a
// row (known when the row is packed) and of a column (computed by one more row of A, which is all 128). GCC
// 12 warns about its own intrinsics, whose results begin as "undefined".
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/matmul/byte_sums.h"
#include "drivers/host/reduction/extremes.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace rondo::host::RONDO_ISA {
namespace {

#if defined(__AVX2__)

// Adds the two 128-bit halves of a vector: four sums next to each other.
inline __m128i Fold(__m256i x) {
  return _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}
inline __m256i SumOfFour(const __m256i* s) {
  const __m256i p = _mm256_add_epi32(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
  const __m256i q = _mm256_add_epi32(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
  return _mm256_add_epi32(_mm256_unpacklo_epi64(p, q), _mm256_unpackhi_epi64(p, q));
}
inline void StoreSums(__m128i sums, int32_t* to) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), sums); }

#endif

#if defined(__AVX512BW__)

namespace widened {
#include "drivers/host/matmul/byte_vectors_512.inc"
constexpr bool kFours = false;
inline Sums Dot(Sums sum, Bytes a, Bytes b) {
  const Sums low = _mm512_madd_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(a)),
                                     _mm512_cvtepi8_epi16(_mm512_castsi512_si256(b)));
  const Sums high = _mm512_madd_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(a, 1)),
                                      _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(b, 1)));
  return _mm512_add_epi32(sum, _mm512_add_epi32(low, high));
}
inline Sums DotFours(Sums sum, Bytes a, Bytes b) {
  const Sums even = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(0xff)),
                                      _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
  const Sums odd = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
  return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
}
inline Sums AddPairs(Sums sum, Bytes a, Bytes b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
#include "drivers/host/convolution/byte_channels.inc"
#include "drivers/host/matmul/byte_blocks.inc"
#include "drivers/host/matmul/byte_pairs.inc"
constexpr ChannelInstructions kChannels = {SumChannels, Interleave, kStep, 4};
constexpr MultiplyBytes kMultiply = TileOfPairs;
constexpr ReadsWithinRow kReadsWithinRow = PairsReadWithinRow;
constexpr MultiplyLines kMultiplyLines = LinesOfPairs;
constexpr WidenBytes kWiden = WidenAll;
constexpr SumLines kSumLines = SumWideLines;
}  // namespace widened

#pragma GCC push_options
#pragma GCC target("avx512vnni")
namespace vnni {
#include "drivers/host/matmul/byte_vectors_512.inc"
constexpr bool kFours = true;
inline Sums Dot(Sums sum, Bytes a, Bytes b) { return _mm512_dpbusd_epi32(sum, a, b); }
inline Sums DotFours(Sums sum, Bytes a, Bytes b) { return Dot(sum, a, b); }
inline Sums AddPairs(Sums sum, Bytes a, Bytes b) { return _mm512_dpwssd_epi32(sum, a, b); }
#include "drivers/host/convolution/byte_channels.inc"
#include "drivers/host/matmul/byte_blocks.inc"
constexpr ChannelInstructions kChannels = {SumChannels, Interleave, kStep, 4};
constexpr MultiplyBytes kMultiply = Tile;
constexpr ReadsWithinRow kReadsWithinRow = TileReadsWithinRow;
constexpr MultiplyLines kMultiplyLines = nullptr;
constexpr WidenBytes kWiden = nullptr;
constexpr SumLines kSumLines = nullptr;
}  // namespace vnni
#pragma GCC pop_options

bool HasVnni() { return __builtin_cpu_supports("avx512vnni"); }

#elif defined(__AVX2__)

namespace widened {
#include "drivers/host/matmul/byte_vectors_256.inc"
constexpr bool kFours = false;
inline Sums Dot(Sums sum, Bytes a, Bytes b) {
  const Sums low = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)),
                                     _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b)));
  const Sums high = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm256_extracti128_si256(a, 1)),
                                      _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1)));
  return _mm256_add_epi32(sum, _mm256_add_epi32(low, high));
}
#include "drivers/host/convolution/channel_pairs.inc"
#include "drivers/host/matmul/byte_blocks.inc"
#include "drivers/host/matmul/byte_pairs.inc"
constexpr ChannelInstructions kChannels = {SumChannelPairs, InterleavePairs, kChannelStep, 2};
constexpr MultiplyBytes kMultiply = TileOfPairs;
constexpr ReadsWithinRow kReadsWithinRow = PairsReadWithinRow;
constexpr MultiplyLines kMultiplyLines = LinesOfPairs;
constexpr WidenBytes kWiden = WidenAll;
constexpr SumLines kSumLines = SumWideLines;
}  // namespace widened

#pragma GCC push_options
#pragma GCC target("avxvnni")
namespace vnni {
#include "drivers/host/matmul/byte_vectors_256.inc"
constexpr bool kFours = true;
inline Sums Dot(Sums sum, Bytes a, Bytes b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
inline Sums DotFours(Sums sum, Bytes a, Bytes b) { return Dot(sum, a, b); }
inline Sums AddPairs(Sums sum, Bytes a, Bytes b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }
#include "drivers/host/convolution/byte_channels.inc"
#include "drivers/host/matmul/byte_blocks.inc"
constexpr ChannelInstructions kChannels = {SumChannels, Interleave, kStep, 4};
constexpr MultiplyBytes kMultiply = Tile;
constexpr ReadsWithinRow kReadsWithinRow = TileReadsWithinRow;
constexpr MultiplyLines kMultiplyLines = nullptr;
constexpr WidenBytes kWiden = nullptr;
constexpr SumLines kSumLines = nullptr;
}  // namespace vnni
#pragma GCC pop_options

bool HasVnni() { return __builtin_cpu_supports("avxvnni"); }

#else

namespace widened {
void Tile(const uint8_t* a, int64_t a_row, int rows, const char* b, int64_t b_step, int columns, int64_t k,
          uint8_t flip, int32_t* acc, int64_t acc_row) {
  for (int j = 0; j < columns; ++j) {
    const char* column = b + j * b_step;
    for (int m = 0; m < rows; ++m) {
      const uint8_t* row = a + m * a_row;
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += row[i] * static_cast<int8_t>(static_cast<uint8_t>(column[i]) ^ flip);
      acc[m * acc_row + j] = sum;
    }
  }
}
bool TileReadsWithinRow(int, int, int64_t) { return true; }
constexpr int kStep = 16;
void Interleave(const uint8_t* const* from, const int64_t* step, int columns, int channels, uint8_t flip,
                uint8_t* to, int64_t to_step) {
  for (int column = 0; column < columns; ++column, to += to_step) {
    for (int t = 0; t < 4; ++t) {
      for (int c = 0; c < Least(channels, kStep); ++c)
        to[4 * c + t] = static_cast<uint8_t>(from[t][column * step[t] + c] ^ flip);
    }
  }
}
void SumChannels(const ChannelStrip& s) {
  for (int p = 0; p < s.points; ++p) {
    int32_t* acc = s.acc + p * s.acc_row;
    for (int c = 0; c < kStep; ++c) {
      int32_t sum = 0;
      for (int x = 0; x < s.taps; ++x) {
        const uint8_t* from = s.columns + p * s.point_step + x * s.tap_step + 4 * c;
        const int64_t weight = x * s.fours * 4 * kStep + 4 * c;
        for (int t = 0; t < 4 * s.fours; ++t) {
          const int64_t at = t / 4 * 4 * kStep + t % 4;
          const uint8_t low = s.weights[weight + at];
          sum += from[at] * (s.high == nullptr ? static_cast<int8_t>(low)
                                               : static_cast<int16_t>(s.high[weight + at] << 8 | low));
        }
      }
      acc[c] = sum;
    }
  }
}
constexpr ChannelInstructions kChannels = {SumChannels, Interleave, kStep, 4};
constexpr MultiplyBytes kMultiply = Tile;
constexpr ReadsWithinRow kReadsWithinRow = TileReadsWithinRow;
constexpr MultiplyLines kMultiplyLines = nullptr;
constexpr WidenBytes kWiden = nullptr;
constexpr SumLines kSumLines = nullptr;
}  // namespace widened
namespace vnni = widened;
bool HasVnni() { return false; }

#endif

// Copies k bytes with flipped bits, and zeros after them up to `row`, a number of whole vectors.
inline void CopyRow(const char* from, int64_t k, uint8_t flip, uint8_t* to, int64_t row) {
#if defined(__AVX512BW__)
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip));
  for (int64_t at = 0; at < row; at += 64) {
    const int64_t left = k - at;
    const uint64_t some = left >= 64 ? ~uint64_t{0} : left <= 0 ? 0 : (uint64_t{1} << left) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(some, from + at);
    _mm512_storeu_si512(to + at, _mm512_maskz_mov_epi8(some, _mm512_xor_si512(x, flips)));
  }
#else
  std::memcpy(to, from, static_cast<size_t>(k));
  for (int64_t i = 0; flip != 0 && i < k; ++i) to[i] ^= flip;
  std::memset(to + k, 0, static_cast<size_t>(row - k));
#endif
}

// Copies n bytes; n is often small.
inline void CopyBytes(const char* from, int64_t n, uint8_t* to) {
#if defined(__AVX512BW__)
  for (int64_t at = 0; at < n; at += 64) {
    const uint64_t some = n - at >= 64 ? ~uint64_t{0} : (uint64_t{1} << (n - at)) - 1;
    _mm512_mask_storeu_epi8(to + at, some, _mm512_maskz_loadu_epi8(some, from + at));
  }
#else
  // The end of a run is copied together with some bytes before it, if there are any: this needs no call and
  // no loop.
  const auto both_ends = [&](auto whole) {
    constexpr int64_t kSize = sizeof(whole);
    for (int64_t at = 0; at + kSize <= n; at += kSize) std::memcpy(to + at, from + at, sizeof(whole));
    std::memcpy(to + n - kSize, from + n - kSize, sizeof(whole));
  };
  struct Sixteen {
    uint64_t all[2];
  };
  if (n >= 16) return both_ends(Sixteen());
  if (n >= 8) return both_ends(uint64_t{0});
  if (n >= 4) return both_ends(uint32_t{0});
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(from[i]);
#endif
}

inline int64_t SumRow(const uint8_t* from, int64_t k) {
#if defined(__AVX512BW__)
  __m512i sum = _mm512_setzero_si512();
  for (int64_t at = 0; at < k; at += 64) {
    const uint64_t some = k - at >= 64 ? ~uint64_t{0} : (uint64_t{1} << (k - at)) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(some, from + at);
    sum = _mm512_add_epi64(sum, _mm512_sad_epu8(x, _mm512_setzero_si512()));
  }
  return _mm512_reduce_add_epi64(sum);
#elif defined(__AVX2__)
  __m256i sum = _mm256_setzero_si256();
  int64_t at = 0;
  for (; at + 32 <= k; at += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    sum = _mm256_add_epi64(sum, _mm256_sad_epu8(x, _mm256_setzero_si256()));
  }
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  int64_t all = _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
  for (; at < k; ++at) all += from[at];
  return all;
#else
  uint32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += from[i];
  return sum;
#endif
}

// The sums of the k bytes of each of `rows` rows, `step` bytes apart.
void SumRows(const uint8_t* from, int64_t step, int64_t rows, int64_t k, int64_t* sums) {
  int64_t r = 0;
#if defined(__AVX512BW__)
  // Sums four rows as 16-bit numbers next to each other, which one addition sums together.
  constexpr int64_t kMost = 256;
  for (; k <= kMost && r + 4 <= rows; r += 4) {
    __m512i four = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int i = 3; i >= 0; --i) {
      const uint8_t* const row = from + (r + i) * step;
      __m512i sum = _mm512_setzero_si512();
      for (int64_t at = 0; at < k; at += 64) {
        const uint64_t some = k - at >= 64 ? ~uint64_t{0} : (uint64_t{1} << (k - at)) - 1;
        const __m512i x = _mm512_maskz_loadu_epi8(some, row + at);
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(x, _mm512_setzero_si512()));
      }
      four = _mm512_or_si512(_mm512_slli_epi64(four, 16), sum);
    }
    const __m256i two = _mm256_add_epi16(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64(four, 1));
    const __m128i one = _mm_add_epi16(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
    const auto all =
        static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_add_epi16(one, _mm_unpackhi_epi64(one, one))));
    for (int i = 0; i < 4; ++i) sums[r + i] = static_cast<int64_t>(all >> (16 * i) & 0xffff);
  }
#endif
  for (; r < rows; ++r) sums[r] = SumRow(from + r * step, k);
}

// Row i of `to` becomes column i of the k rows of n bytes at `from`.
void TransposeBytes(const char* from, int64_t step, int64_t k, int n, char* to, int64_t to_step) {
  constexpr int kAtOnce = 8;
  int64_t at = 0;
  for (; at + kAtOnce <= k; at += kAtOnce, from += kAtOnce * step, to += kAtOnce) {
    for (int i = 0; i < n; ++i) {
      char some[kAtOnce];
#pragma GCC unroll 8
      for (int j = 0; j < kAtOnce; ++j) some[j] = from[j * step + i];
      std::memcpy(to + i * to_step, some, kAtOnce);
    }
  }
  for (; at < k; ++at, from += step, ++to) {
    for (int i = 0; i < n; ++i) to[i * to_step] = from[i];
  }
}

// One part in one launch.
class Product {
 public:
  Product(const BytesPart& part, Worker& w)
      : part_(part),
        w_(w),
        packed_(reinterpret_cast<uint8_t*>(w.scratch + part.left.at)),
        left_(packed_),
        row_sums_(reinterpret_cast<int64_t*>(w.scratch + part.row_sums_at)),
        pieces_(reinterpret_cast<WidePiece*>(w.scratch + part.lines.pieces_at)),
        sums_(part, w) {}

  // Packs rows [row, row + rows) of group m, and a row of 128s after them if columns are summed.
  void PackRows(int64_t* pos, int64_t row, int64_t rows) {
    const Nest& nest = part_.nest;
    const Access& access = *part_.left.load;
    if (part_.lines.how.lines > 0) return WidenRows(pos, row, rows);
    if (part_.in_place) return FindRows(pos, row, rows);
    const bool whole = part_.in_runs && part_.runs == 1 && part_.run_at[0] == 0 && access.num_guards == 0;
    Decode(nest, nest.first[1], nest.first[2], row, pos);
    if (part_.transposed_step != 0) TransposeRows(Pointer(access, w_, BaseOf(access, pos)), rows);
    for (int64_t r = 0; r < rows && !Stopped(w_); ++r) {
      uint8_t* to = packed_ + r * part_.left.row;
      if (whole) {
        CopyRow(Pointer(access, w_, BaseOf(access, pos)), K(), part_.left_flip, to, part_.left.row);
      } else if (part_.transposed_step == 0) {
        part_.in_runs ? PackRuns(pos, to) : PackEach(pos, to);
        for (int64_t i = 0; part_.left_flip != 0 && i < K(); ++i) to[i] ^= part_.left_flip;
      }
      if (r >= cleared_) std::memset(to + K(), 0, static_cast<size_t>(part_.left.row - K()));
      Advance(nest, nest.first[1], nest.first[2], pos);
    }
    if (rows > cleared_) cleared_ = rows;
    if (part_.sum_rows) SumRows(packed_, part_.left.row, rows, K(), row_sums_);
    if (part_.left_flip == 0) return;
    uint8_t* last = packed_ + rows * part_.left.row;
    std::memset(last, 128, static_cast<size_t>(K()));
    std::memset(last + K(), 0, static_cast<size_t>(part_.left.row - K()));
  }

  // Multiplies all rows by the `n` columns of the tile at pos.
  void Multiply(int64_t* pos, int64_t rows, int n) {
    for (int j = 0; j < part_.num_rhs && !Stopped(w_); ++j) {
      if (part_.row_sum[j]) continue;
      const RhsProgram& rhs = part_.rhs[j];
      const char* b = Pointer(*rhs.by_n, w_, BaseOf(*rhs.by_n, pos));
      int64_t step = rhs.by_n->lane.stride;
      if (part_.lines.how.lines > 0) {
        const ByteColumns columns = {b, step, part_.lines.k_step[j], n, part_.lines.is_unsigned[j]};
        part_.lines.multiply(part_.lines.how, pieces_, piece_count_, columns, Acc(j), part_.acc_row);
        continue;
      }
      if (!rhs.k_unit) {
        b = PackColumns(*rhs.by_n, rhs.k_step, pos, n);
        step = part_.left.row;
      }
      const int all = static_cast<int>(rows) + (part_.left_flip != 0 ? 1 : 0);
      const int64_t left_row = part_.in_place ? part_.left_row : part_.left.row;
      part_.multiply(left_, left_row, all, b, step, n, K(), part_.right_flip[j], Acc(j), part_.acc_row);
    }
  }

  // Runs the epilogue of rows [row, row + rows) over the n lanes of the tile at pos.
  void Finish(int64_t* pos, int64_t row, int64_t rows, int n) {
    sums_.LoadCorrections(pos, n);
    AddFlipped(rows, n);
    sums_.RunEpilogue(pos, row, rows, n, part_.sum_rows ? row_sums_ : nullptr);
  }

 private:
  int64_t K() const { return part_.nest.points[3]; }
  int32_t* Acc(int j) const { return sums_.Acc(j); }

  // Converts the rows to lines: the rows of each line of the input are one piece.
  void WidenRows(int64_t* pos, int64_t row, int64_t rows) {
    const Nest& nest = part_.nest;
    const ByteLines& lines = part_.lines;
    const int inner = nest.first[2] - 1;
    auto* to = reinterpret_cast<int16_t*>(w_.scratch + lines.lines_at);
    Decode(nest, nest.first[1], nest.first[2], row, pos);
    piece_count_ = 0;
    for (int64_t r = 0; r < rows && !Stopped(w_);) {
      const int64_t points = Least(rows - r, nest.extent[inner] - pos[inner]);
      WidenPiece(pos, points, to);
      WidePiece& piece = pieces_[piece_count_++];
      piece = {to, static_cast<int>(points)};
      if (part_.sum_rows)
        lines.sum(lines.how, piece, reinterpret_cast<int16_t*>(w_.scratch + lines.added_at), row_sums_ + r);
      to += lines.how.lines * lines.how.line_step;
      r += points;
      pos[inner] += points - 1;
      Advance(nest, nest.first[1], nest.first[2], pos);
    }
  }

  // Writes the lines of `points` points from pos on; absent elements get the operand's value.
  void WidenPiece(const int64_t* pos, int64_t points, int16_t* to) {
    const ByteLines& lines = part_.lines;
    const Access& access = *part_.left.load;
    const auto* from = reinterpret_cast<const uint8_t*>(Pointer(access, w_, BaseOf(access, pos)));
    int64_t at[kMaxLoops];
    for (int g = 0; g < access.num_guards; ++g) {
      const GuardTest& guard = access.guards[g];
      at[g] = guard.offset;
      for (int i = 0; i < guard.loops; ++i) at[g] += guard.step[i] * pos[guard.loop[i]];
    }
    const int64_t run = part_.tap_run, step = lines.guard_points;
    for (int64_t tap = 0; tap < part_.taps.count; tap += lines.taps, to += lines.how.line_step) {
      bool present = true;
      for (int g = 0; g < access.num_guards; ++g) {
        const int64_t c = at[g] + part_.taps.coordinate[g * part_.taps.count + tap];
        present = present && (g == lines.guard || (c >= 0 && c < access.guards[g].extent));
      }
      const uint8_t* const line = from + part_.taps.at[tap];
      // Counts taps if they are contiguous, else points; those from `first` to `last` are present.
      int64_t count = lines.apart ? points : (points - 1) * step + lines.taps, first = 0,
              last = present ? count : 0;
      if (lines.guard >= 0 && present) {
        const int64_t c = at[lines.guard] + part_.taps.coordinate[lines.guard * part_.taps.count + tap];
        const int64_t each = lines.apart ? step : 1, extent = access.guards[lines.guard].extent;
        // How many coordinates, each further than the one before, are below.
        const auto reached = [&](int64_t coordinate) {
          return coordinate <= c ? 0 : Least((coordinate - c + each - 1) / each, count);
        };
        first = reached(0);
        last = reached(extent);
      }
      if (lines.guard < 0 && !lines.apart) {  // points may be less than a tap apart
        const int64_t n = (points - 1) * lines.point_bytes + lines.how.length;
        present ? lines.widen(line, n, lines.is_signed, to) : Absent(n, to);
        continue;
      }
      Absent(first * run, to);
      if (!lines.apart) {
        lines.widen(line + first * run, (last - first) * run, lines.is_signed, to + first * run);
      } else {
        for (int64_t m = first; m < last; ++m)
          lines.widen(line + m * lines.point_bytes, run, lines.is_signed, to + m * run);
      }
      Absent((count - last) * run, to + last * run);
    }
  }
  void Absent(int64_t n, int16_t* to) const {
    const int absent = part_.lines.is_signed ? static_cast<int8_t>(part_.absent) : part_.absent;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(absent);
  }

  // Packs rows that are contiguous along m.
  void TransposeRows(const char* from, int64_t rows) {
    for (int64_t k = 0; k < K() && !Stopped(w_); ++k, from += part_.transposed_step) {
      for (int64_t r = 0; r < rows; ++r)
        packed_[r * part_.left.row + k] = static_cast<uint8_t>(from[r]) ^ part_.left_flip;
    }
  }

  // Finds the same rows in place.
  void FindRows(int64_t* pos, int64_t row, int64_t rows) {
    const Access& access = *part_.left.load;
    Decode(part_.nest, part_.nest.first[1], part_.nest.first[2], row, pos);
    left_ = reinterpret_cast<const uint8_t*>(Pointer(access, w_, BaseOf(access, pos)));
    if (part_.sum_rows) SumRows(left_, part_.left_row, rows, K(), row_sums_);
  }

  // If no tap is absent, contiguous taps are copied as one run.
  void PackRuns(const int64_t* pos, uint8_t* to) {
    const Access& access = *part_.left.load;
    const char* from = Pointer(access, w_, BaseOf(access, pos));
    int64_t at[kMaxLoops];
    bool all = true;
    for (int g = 0; g < access.num_guards; ++g) {
      const GuardTest& guard = access.guards[g];
      at[g] = guard.offset;
      for (int i = 0; i < guard.loops; ++i) at[g] += guard.step[i] * pos[guard.loop[i]];
      all = all && at[g] + guard.least >= 0 && at[g] + guard.greatest < guard.extent;
    }
    if (all) {
      for (int64_t r = 0; r < part_.runs; ++r) {
        CopyBytes(from + part_.run_at[r], part_.run_bytes[r], to);
        to += part_.run_bytes[r];
      }
      return;
    }
    const int64_t run = part_.tap_run;
    for (int64_t tap = 0; tap < part_.taps.count; ++tap, to += run) {
      bool present = true;
      for (int g = 0; g < access.num_guards; ++g) {
        const int64_t c = at[g] + part_.taps.coordinate[g * part_.taps.count + tap];
        present = present && c >= 0 && c < access.guards[g].extent;
      }
      if (present) {
        CopyBytes(from + part_.taps.at[tap], run, to);
      } else {
        std::memset(to, part_.absent, static_cast<size_t>(run));
      }
    }
  }

  void PackEach(int64_t* pos, uint8_t* to) {
    const Nest& nest = part_.nest;
    int64_t* lanes = reinterpret_cast<int64_t*>(w_.scratch + part_.lanes_at);
    int n = DecodeTile(nest, part_.left.tiling, 0, pos);
    for (int64_t t = 0;;) {
      LoadLanes(*part_.left.load, w_, pos, n, lanes);
      for (int i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(lanes[i]);
      if (++t == part_.left.tiling.tiles || Stopped(w_)) break;
      to += n;
      n = NextTile(nest, part_.left.tiling, pos);
    }
    for (int d = nest.first[3]; d < nest.first[4]; ++d) pos[d] = 0;
  }

  // Makes columns contiguous, for a B whose k is not. `step`: bytes from one k to the next, if they are
  // evenly spaced.
  const char* PackColumns(const Access& access, int64_t step, int64_t* pos, int n) {
    const Nest& nest = part_.nest;
    char* columns = w_.scratch + part_.columns_at;
    int64_t* lanes = reinterpret_cast<int64_t*>(w_.scratch + part_.lanes_at);
    if (step > 0 && access.plain && access.lane.kind == LaneKind::kUnit) {
      TransposeBytes(Pointer(access, w_, BaseOf(access, pos)), step, K(), n, columns, part_.left.row);
      return columns;
    }
    for (int64_t k = 0; k < K(); ++k) {
      LoadLanes(access, w_, pos, n, lanes);
      for (int i = 0; i < n; ++i) columns[i * part_.left.row + k] = static_cast<char>(lanes[i]);
      Advance(nest, nest.first[3], nest.first[4], pos);
    }
    return columns;
  }

  // Corrects each column by what the flipped bits of A have added.
  void AddFlipped(int64_t rows, int n) {
    if (part_.left_flip == 0) return;
    for (int j = 0; j < part_.num_rhs; ++j) sums_.Correct(j, Acc(j) + rows * part_.acc_row, n);
  }

  const BytesPart& part_;
  Worker& w_;
  uint8_t* const packed_;
  int64_t cleared_ = 0;  // rows that are 0 after k
  const uint8_t* left_;  // the rows, packed or in place
  int64_t* const row_sums_;
  WidePiece* const pieces_;  // the rows, as lines
  int piece_count_ = 0;
  ByteSums sums_;
};

}  // namespace

void FillBytes(Engine* engine) {
  engine->bytes_widened = {widened::kMultiply,      widened::kReadsWithinRow, widened::kChannels,
                           widened::kMultiplyLines, widened::kWiden,          widened::kSumLines};
  engine->bytes = HasVnni() ? ByteInstructions{vnni::kMultiply,      vnni::kReadsWithinRow, vnni::kChannels,
                                               vnni::kMultiplyLines, vnni::kWiden,          vnni::kSumLines}
                            : engine->bytes_widened;
}

void RunBytes(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const BytesPart& part = static_cast<const BytesPart&>(base);
  const Nest& nest = part.nest;
  const int64_t m = nest.points[1], tiles = part.tiling.tiles;
  const int64_t row_blocks = (m + part.block_rows - 1) / part.block_rows;
  Product product(part, w);
  BeginTape(part.epilogue, w);
  StartRange(w);
  int64_t pos[kMaxNest] = {};
  int64_t packed = -1;
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / tiles, row = block % row_blocks * part.block_rows;
    const int64_t rows = Least(part.block_rows, m - row);
    Decode(nest, 0, nest.first[1], block / row_blocks, pos);
    for (int d = nest.first[2]; d < nest.first[4]; ++d) pos[d] = 0;
    if (block != packed) product.PackRows(pos, row, rows);
    packed = block;
    for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    product.Multiply(pos, rows, n);
    product.Finish(pos, row, rows, n);
    TakeWritten(part, w, pos, row, rows, n);
  }
}

}  // namespace rondo::host::RONDO_ISA
