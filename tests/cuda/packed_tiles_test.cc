// The addresses at which matmuls by packed weights read shared memory, lane by lane. Boxes of a stage are
// copied as TMA does, and the numbers that each lane reads for its fragments are compared with the format of
// core/packed_weights.h.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "compiler/codegen/cuda/device/packed_tiles_layout.h"
#include "core/packed_weights.h"

namespace rondo::cuda {
namespace {

// A matrix of columns x k numbers with random bytes.
struct Drawn {
  explicit Drawn(const PackedTiles& m) : shape{m.columns, m.k, m.format.block, m.format.bits} {
    std::mt19937 random(1);
    codes.resize(static_cast<size_t>(shape.bytes()));
    for (uint8_t& byte : codes) byte = static_cast<uint8_t>(random());
    scales.resize(static_cast<size_t>(shape.scales()));
    for (uint16_t& scale : scales) scale = static_cast<uint16_t>(random());
  }
  uint32_t Code(int64_t row, int64_t at) const {
    const auto bit = static_cast<size_t>(shape.BitAt(row, at));
    return codes[bit / 8] >> bit % 8 & ((1u << shape.bits) - 1);
  }
  PackedShape shape;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales;
};

// Copies `tiles` lines of `bytes` from lines that are `pitch` apart. Lines after the last are 0.
void CopyBox(const void* from, int64_t first_line, int64_t lines, int64_t pitch, int64_t at, int tiles,
             int bytes, uint8_t* to) {
  for (int t = 0; t < tiles; ++t) {
    if (first_line + t >= lines) continue;
    std::memcpy(to + t * bytes, static_cast<const uint8_t*>(from) + (first_line + t) * pitch + at,
                static_cast<size_t>(bytes));
  }
}

// One stage: step `step` of K for the columns from n on, of every matrix.
std::vector<uint8_t> Stage(const PackedTiles& m, const Drawn& drawn, int n, int step) {
  std::vector<uint8_t> stage(static_cast<size_t>(m.stage()));
  for (int j = 0; j < m.b_count; ++j) {
    for (int r = 0; r < m.tile_codes(); r += m.code_run())
      CopyBox(drawn.codes.data(), n / 16, drawn.shape.tiles(), drawn.shape.pieces() * 512,
              step * m.tile_codes() + r, m.n / 16, m.code_run(), stage.data() + m.codes_box(j, r));
    CopyBox(drawn.scales.data(), n / 16, drawn.shape.tiles(), drawn.shape.blocks() * 32,
            step * m.stage_k / m.format.block * 32, m.n / 16, m.tile_scales(),
            stage.data() + m.scales_box(j));
  }
  return stage;
}

// The number of wrong values that lane `lane` of warp `warp` reads from half `half`.
int Wrong(const PackedTiles& m, const Drawn& drawn, const std::vector<uint8_t>& stage, int n, int step,
          int warp, int lane, int half) {
  int wrong = 0;
  const int g = lane / 4, t = lane % 4, word = 8 / m.format.bits;
  for (int s = 0; s < m.half_k() / 16; ++s) {
    for (int f = 0; f < 4; ++f) {
      const int64_t row = n + warp % (m.n / 16) * 16 + g + f % 2 * 8;
      const int64_t k = step * m.stage_k + half * m.half_k() + 16 * s + 8 * (f / 2) + 2 * t;
      if (row >= m.columns) continue;
      uint32_t words;
      std::memcpy(&words, &stage[m.tile_at(warp) + m.pair_at(half, s / word) + lane * 16 + f % 2 * 4], 4);
      const int at = m.format.bits * (s % word * 2 + f / 2);
      for (int e = 0; e < 2; ++e)
        wrong += (words >> (at + 16 * e) & ((1u << m.format.bits) - 1)) != drawn.Code(row, k + e);
      const int blocks = m.format.block < m.half_k() ? m.half_k() / m.format.block : 1;
      uint16_t scale;
      std::memcpy(
          &scale,
          &stage[m.scales_at(warp) + m.block_at(half, s * blocks / (m.half_k() / 16)) + g * 4 + f % 2 * 2],
          2);
      wrong += scale != drawn.scales[static_cast<size_t>(drawn.shape.ScaleAt(row, k))];
    }
  }
  return wrong;
}

TEST(PackedTiles, EveryLaneFindsItsNumbersAndScales) {
  for (int bits : {2, 4, 8}) {
    for (int stage_k : {64, 128}) {
      for (int block : {16, 32, 64, 128, 256}) {
        for (int b_count : {1, 2, 4}) {
          PackedTiles m = {};
          m.m = b_count == 1 ? 32 : 16;
          m.n = b_count == 4 ? 16 : 64 * b_count;  // with four matrices, all share one warpgroup
          m.stage_k = stage_k;
          m.columns = 216;
          m.k = 512;
          m.b_count = b_count;
          m.format.bits = bits;
          m.format.block = block;
          m.format.scale_bytes = 2;
          if (m.half_k() * bits < 128) continue;
          const Drawn drawn(m);
          int wrong = 0;
          for (int n = 0; n < m.columns; n += m.n) {
            for (int step = 0; step < m.k / stage_k; ++step) {
              const std::vector<uint8_t> stage = Stage(m, drawn, n, step);
              for (int warp = 0; warp < m.groups() * 4; ++warp)
                for (int lane = 0; lane < 32; ++lane)
                  for (int half = 0; half < 2; ++half)
                    wrong += Wrong(m, drawn, stage, n, step, warp, lane, half);
            }
          }
          EXPECT_EQ(wrong, 0) << bits << " bits, stages of " << stage_k << ", blocks of " << block;
        }
      }
    }
  }
}

TEST(PackedTiles, BoxesLieAtMultiplesOf128Bytes) {
  for (int bits : {2, 4, 8}) {
    for (int stage_k : {64, 128}) {
      for (int n : {16, 32, 48, 64, 128, 192, 256}) {
        PackedTiles m = {};
        m.m = 96;
        m.n = n;
        m.stage_k = stage_k;
        m.k = 1024;
        m.b_count = n < 64 ? 4 : 1;
        m.format.bits = bits;
        m.format.block = 128;
        m.format.scale_bytes = 2;
        m.format.zeros = 1;
        for (int j = 0; j < m.b_count; ++j) {
          for (int r = 0; r < m.tile_codes(); r += m.code_run()) EXPECT_EQ(m.codes_box(j, r) % 128, 0);
          EXPECT_EQ(m.scales_box(j) % 128, 0);
          EXPECT_EQ(m.zeros_box(j) % 128, 0);
          EXPECT_GE(m.stage(), m.zeros_box(j) + m.n / 16 * m.tile_scales());
        }
      }
    }
  }
}

}  // namespace
}  // namespace rondo::cuda
