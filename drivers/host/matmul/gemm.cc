// The packed matmul: a block of rows of A (packed once for many tiles of n) times panels of B, kLanes of k by
// kLanes of n at a time, in register blocks of kBlockRows by kBlockColumns. After K. Goto and R. van de
// Geijn, "Anatomy of high-performance matrix multiplication" (2008).
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/block_end.h"
#include "drivers/host/matmul/blocks.h"
#include "drivers/host/matmul/gemm_program.h"
#include "drivers/host/matmul/product.h"
#include "drivers/host/matmul/straight_epilogue.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Where the sums of register blocks go: to `acc`, or with `ending` through the epilogue to its result.
struct Sums {
  float* acc;
  int64_t acc_row;
  bool add;  // to those in acc
  const Ending* ending;
};

// Panels of `width` columns, `apart` floats from each to the next.
struct Panels {
  const float* first;
  int64_t width, apart;
  const float* after = nullptr;  // the first panel to be multiplied next, if they are the plan's

  const float* At(int64_t column) const { return first + column / width * apart + column % width; }
  // Floats from one vector of a register block to the next.
  int64_t VectorsApart() const { return width > kWidth ? kWidth : apart; }
};

// The sums of a block at `row` and `column` of the tile, whose first column of B is at `b`.
template <int kRows, int kVectors>
void MultiplyBlock(const float* a, const Panels& panels, const float* b, int depth, const Sums& sums,
                   bool ends, int64_t row, int64_t column) {
  constexpr bool kAlike = kBlockColumns == kStoredColumns;  // constants make the loop shorter
  const int64_t width = kAlike ? kBlockColumns : panels.width;
  const int64_t apart = kAlike ? kWidth : panels.VectorsApart();
  const int64_t acc_row = sums.acc_row;
  float* const acc = sums.acc + row * acc_row + column;
  Vector sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[m][v] = Vector{};
      if (sums.add) sum[m][v] = *reinterpret_cast<const Vector*>(acc + m * acc_row + v * kWidth);
    }
  }
  for (int k = 0; k < depth; ++k) {
    Vector x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) x[v] = *reinterpret_cast<const Vector*>(b + v * apart);
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m) {
      const float y = a[m * kLhsRow + k];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[m][v] += x[v] * y;
    }
    b += width;
  }
  if (ends) return StoreEnded(*sums.ending, row, column, sum);
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Vector*>(acc + m * acc_row + v * kWidth) = sum[m][v];
    }
  }
}

using BlockFn = void (*)(const float* a, const Panels& panels, const float* b, int depth, const Sums& sums,
                         bool ends, int64_t row, int64_t column);

template <int kRows, int kVectors>
constexpr BlockFn BlockOf() {
  if constexpr (kRows <= kBlockRows) {
    return MultiplyBlock<kRows, kVectors>;
  } else {
    return nullptr;
  }
}
// By the number of a panel's vectors with columns, then by rows.
#define RONDO_BLOCKS(v)                                                                           \
  {                                                                                               \
    nullptr, BlockOf<1, v>(), BlockOf<2, v>(), BlockOf<3, v>(), BlockOf<4, v>(), BlockOf<5, v>(), \
        BlockOf<6, v>(), BlockOf<7, v>(), BlockOf<8, v>(), BlockOf<9, v>(), BlockOf<10, v>(),     \
        BlockOf<11, v>(), BlockOf<12, v>(), BlockOf<13, v>(), BlockOf<14, v>()                    \
  }
constexpr BlockFn kBlocks[kBlockVectors][15] = {RONDO_BLOCKS(1), RONDO_BLOCKS(2)};
#undef RONDO_BLOCKS

// Copies lanes [0, n) of one step k into the panels at `b`; missing lanes of the last panel are 0. `ahead`:
// the prefetch distance in floats.
void PutStep(const float* from, int n, int depth, int k, int64_t ahead, float* b) {
  for (int i = 0; i < n; i += 16) __builtin_prefetch(from + ahead + i);
  int j = 0;
  for (; j + kBlockColumns <= n; j += kBlockColumns) {
    float* to = b + (static_cast<int64_t>(j / kBlockColumns) * depth + k) * kBlockColumns;
    for (int v = 0; v < kBlockVectors; ++v) {
      *reinterpret_cast<Vector*>(to + v * kWidth) = *reinterpret_cast<const Vector*>(from + j + v * kWidth);
    }
  }
  if (j == n) return;
  float* to = b + (static_cast<int64_t>(j / kBlockColumns) * depth + k) * kBlockColumns;
  for (int v = 0; v < kBlockVectors; ++v) *reinterpret_cast<Vector*>(to + v * kWidth) = Vector{};
  CopyFloats(from + j, n - j, to);
}

bool IsInPlace(const Access& access) {
  return access.plain && access.dtype == DType::kF32 && access.lane.kind == LaneKind::kUnit;
}

// Packs rows [first, first + n) of B whose k is contiguous, sixteen rows at a time, so that each line of the
// panels is written while it is in cache.
void PackByRows(const RhsProgram& rhs, const char* b, int depth, int first, int n, float* out, float* temp) {
  const Access& access = *rhs.by_n;
  for (int j = 0; j < n; j += 16) {
    const int rows = Least(16, n - j);
    for (int r = 0; r < rows; ++r) {
      WidenRow(b + LaneOffset(access.lane, first + j + r) * access.size, access.dtype, depth,
               temp + r * kLanes);
    }
    for (int r = rows; r < 16; ++r) std::memset(temp + r * kLanes, 0, static_cast<size_t>(depth) * 4);
    for (int c = 0; c < 16; c += kBlockColumns < 16 ? kBlockColumns : 16) {
      constexpr int kColumns = kBlockColumns < 16 ? kBlockColumns : 16;
      const int at = j + c;
      float* to = out + static_cast<int64_t>(at / kBlockColumns) * depth * kBlockColumns + at % kBlockColumns;
      const float* from = temp + c * kLanes;
      for (int k = 0; k < depth; ++k) {
#pragma GCC unroll 16
        for (int i = 0; i < kColumns; ++i) to[k * kBlockColumns + i] = from[i * kLanes + k];
      }
    }
  }
}

// Packs steps [0, depth) of k (pos is at the first) for lanes [first, first + n).
void PackRhs(const PackedGemm& part, const RhsProgram& rhs, Worker& w, const int64_t* from, int depth,
             int first, int n, float* out, float* temp) {
  const Nest& nest = part.nest;
  const Access& access = *rhs.by_n;
  if (rhs.k_unit)
    return PackByRows(rhs, Pointer(access, w, BaseOf(access, from)), depth, first, n, out, temp);
  const bool in_place = IsInPlace(access);
  int64_t pos[kMaxNest];
  std::memcpy(pos, from, sizeof(pos));
  for (int k = 0; k < depth; ++k) {
    const float* lanes = temp;
    if (in_place) {
      lanes = reinterpret_cast<const float*>(Pointer(access, w, BaseOf(access, pos)));
    } else {
      LoadLanes(access, w, pos, first + n, temp);
    }
    PutStep(lanes + first, n, depth, k, in_place ? 6 * rhs.k_step : 0, out);
    Advance(nest, nest.first[3], nest.first[4], pos);
  }
}

// The lines of B that are packed next, fetched into a cache while earlier panels are multiplied: a weight
// that is read once a run comes from memory.
class NextLines {
 public:
  NextLines() = default;
  NextLines(const RhsProgram& rhs, const Worker& w, const int64_t* pos, int depth, int first, int n) {
    const Access& access = *rhs.by_n;
    const bool by_rows = rhs.k_unit && access.lane.kind == LaneKind::kStride;
    if (!access.plain || (!by_rows && (access.lane.kind != LaneKind::kUnit || rhs.k_step <= 0))) return;
    at_ = Pointer(access, w, BaseOf(access, pos) + LaneOffset(access.lane, first));
    step_ = (by_rows ? access.lane.stride : rhs.k_step) * access.size;
    bytes_ = (by_rows ? depth : n) * access.size;
    left_ = by_rows ? n : depth;
  }
  int left() const { return left_; }
  void Fetch(int lines) {
    for (; lines > 0 && left_ > 0; --lines, --left_, at_ += step_) {
      for (int i = 0; i < bytes_; i += 64) __builtin_prefetch(at_ + i, 0, 2);
    }
  }

 private:
  const char* at_ = nullptr;
  int64_t step_ = 0;
  int bytes_ = 0, left_ = 0;
};

// Columns whose panels are packed, then multiplied while they are in the L2 cache with the rows.
constexpr int kColumnsAtOnce = 64;

// Columns [at, at + columns) of the tile.
void Multiply(const float* a, int rows, const Panels& panels, int depth, int at, int columns,
              const Sums& sums, NextLines* next) {
  const int blocks = (rows + kBlockRows - 1) / kBlockRows;
  const int calls = blocks * ((columns + kBlockColumns - 1) / kBlockColumns);
  const int lines = (next->left() + calls - 1) / calls;
  for (int j = 0; j < columns; j += kBlockColumns) {
    const int some = Least(columns - j, kBlockColumns);
    const float* const b = panels.At(j);
    NextPanels stored;
    if (panels.after != nullptr)
      stored = {j + kBlockColumns < columns ? panels.At(j + kBlockColumns) : panels.after, panels.apart};
    const BlockFn* block = kBlocks[some <= kWidth ? 0 : 1];
    const bool ends = sums.ending != nullptr && some % kWidth == 0;
    int row = 0;
    for (int i = 0; i < blocks; ++i) {
      const int count = (rows - row + (blocks - i) - 1) / (blocks - i);
      next->Fetch(lines);
      stored.Fetch((depth + blocks - 1) / blocks);
      if (ends) FetchEnd(*sums.ending, row + count, Least(count, rows - row - count), at + j);
      block[count](a + row * kLhsRow, panels, b, depth, sums, ends, row, at + j);
      row += count;
    }
    if (sums.ending != nullptr && !ends)
      EndRows(*sums.ending, 0, rows, at + j, some, sums.acc + at + j, sums.acc_row);
  }
}

Panels PackedPanels(const float* first, int depth) {
  return {first, kBlockColumns, static_cast<int64_t>(depth) * kBlockColumns};
}

}  // namespace

void MultiplyPanels(const float* a, int rows, const float* b, int depth, int columns, float* acc,
                    int64_t acc_row, bool add) {
  NextLines none;
  Multiply(a, rows, PackedPanels(b, depth), depth, 0, columns, {acc, acc_row, add, nullptr}, &none);
}

void RunGemm(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const PackedGemm& part = static_cast<const PackedGemm&>(base);
  const Nest& nest = part.nest;
  const int64_t m = nest.points[1];
  const int64_t tiles = part.tiling.tiles;
  const int64_t row_blocks = (m + part.block_rows - 1) / part.block_rows;
  float* packed = reinterpret_cast<float*>(w.scratch + part.left.at);
  float* panels = reinterpret_cast<float*>(w.scratch + part.rhs_at);
  float* temp = reinterpret_cast<float*>(w.scratch + part.temp_at);
  const int64_t k_tiles = part.left.tiling.tiles;
  BeginTape(part.left.program, w);
  BeginTape(part.epilogue, w);
  StraightEpilogue epilogue(part, w);
  int64_t pos[kMaxNest] = {};
  int64_t packed_block = -1;
  int64_t* const kept = reinterpret_cast<int64_t*>(w.scratch + part.kept_at);
  for (int64_t t = 0; t < part.kept_tiles; ++t) kept[t] = -1;
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / tiles;
    const int64_t row = block % row_blocks * part.block_rows;
    const int64_t rows = Least(part.block_rows, m - row);
    Decode(nest, 0, nest.first[1], block / row_blocks, pos);
    if (block != packed_block) PackLhs(nest, part.left, w, pos, row, rows, packed, rows * kLhsRow, kLhsRow);
    packed_block = block;
    for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
    const int64_t tile = task % tiles, outer = block / row_blocks;
    const int n = DecodeTile(nest, part.tiling, tile, pos);
    const bool keeps = part.kept_tiles > 0, is_kept = keeps && kept[tile] == outer;
    const Ending ending(part.end, w, pos, row);
    const bool ends = part.end.result != nullptr;
    float* to = panels + (keeps ? tile * part.num_rhs * k_tiles * part.panels : 0);
    for (int j = 0; j < part.num_rhs; ++j) {
      float* acc = reinterpret_cast<float*>(w.scratch + part.acc_at + j * part.acc_stride);
      const RhsProgram& rhs = part.rhs[j];
      const int width = rhs.k_unit || IsInPlace(*rhs.by_n) ? kColumnsAtOnce : n;
      int depth = DecodeTile(nest, part.left.tiling, 0, pos), next_depth = 0;
      const float* tile_after = nullptr;  // the panels of the next tile, if they are the plan's
      for (int64_t t = 0; t < k_tiles && !Stopped(w); ++t, depth = next_depth) {
        int64_t after[kMaxNest];
        std::memcpy(after, pos, sizeof(pos));
        if (t + 1 < k_tiles) next_depth = NextTile(nest, part.left.tiling, after);
        const float* a = packed + t * rows * kLhsRow;
        for (int at = 0; at < n; at += width) {
          const int columns = Least(width, n - at);
          float* const b = to + static_cast<int64_t>(at) * (keeps ? depth : 0);
          Panels from = PackedPanels(b, depth);
          NextLines next;
          if (rhs.stored > 0) {
            const auto panel = [&](const int64_t* place) {
              return reinterpret_cast<const float*>(Pointer(*rhs.by_n, w, BaseOf(*rhs.by_n, place)));
            };
            from = {panel(pos), kStoredColumns, rhs.stored};
            if (t == 0) tile_after = from.At(n);
            from.after = t + 1 < k_tiles ? panel(after) : tile_after;
          } else if (!is_kept) {
            PackRhs(part, rhs, w, pos, depth, at, columns, b, temp);
            if (at + width < n) {
              next = NextLines(rhs, w, pos, depth, at + width, Least(width, n - at - width));
            } else if (t + 1 < k_tiles) {
              next = NextLines(rhs, w, after, next_depth, 0, Least(width, n));
            }
          }
          const Sums sums = {acc, part.acc_row, t > 0, ends && t + 1 == k_tiles ? &ending : nullptr};
          Multiply(a, static_cast<int>(rows), from, depth, at, columns, sums, &next);
        }
        if (keeps) to += part.panels;
        std::memcpy(pos, after, sizeof(pos));
      }
      for (int d = nest.first[3]; d < nest.first[4]; ++d) pos[d] = 0;
    }
    if (keeps) kept[tile] = outer;
    if (!ends) epilogue.Run(pos, row, rows, n);
  }
}

}  // namespace rondo::host::RONDO_ISA
