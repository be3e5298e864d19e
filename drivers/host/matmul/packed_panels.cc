#include "drivers/host/matmul/packed_panels.h"

namespace rondo::host::RONDO_ISA {
namespace {

typedef uint32_t Words __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef int32_t Signed __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

constexpr int64_t kMostBlocks = kPackedDepth / 16 + 1;  // blocks that kPackedDepth numbers can touch

// Sixteen columns: the places of their codes and scales, and the scales of some blocks.
struct Sixteen {
  int64_t row[kPackedColumns];
  alignas(64) float scale[kMostBlocks][kPackedColumns], zero[kMostBlocks][kPackedColumns];
};

bool AreTile(const Sixteen& columns) {
  for (int c = 0; c < kPackedColumns; ++c) {
    if (columns.row[c] != columns.row[0] + c) return false;
  }
  return columns.row[0] % 16 == 0;
}

// Loads the values of `access` for blocks [first, first + count) of the columns.
void LoadBlocks(const PackedProgram& p, const Access& access, const Worker& w, const Sixteen& columns,
                int64_t first, int64_t count, float (*out)[kPackedColumns]) {
  const char* const from = Pointer(access, w, 0);
  float values[kMostBlocks * 16];
  LanePattern lane;
  if (AreTile(columns)) {
    lane.kind = LaneKind::kUnit;
    lane.stride = 1;
    access.load(values, from + (columns.row[0] / 16 * p.blocks + first) * 16 * access.size, lane,
                static_cast<int>(count * 16));
    for (int64_t b = 0; b < count; ++b) {
      for (int c = 0; c < kPackedColumns; ++c) out[b][c] = values[b * 16 + c % 8 * 2 + c / 8];
    }
    return;
  }
  lane.kind = LaneKind::kStride;
  lane.stride = 16;
  for (int c = 0; c < kPackedColumns; ++c) {
    const int64_t row = columns.row[c];
    access.load(values,
                from + ((row / 16 * p.blocks + first) * 16 + row % 8 * 2 + row % 16 / 8) * access.size, lane,
                static_cast<int>(count));
    for (int64_t b = 0; b < count; ++b) out[b][c] = values[b];
  }
}

// The columns' words of a piece: [half of the piece][lane of the fragment][column].
void TakeWords(const PackedProgram& p, const char* codes, const Sixteen& columns, int64_t piece,
               uint32_t (*out)[kPackedColumns]) {
  for (int c = 0; c < kPackedColumns; ++c) {
    const int64_t row = columns.row[c];
    const char* from = codes + (row / 16 * p.pieces + piece) * 512 + row % 8 * 64 + row % 16 / 8 * 4;
    for (int at = 0; at < 8; ++at) std::memcpy(&out[at][c], from + at % 4 * 16 + at / 4 * 8, 4);
  }
}

Vector ValueOf(const PackedProgram& p, const Words& codes) {
  if (p.values == nullptr) return __builtin_convertvector(reinterpret_cast<const Signed&>(codes), Vector);
  Vector value;
  for (int e = 0; e < kWidth; ++e) value[e] = p.values[codes[e]];
  return value;
}

}  // namespace

void UnpackPanels(const PackedProgram& packed, int j, const Worker& w, int64_t base, int first, int columns,
                  int64_t k, int depth, float* out) {
  const PackedProgram& p = packed;
  const Access& access = *p.codes[j];
  const char* const codes = Pointer(access, w, 0);
  const int64_t word = p.piece / 2, first_block = k / p.block;
  const int pairs = static_cast<int>(16 / p.bits);
  for (int group = 0; group < columns; group += kPackedColumns) {
    Sixteen now;
    for (int c = 0; c < kPackedColumns; ++c) {
      const int column = Least(group + c, columns - 1);
      now.row[c] = (base + LaneOffset(access.lane, first + column)) / p.stride;
    }
    const int64_t blocks = (k + depth - 1) / p.block - first_block + 1;
    LoadBlocks(p, *p.scales[j], w, now, first_block, blocks, now.scale);
    if (p.zeros[j] != nullptr) LoadBlocks(p, *p.zeros[j], w, now, first_block, blocks, now.zero);
    for (int64_t piece = 0; piece * p.piece < depth; ++piece) {
      uint32_t words[8][kPackedColumns];
      TakeWords(p, codes, now, k / p.piece + piece, words);
      for (int i = 0; i < 2 * pairs; ++i) {  // eight numbers of one block
        const int half = i / pairs;
        const int64_t eight = piece * p.piece + half * word + i % pairs * 8;
        if (eight >= depth) break;
        const int64_t block = (k + eight) / p.block - first_block;
        const int bit = i % pairs * static_cast<int>(p.bits), some = static_cast<int>(depth - eight);
        for (int v = 0; v < kPackedColumns; v += kWidth) {
          const Vector scale = *reinterpret_cast<const Vector*>(now.scale[block] + v);
          const Vector zero = p.zeros[j] == nullptr ? p.zero - Vector{}
                                                    : *reinterpret_cast<const Vector*>(now.zero[block] + v);
          const int column = group + v;
          float* const to = out + (int64_t{column / kBlockColumns} * depth + eight) * kBlockColumns +
                            column % kBlockColumns;
          for (int n = 0; n < 8 && n < some; ++n) {
            const Words x = *reinterpret_cast<const Words*>(words[half * 4 + n / 2] + v);
            const Words code = (x >> static_cast<uint32_t>(bit + n % 2 * 16)) & p.mask;
            *reinterpret_cast<Vector*>(to + n * kBlockColumns) = (ValueOf(p, code) - zero) * scale;
          }
        }
      }
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
