// Contractions and convolutions through tiles on tensor cores (tile_product of the prelude).
#include <algorithm>
#include <cmath>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

bool Is16Bit(DType type) { return type == DType::kF16 || type == DType::kBF16; }

std::string Text(int64_t n) { return std::to_string(n); }

constexpr int64_t kFloatStages = 4;

struct Tile {
  int64_t m, n, deep;                 // of one stage
  int64_t warps_m, warps_n, warps_k;  // 8 warps
  bool groups = false;                // two groups of warps, wgmma
};

// Of tiles that cost the same, the first is taken.
constexpr Tile kTiles[] = {
    {128, 128, 64, 2, 4, 1},       {128, 64, 64, 4, 2, 1},        {64, 128, 64, 2, 4, 1},
    {64, 64, 128, 2, 2, 2},        {64, 64, 64, 2, 2, 2},         {32, 64, 128, 1, 2, 4},
    {32, 64, 64, 1, 2, 4},         {64, 32, 128, 2, 1, 4},        {32, 32, 128, 1, 2, 4},
    {16, 128, 128, 1, 4, 2},       {16, 64, 128, 1, 2, 4},        {16, 32, 128, 1, 1, 8},
    {128, 256, 64, 1, 1, 1, true}, {128, 192, 64, 1, 1, 1, true}, {128, 128, 64, 1, 1, 1, true},
    {128, 64, 64, 1, 1, 1, true},
};

int64_t StageBytes(const Tile& tile, int64_t rights) { return (tile.m + rights * tile.n) * tile.deep * 2; }

// Bytes that bring the stages of wgmma to a multiple of 1024.
int64_t Slack(const Tile& tile) { return tile.groups ? 1024 : 0; }

// wgmma wants both sides in swizzled lines of 128 bytes, by vectors, and registers for its sums.
bool Suits(const Tile& tile, const ProductShape& shape, const CudaTarget& target, int64_t rights, bool made) {
  if (!tile.groups) return true;
  return target.warp_groups && rights * tile.n <= 256 && shape.rhs_vector == 8 &&
         (made || (shape.lhs_along_depth && shape.lhs_vector == 8));
}

int64_t Tiles(const ProductShape& shape, const Tile& tile) {
  return shape.batches * ((shape.rows + tile.m - 1) / tile.m) * ((shape.columns + tile.n - 1) / tile.n);
}

struct Choice {
  Tile tile = kTiles[0];
  int64_t cluster = 1, stages = 3, resident = 1;
  double cycles = 0;  // 0: no tile fits
};

// Blocks of the busiest multiprocessor.
double BusiestBlocks(const ProductShape& shape, const Tile& tile, int64_t cluster, double processors) {
  // A cluster lies in one group of multiprocessors; those groups are no multiples of 4 and 8.
  const double used = cluster >= 8 ? 0.84 : cluster >= 4 ? 0.9 : 1;
  return std::ceil(static_cast<double>(Tiles(shape, tile) * cluster) / (used * processors));
}

// Blocks that share a multiprocessor, and stages of copies that then fit.
bool Fit(const Tile& tile, const CudaTarget& target, int64_t rights, int64_t own_steps, double busiest,
         Choice* choice) {
  const int64_t sums = rights * tile.m * (tile.n + 4) * 4;
  choice->resident = tile.m * tile.n * rights <= 128 * 128 && busiest > 1 && !tile.groups ? 2 : 1;
  if (target.tuning.resident != 0) choice->resident = target.tuning.resident;
  const int64_t room =
      (choice->resident == 1 ? target.shared : target.shared_processor / choice->resident - 1024) -
      Slack(tile);
  const int64_t most = target.tuning.stages != 0 ? target.tuning.stages : 12;
  choice->stages =
      std::min<int64_t>({room / StageBytes(tile, rights), most, std::max<int64_t>(3, own_steps + 1)});
  return sums <= room && choice->stages >= (tile.groups ? 4 : 3);
}

// Cycles of the busiest multiprocessor: its blocks, each bound by what it copies or by what it multiplies,
// and what starting, summing up and storing cost. The rates are those measured on an H200: 26 bytes a cycle
// from the second level cache; 750 products a cycle by mma.sync and 1250 by wgmma; 0.1 cycles for each point
// from another block.
double Cycles(const ProductShape& shape, const Tile& tile, int64_t rights, int64_t cluster, double busiest) {
  const double area = static_cast<double>(tile.m * tile.n * rights);
  const double own_steps = std::ceil(static_cast<double>((shape.depths + tile.deep - 1) / tile.deep) /
                                     static_cast<double>(cluster));
  const double copy = static_cast<double>(StageBytes(tile, rights)) / 26;
  // The larger a warp's own tile, the less of the time goes to loading it from shared memory.
  const double own_area = area / static_cast<double>(tile.warps_m * tile.warps_n);
  const double rate = tile.groups ? 1250 : 750 * std::min(1.0, std::sqrt(own_area / 2048));
  const double product = area * static_cast<double>(tile.deep) / rate;
  const double parts = static_cast<double>(cluster);
  const double end = area / 20 + (cluster > 1 ? 1500 + 600 * parts + area * 0.1 * (parts - 1) : 0);
  return 4200 + busiest * (own_steps * std::max(copy, product) + end);
}

Choice ChooseTile(const ProductShape& shape, const CudaTarget& target, int64_t rights, bool made,
                  double share, uint32_t forced_cluster) {
  const ProductTuning& tuning = target.tuning;
  const double processors = std::max(1.0, share * static_cast<double>(target.processors));
  Choice best;
  for (const Tile& tile : kTiles) {
    if (tuning.tile >= 0 && &tile != &kTiles[tuning.tile]) continue;
    if (!Suits(tile, shape, target, rights, made)) continue;
    for (int64_t cluster = 1; cluster <= (target.clusters() ? 8 : 1); cluster *= 2) {
      if (forced_cluster != 0 && cluster != static_cast<int64_t>(forced_cluster)) continue;
      if (forced_cluster == 0 && tuning.cluster != 0 && cluster != tuning.cluster) continue;
      const int64_t steps = (shape.depths + tile.deep - 1) / tile.deep;
      if (cluster > 1 && cluster > steps && forced_cluster == 0) continue;
      Choice choice = {tile, cluster};
      const double busiest = BusiestBlocks(shape, tile, cluster, processors);
      if (!Fit(tile, target, rights, (steps + cluster - 1) / cluster, busiest, &choice)) continue;
      choice.cycles = Cycles(shape, tile, rights, cluster, busiest);
      if (best.cycles == 0 || choice.cycles < best.cycles) best = choice;
    }
  }
  return best;
}

// Tiles in f32: SIZE x SIZE, 32 deep.
struct FloatChoice {
  int64_t size = 64, cluster = 1, shared = 0;
  double cycles = 0;
};

// As ChooseTile; about 70 products a cycle.
FloatChoice ChooseFloatTile(const ProductShape& shape, const CudaTarget& target, int64_t rights, double share,
                            uint32_t forced_cluster) {
  constexpr int64_t kDeep = 32;
  const double processors = std::max(1.0, share * static_cast<double>(target.processors));
  const int64_t steps = (shape.depths + kDeep - 1) / kDeep;
  FloatChoice best;
  for (int64_t size : {64, 32}) {
    const Tile tile = {size, size, kDeep, 1, 1, 1};
    for (int64_t cluster = 1; cluster <= (target.clusters() ? 8 : 1); cluster *= 2) {
      if (forced_cluster != 0 && cluster != static_cast<int64_t>(forced_cluster)) continue;
      if (cluster > steps && forced_cluster == 0) continue;
      const double own_steps = static_cast<double>((steps + cluster - 1) / cluster),
                   parts = static_cast<double>(cluster);
      const double area = static_cast<double>(size * size * rights);
      const double end = area / 20 + (cluster > 1 ? 1500 + 600 * parts + area * 0.1 * (parts - 1) : 0);
      FloatChoice choice = {size, cluster};
      // Lines are padded by at most an eighth.
      choice.shared = std::max(kFloatStages * (1 + rights) * (size + 4) * (kDeep + 4) * 4,
                               rights * size * (size + 4) * 4);
      choice.cycles =
          4200 + BusiestBlocks(shape, tile, cluster, processors) * (own_steps * area * kDeep / 70 + end);
      if (best.cycles == 0 || choice.cycles < best.cycles) best = choice;
    }
  }
  return best;
}

}  // namespace

Result<bool> PartText::FloatProduct(const ProductShape& shape) {
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const FlatOperand left = Flatten(part_, lhs);
  bool fits = part_.acc_type == TapeType::kF32 && NaturalType(rhs.dtype) == TapeType::kF32 &&
              (!part_.prologue.empty() || NaturalType(lhs.dtype) == TapeType::kF32) && rights <= 2 &&
              left.coordinates.size() <= 3 && lhs.absent == 0 && shape.columns >= 8 && shape.depths >= 8 &&
              shape.rows * shape.columns >= 1024;
  if (!fits) return false;
  const FloatChoice best = ChooseFloatTile(shape, target_, rights, share_, cluster_);
  const bool made = !part_.prologue.empty() || !lhs.indirects.empty() || lhs.dtype != DType::kF32;
  const int64_t row_tiles = (shape.rows + best.size - 1) / best.size,
                column_tiles = (shape.columns + best.size - 1) / best.size;
  WriteTilePlaces(shape, best.cluster, row_tiles, column_tiles);
  const int vector = FinishVector(shape);
  WriteFinish(shape, vector);
  auto truth = [](bool b) { return std::string(b ? "true" : "false"); };
  Line("float_product<" + Text(best.size) + ", " + Text(kFloatStages) + ", " + Text(rights) + ", " +
       Text(best.cluster) + ", " + truth(shape.lhs_along_depth) + ", " + Text(made ? 0 : shape.lhs_vector) +
       ", " + truth(shape.rhs_along_depth) + ", " + Text(rhs.dtype == DType::kF32 ? shape.rhs_vector : 0) +
       ", " + Text(vector) + ", " + truth(RightIsConstant()) + ">" + TileArguments(shape));
  RONDO_RETURN_IF_ERROR(SetBlocks(shape.batches * row_tiles * column_tiles * best.cluster));
  launch_.shared = static_cast<uint32_t>(best.shared);
  launch_.cluster = static_cast<uint32_t>(best.cluster);
  return true;
}

// Where a block's tile is, and the lambdas by which tiles are copied.
void PartText::WriteTilePlaces(const ProductShape& shape, int64_t cluster, int64_t row_tiles,
                               int64_t column_tiles) {
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const FlatOperand left = Flatten(part_, part_.operands[part_.lhs]), right = Flatten(part_, rhs);
  // Blocks of a cluster, then tiles of rows, then of columns, then batches.
  Line("const u32 rank = block % " + Text(cluster) + "u, tile = block / " + Text(cluster) + "u;");
  Line("const u32 row_tile = tile % " + Text(row_tiles) + "u, column_tile = tile / " + Text(row_tiles) +
       "u % " + Text(column_tiles) + "u, batch = tile / " + Text(row_tiles * column_tiles) + "u;");
  WritePlace("batch_left_place", shape.batch, left, true);
  WritePlace("row_place", shape.row, left, false);
  WritePlace("left_depth_place", shape.depth, left, false);
  WritePresent(left);
  WriteLeftValue(shape);
  WritePlace("batch_right_place", shape.batch, right, false);
  WritePlace("column_place", shape.column, right, false);
  WritePlace("right_depth_place", shape.depth, right, false);
  WriteRightValue(shape);
  Line("const At batch_left = batch_left_place((int)batch);");
  Line("auto row_at = [&](int row) { return batch_left + row_place(row); };");
  Line("const i64 batch_right = batch_right_place((int)batch).a;");
  std::string bases;
  for (uint16_t index : part_.rhs) {
    const Operand& operand = part_.operands[index];
    bases += (bases.empty() ? "p" : ", p") + Text(operand.param) + " + " + Text(ByteSize(rhs.dtype)) +
             " * (batch_right + " + Text(operand.offset) + ")";
  }
  Line("const char* const right[] = {" + bases + "};");
}

std::string PartText::TileArguments(const ProductShape& shape) const {
  return "(row_tile, column_tile, rank, " + Text(shape.rows) + ", " + Text(shape.columns) + ", " +
         Text(shape.depths) + ", p" + Text(part_.operands[part_.lhs].param) +
         ", right, row_at, left_depth_place, left_present, left_value, column_place, right_depth_place, "
         "right_value, finish);";
}

Result<bool> PartText::TileProduct(const ProductShape& shape) {
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const FlatOperand left = Flatten(part_, lhs), right = Flatten(part_, rhs);
  bool typed = part_.acc_type == TapeType::kF32 && Is16Bit(rhs.dtype) &&
               (!part_.prologue.empty() || lhs.dtype == rhs.dtype);
  if (!typed || rights > 2 || left.coordinates.size() > 3 || lhs.absent != 0 || shape.columns < 8 ||
      shape.depths < 16 || shape.rows * shape.columns < 1024)
    return false;

  // A left side through a prologue, or with indices from data, is made element by element.
  const bool made = !part_.prologue.empty() || !lhs.indirects.empty();
  const Choice best = ChooseTile(shape, target_, rights, made, share_, cluster_);
  if (best.cycles == 0) return false;
  const Tile& tile = best.tile;
  const int64_t vector = FinishVector(shape);
  const int64_t left_vector = made ? 0 : shape.lhs_vector;
  const int64_t row_tiles = (shape.rows + tile.m - 1) / tile.m,
                column_tiles = (shape.columns + tile.n - 1) / tile.n;
  const int64_t cluster = best.cluster;
  const bool bf16 = rhs.dtype == DType::kBF16;
  auto truth = [](bool b) { return std::string(b ? "true" : "false"); };

  WriteTilePlaces(shape, cluster, row_tiles, column_tiles);
  WriteFinish(shape, static_cast<int>(vector));
  std::string layout = Text(left_vector) + ", " + truth(shape.rhs_along_depth);
  std::string call;
  if (tile.groups) {
    call = "group_product<" + Text(tile.n) + ", " + Text(best.stages) + ", " + Text(rights) + ", " +
           Text(cluster) + ", " + layout;
  } else {
    call = "tile_product<" + Text(tile.m) + ", " + Text(tile.n) + ", " + Text(tile.deep) + ", " +
           Text(tile.warps_m) + ", " + Text(tile.warps_n) + ", " + Text(tile.warps_k) + ", " +
           Text(best.stages) + ", " + Text(rights) + ", " + Text(cluster) + ", " +
           truth(shape.lhs_along_depth) + ", " + layout + ", " + Text(shape.rhs_vector);
  }
  Line(call + ", " + Text(vector) + ", " + truth(bf16) + ", " + truth(RightIsConstant()) + ">" +
       TileArguments(shape));
  RONDO_RETURN_IF_ERROR(SetBlocks(shape.batches * row_tiles * column_tiles * cluster));
  launch_.shared = static_cast<uint32_t>(
      Slack(tile) + std::max(best.stages * StageBytes(tile, rights), rights * tile.m * (tile.n + 4) * 4));
  launch_.cluster = static_cast<uint32_t>(cluster);
  launch_.resident = static_cast<uint32_t>(best.resident);
  return true;
}

}  // namespace rondo::cuda
