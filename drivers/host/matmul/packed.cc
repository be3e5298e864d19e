// Matmuls by packed weights (core/packed_weights.h): codes are unpacked in registers (packed_sums.h). With
// more rows, they are unpacked into panels (packed_panels.h), which multiply all rows of a block as panels of
// floats do. For few rows and columns that are not in tile order, they are unpacked into a few rows of floats
// that stay in the L1 cache.
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/blocks.h"
#include "drivers/host/matmul/matmul_program.h"
#include "drivers/host/matmul/packed_panels.h"
#include "drivers/host/matmul/packed_sums.h"
#include "drivers/host/matmul/product.h"

namespace rondo::host::RONDO_ISA {
namespace {

typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(32)));

// Unpacks one B.
class Unpacking {
 public:
  Unpacking(const PackedProgram& packed, int j, const Worker& w)
      : p_(packed),
        codes_(Pointer(*packed.codes[j], w, 0)),
        scales_(Pointer(*packed.scales[j], w, 0)),
        zeros_(packed.zeros[j] == nullptr ? nullptr : Pointer(*packed.zeros[j], w, 0)),
        scale_(packed.scales[j]) {}

  // Unpacks numbers [k, k + count) of a row; k is the start of a piece. Writes whole pieces to `out`.
  void Row(int64_t row, int64_t k, int64_t count, float* out) {
    const int64_t piece = p_.piece, word = piece / 2, tile = row / 16;
    Scales(tile, k / p_.block, (k + count - 1) / p_.block);
    within_ = k % p_.block;
    at_ = row % 8 * 2 + row % 16 / 8;
    const char* from = codes_ + (tile * p_.pieces + k / piece) * 512 + row % 8 * 64 + row % 16 / 8 * 4;
    for (int64_t at = 0; at < count; at += piece, from += 512) {
      for (int half = 0; half < 2; ++half) Half(from + half * 8, out + at + half * word);
    }
  }

 private:
  // Unpacks half of a piece of a row: the words of four lanes. Each pair of codes is 8 further along k than
  // the one before.
  void Half(const char* from, float* out) {
    uint32_t w[4];
    for (int t = 0; t < 4; ++t) std::memcpy(&w[t], from + t * 16, 4);
    Words x = {w[0], w[0], w[1], w[1], w[2], w[2], w[3], w[3]};
    x = x >> Words{0, 16, 0, 16, 0, 16, 0, 16};
    const int pairs = 16 / p_.bits;
    for (int i = 0; i < pairs; ++i, x = x >> static_cast<uint32_t>(p_.bits)) {
      const Words codes = x & p_.mask;
      Floats value;
      if (p_.values == nullptr) {
        value = __builtin_convertvector(reinterpret_cast<const Signed&>(codes), Floats);
      } else {
        for (int e = 0; e < 8; ++e) value[e] = p_.values[codes[e]];
      }
      value = (value - (zeros_ == nullptr ? p_.zero : zero_at_[at_])) * scale_at_[at_];
      *reinterpret_cast<Floats*>(out + 8 * i) = value;
      within_ += 8;
      if (within_ == p_.block && at_ + 16 < most_ * 16) {
        within_ = 0;
        at_ += 16;
      }
    }
  }
  // Loads the scales of blocks [first, last] of a tile of rows.
  void Scales(int64_t tile, int64_t first, int64_t last) {
    if (last >= p_.blocks) last = p_.blocks - 1;
    if (tile == tile_ && first == first_) return;
    tile_ = tile;
    first_ = first;
    most_ = last - first + 1;
    LanePattern lane;
    lane.kind = LaneKind::kUnit;
    lane.stride = 1;
    const int64_t at = (tile * p_.blocks + first) * 16 * scale_->size;
    scale_->load(scale_at_, scales_ + at, lane, static_cast<int>(most_ * 16));
    if (zeros_ != nullptr) scale_->load(zero_at_, zeros_ + at, lane, static_cast<int>(most_ * 16));
  }

  typedef int32_t Signed __attribute__((vector_size(32), may_alias));
  const PackedProgram& p_;
  const char *codes_, *scales_, *zeros_;
  const Access* scale_;
  int64_t tile_ = -1, first_ = -1, most_ = 0;  // the blocks whose scales are loaded
  int64_t within_ = 0, at_ = 0;                // of the current block: numbers taken, and its scale's index
  float scale_at_[kPackedDepth + 16], zero_at_[kPackedDepth + 16];
};

// Columns [first, first + columns) of the tile at pos.
struct Columns {
  int64_t row;  // of the weights: the row of the first column
  int first, columns;
};

// Whether the columns are contiguous and in the order of a tile of 16.
bool AreTile(const PackedProgram& packed, const Access& access, const Columns& at) {
  if (at.row % 16 != 0) return false;
  const int64_t from = LaneOffset(access.lane, at.first);
  for (int c = 1; c < at.columns; ++c) {
    if (LaneOffset(access.lane, at.first + c) - from != c * packed.stride) return false;
  }
  return true;
}

// Multiplies few rows by the columns, by unpacking to memory.
void MultiplyUnpacked(const PackedPart& part, Worker& w, const Columns& columns, int64_t base, int64_t rows,
                      int j, float* acc) {
  const PackedProgram& packed = part.packed;
  const Access& access = *packed.codes[j];
  Unpacking unpacking(packed, j, w);
  const float* a = reinterpret_cast<const float*>(w.scratch + part.left.at);
  float* panel = reinterpret_cast<float*>(w.scratch + part.rhs_at);
  const int64_t k = part.nest.points[3];
  for (int64_t at = 0; at < k && !Stopped(w); at += kPackedDepth) {
    const int64_t depth = Least<int64_t>(kPackedDepth, k - at);
    for (int c = 0; c < columns.columns; ++c)
      unpacking.Row((base + LaneOffset(access.lane, columns.first + c)) / packed.stride, at, depth,
                    panel + c * kPackedDepth);
    for (int64_t r = 0; r < rows; r += kFewRows) {
      Dots(a + r * part.left.row + at, part.left.row, static_cast<int>(Least<int64_t>(kFewRows, rows - r)),
           reinterpret_cast<const char*>(panel), DType::kF32, kPackedDepth, depth, columns.columns,
           acc + r * kLanes + columns.first, kLanes, at > 0);
    }
  }
}

// Multiplies some rows by the n columns of the tile at pos; `arranged` begins with row `first_row`.
void MultiplyTile(const PackedPart& part, Worker& w, const int64_t* pos, int n, const PackedRows& arranged,
                  int64_t first_row, int64_t rows, int j) {
  const PackedProgram& packed = part.packed;
  const Access& access = *packed.codes[j];
  const int64_t base = BaseOf(access, pos);
  float* const acc = reinterpret_cast<float*>(w.scratch + part.acc_at + j * part.acc_stride);
  for (int first = 0; first < n && !Stopped(w); first += kPackedColumns) {
    const Columns columns = {(base + LaneOffset(access.lane, first)) / packed.stride, first,
                             Least(kPackedColumns, n - first)};
    const int64_t tile = columns.row / 16, blocks = tile * packed.blocks * 16 * packed.scales[j]->size;
    if (!AreTile(packed, access, columns)) {
      if (first_row == 0) MultiplyUnpacked(part, w, columns, base, rows, j, acc);
      continue;
    }
    const Access* const zeros = packed.zeros[j];
    PackedSums(packed, arranged,
               {Pointer(access, w, 0) + tile * packed.pieces * 512, Pointer(*packed.scales[j], w, 0) + blocks,
                zeros == nullptr ? nullptr : Pointer(*zeros, w, 0) + blocks, packed.scales[j]},
               columns.columns, acc + first_row * kLanes + first, kLanes);
  }
}

// Packs a block of many rows of A in the order in which MultiplyPanels reads it: kPackedDepth of k after
// another.
void PackBlock(const PackedPart& part, Worker& w, int64_t* pos, int64_t row, int64_t rows) {
  float* const line = reinterpret_cast<float*>(w.scratch + part.temp_at);
  float* const out = reinterpret_cast<float*>(w.scratch + part.left.at);
  const int64_t k = part.nest.points[3];
  for (int64_t r = 0; r < rows && !Stopped(w); ++r) {
    PackLhs(part.nest, part.left, w, pos, row + r, 1, line, 0, part.left.row);
    for (int64_t at = 0; at < k; at += kPackedDepth)
      CopyFloats(line + at, Least(kPackedDepth, k - at), out + (at / kPackedDepth * rows + r) * kLhsRow);
  }
}

// Multiplies all rows of a block by the n columns of the tile at pos.
void MultiplyBlock(const PackedPart& part, Worker& w, const int64_t* pos, int n, int64_t rows, int j) {
  const float* const a = reinterpret_cast<const float*>(w.scratch + part.left.at);
  float* const panels = reinterpret_cast<float*>(w.scratch + part.rhs_at);
  float* const acc = reinterpret_cast<float*>(w.scratch + part.acc_at + j * part.acc_stride);
  const int64_t base = BaseOf(*part.packed.codes[j], pos), k = part.nest.points[3];
  for (int64_t at = 0; at < k; at += kPackedDepth) {
    const int depth = static_cast<int>(Least(kPackedDepth, k - at));
    for (int first = 0; first < n && !Stopped(w); first += kPanelColumns) {
      const int columns = Least(kPanelColumns, n - first);
      UnpackPanels(part.packed, j, w, base, first, columns, at, depth, panels);
      MultiplyPanels(a + at / kPackedDepth * rows * kLhsRow, static_cast<int>(rows), panels, depth, columns,
                     acc + first, kLanes, at > 0);
    }
  }
}

}  // namespace

void RunPacked(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const PackedPart& part = static_cast<const PackedPart&>(base);
  const Nest& nest = part.nest;
  const int64_t tiles = part.tiling.tiles, blocks = (nest.points[1] + part.block_rows - 1) / part.block_rows;
  BeginTape(part.left.program, w);
  BeginTape(part.epilogue, w);
  const float* const a = reinterpret_cast<const float*>(w.scratch + part.left.at);
  PackedRows arranged(part.packed, reinterpret_cast<float*>(w.scratch + part.packed.rows_at));
  const auto arrange = [&](int64_t from, int64_t rows) {
    arranged.Arrange(a + from * part.left.row, part.left.row,
                     static_cast<int>(Least<int64_t>(kPackedRows, rows - from)), nest.points[3]);
  };
  int64_t pos[kMaxNest] = {}, packed_block = -1;
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / tiles, row = block % blocks * part.block_rows;
    const int64_t rows = Least(part.block_rows, nest.points[1] - row);
    for (int64_t& p : pos) p = 0;
    Decode(nest, 0, nest.first[1], block / blocks, pos);
    const bool other = packed_block != block, many = nest.points[1] > kMostInRegisters;
    if (other && many) PackBlock(part, w, pos, row, rows);
    if (other && !many)
      PackLhs(nest, part.left, w, pos, row, rows, reinterpret_cast<float*>(w.scratch + part.left.at), 0,
              part.left.row);
    packed_block = block;
    for (int d = nest.first[1]; d < nest.loops; ++d) pos[d] = 0;
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    for (int j = 0; many && j < part.num_rhs; ++j) MultiplyBlock(part, w, pos, n, rows, j);
    for (int64_t from = 0; !many && from < rows && !Stopped(w); from += kPackedRows) {
      if (other || rows > kPackedRows) arrange(from, rows);
      for (int j = 0; j < part.num_rhs; ++j) MultiplyTile(part, w, pos, n, arranged, from, rows, j);
    }
    RunEpilogue(part, w, pos, row, rows, n);
  }
}

}  // namespace rondo::host::RONDO_ISA
