// Contractions and convolutions through tiles (device/matmul_{mma,wgmma,simt}.cuh).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

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

// What a block has of its multiprocessor.
struct Room {
  int64_t stages = 3, resident = 1;
};

// Blocks that share a multiprocessor, and stages of copies that then fit; none if too few do.
std::optional<Room> Fit(const Tile& tile, const CudaTarget& target, int64_t rights, int64_t own_steps,
                        double busiest) {
  const int64_t sums = rights * tile.m * (tile.n + 4) * 4;
  const int64_t resident = tile.m * tile.n * rights <= 128 * 128 && busiest > 1 && !tile.groups ? 2 : 1;
  const int64_t room =
      (resident == 1 ? target.shared : target.shared_processor / resident - 1024) - Slack(tile);
  const int64_t stages =
      std::min<int64_t>({room / StageBytes(tile, rights), 12, std::max<int64_t>(3, own_steps + 1)});
  if (sums > room || stages < (tile.groups ? 4 : 3)) return std::nullopt;
  return Room{stages, resident};
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

ProductChoice ChoiceOf(const Tile& tile, int64_t cluster) {
  ProductChoice choice;
  choice.by = tile.groups ? ProductTemplate::kGroup : ProductTemplate::kTile;
  choice.rows = tile.m;
  choice.columns = tile.n;
  choice.cluster = cluster;
  if (tile.groups) return choice;
  choice.deep = tile.deep;
  choice.warps_rows = tile.warps_m;
  choice.warps_columns = tile.warps_n;
  choice.warps_deep = tile.warps_k;
  return choice;
}

constexpr int64_t kFloatDeep = 32;

// Lines are padded by at most an eighth.
int64_t FloatShared(int64_t size, int64_t rights) {
  return std::max(kFloatStages * (1 + rights) * (size + 4) * (kFloatDeep + 4) * 4,
                  rights * size * (size + 4) * 4);
}

int64_t Steps(const ProductShape& shape, int64_t deep) { return (shape.depths + deep - 1) / deep; }

}  // namespace

// Clusters that may split `steps` of the depth: none larger than it has steps, unless others have settled it.
std::vector<int64_t> PartText::Clusters(int64_t steps) const {
  if (cluster_ != 0) return {static_cast<int64_t>(cluster_)};
  std::vector<int64_t> clusters = {1};
  for (int64_t cluster = 2; cluster <= (target_.clusters() ? 8 : 1) && cluster <= steps; cluster *= 2)
    clusters.push_back(cluster);
  return clusters;
}

// Blocks of the busiest multiprocessor, with tiles of that size.
double PartText::BusiestBlocks(const ProductShape& shape, int64_t rows, int64_t columns,
                               int64_t cluster) const {
  // A cluster lies in one group of multiprocessors; those groups are no multiples of 4 and 8.
  const double used = cluster >= 8 ? 0.84 : cluster >= 4 ? 0.9 : 1;
  const int64_t tiles =
      shape.batches * ((shape.rows + rows - 1) / rows) * ((shape.columns + columns - 1) / columns);
  return std::ceil(static_cast<double>(tiles * cluster) / (used * Processors()));
}

// Groups of a convolution are many products of few columns each.
bool PartText::IsEnoughForTiles(const ProductShape& shape) const {
  const bool grouped = part_.skeleton == Skeleton::kConvolution && shape.batches > 1;
  return shape.columns >= (grouped ? 4 : 8) &&
         shape.rows * shape.columns * (grouped ? shape.batches : 1) >= 1024;
}

bool PartText::SuitsFloatTiles(const ProductShape& shape) const {
  const Operand& lhs = part_.operands[part_.lhs];
  return part_.acc_type == TapeType::kF32 &&
         NaturalType(part_.operands[part_.rhs[0]].dtype) == TapeType::kF32 &&
         (!part_.prologue.empty() || NaturalType(lhs.dtype) == TapeType::kF32) && part_.rhs.size() <= 2 &&
         Flatten(part_, lhs).coordinates.size() <= 3 && lhs.absent == 0 && shape.depths >= 8 &&
         IsEnoughForTiles(shape);
}

// Tiles in f32: about 70 products a cycle.
std::vector<ProductOffer> PartText::OfferFloatTiles(const ProductShape& shape) const {
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  std::vector<ProductOffer> offers;
  // 16-bit factors would be widened one by one.
  if (!SuitsFloatTiles(shape) || !OfferTiles(shape).empty()) return offers;
  const int64_t steps = Steps(shape, kFloatDeep);
  for (int64_t size : {64, 32}) {
    for (int64_t cluster : Clusters(steps)) {
      const double own_steps = static_cast<double>((steps + cluster - 1) / cluster),
                   parts = static_cast<double>(cluster);
      const double area = static_cast<double>(size * size * rights);
      const double end = area / 20 + (cluster > 1 ? 1500 + 600 * parts + area * 0.1 * (parts - 1) : 0);
      ProductOffer offer;
      offer.choice.by = ProductTemplate::kFloat;
      offer.choice.rows = offer.choice.columns = size;
      offer.choice.cluster = cluster;
      offer.cycles = 4200 + BusiestBlocks(shape, size, size, cluster) *
                                (own_steps * area * static_cast<double>(kFloatDeep) / 70 + end);
      offers.push_back(offer);
    }
  }
  return offers;
}

Status PartText::FloatProduct(const ProductShape& shape, const ProductChoice& choice) {
  headers_.insert("matmul_simt");
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size()), size = choice.rows;
  const bool made = !part_.prologue.empty() || !lhs.indirects.empty() || lhs.dtype != DType::kF32;
  const int64_t row_tiles = (shape.rows + size - 1) / size, column_tiles = (shape.columns + size - 1) / size;
  WriteTilePlaces(shape, choice.cluster, row_tiles, column_tiles);
  const int vector = FinishVector(shape);
  WriteFinish(shape, vector);
  auto truth = [](bool b) { return std::string(b ? "true" : "false"); };
  Line("float_product<" + Text(size) + ", " + Text(kFloatStages) + ", " + Text(rights) + ", " +
       Text(choice.cluster) + ", " + truth(shape.lhs_along_depth) + ", " + Text(made ? 0 : shape.lhs_vector) +
       ", " + truth(shape.rhs_along_depth) + ", " + Text(rhs.dtype == DType::kF32 ? shape.rhs_vector : 0) +
       ", " + Text(vector) + ", " + truth(RightIsConstant()) + ">" + TileArguments(shape));
  RONDO_RETURN_IF_ERROR(SetBlocks(shape.batches * row_tiles * column_tiles * choice.cluster));
  launch_.shared = static_cast<uint32_t>(FloatShared(size, rights));
  launch_.cluster = static_cast<uint32_t>(choice.cluster);
  return Status::Ok();
}

// Where a block's tile is, and the lambdas by which tiles are copied.
void PartText::WriteTilePlaces(const ProductShape& shape, int64_t cluster, int64_t row_tiles,
                               int64_t column_tiles, int left_lanes) {
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
  WriteLeftValue(shape, left_lanes);
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

// A left side through a prologue, or with indices from data, is made element by element, or, if its tape
// reads vectors along the depth, LeftLanes at a time.
bool PartText::LeftIsMade() const {
  return !part_.prologue.empty() || !part_.operands[part_.lhs].indirects.empty();
}

int PartText::LeftLanes(const ProductShape& shape) const {
  constexpr int kLanes = 8;
  if (part_.prologue.empty() || !shape.lhs_along_depth) return 1;
  const size_t along = shape.depth.back();
  const std::vector<size_t> loads = Touched(part_.prologue, TapeOp::kLoad);
  const bool fit = std::all_of(loads.begin(), loads.end(), [&](size_t index) {
    return !MovesAlong(part_.operands[index], along) ||
           (FitsLanes(index, along, kLanes) && part_.operands[index].absent == 0);
  });
  return fit ? kLanes : 1;
}

std::vector<ProductOffer> PartText::OfferTiles(const ProductShape& shape) const {
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const bool typed = part_.acc_type == TapeType::kF32 && Is16Bit(rhs.dtype) &&
                     (!part_.prologue.empty() || lhs.dtype == rhs.dtype);
  std::vector<ProductOffer> offers;
  if (!typed || rights > 2 || Flatten(part_, lhs).coordinates.size() > 3 || lhs.absent != 0 ||
      !IsEnoughForTiles(shape) || shape.depths < 16)
    return offers;
  for (const Tile& tile : kTiles) {
    if (!Suits(tile, shape, target_, rights, LeftIsMade())) continue;
    const int64_t steps = Steps(shape, tile.deep);
    for (int64_t cluster : Clusters(steps)) {
      const double busiest = BusiestBlocks(shape, tile.m, tile.n, cluster);
      if (!Fit(tile, target_, rights, (steps + cluster - 1) / cluster, busiest)) continue;
      offers.push_back({ChoiceOf(tile, cluster), Cycles(shape, tile, rights, cluster, busiest)});
    }
  }
  return offers;
}

Status PartText::TileProduct(const ProductShape& shape, const ProductChoice& choice) {
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size()), cluster = choice.cluster;
  const Tile& tile = *std::find_if(std::begin(kTiles), std::end(kTiles),
                                   [&](const Tile& t) { return ChoiceOf(t, cluster) == choice; });
  const std::optional<Room> room =
      Fit(tile, target_, rights, (Steps(shape, tile.deep) + cluster - 1) / cluster,
          BusiestBlocks(shape, tile.m, tile.n, cluster));
  const int64_t vector = FinishVector(shape);
  const int left_lanes = LeftLanes(shape);
  const int64_t left_vector = left_lanes > 1 ? -left_lanes : LeftIsMade() ? 0 : shape.lhs_vector;
  const int64_t row_tiles = (shape.rows + tile.m - 1) / tile.m,
                column_tiles = (shape.columns + tile.n - 1) / tile.n;
  const bool bf16 = rhs.dtype == DType::kBF16;
  auto truth = [](bool b) { return std::string(b ? "true" : "false"); };

  headers_.insert(tile.groups ? "matmul_wgmma" : "matmul_mma");
  WriteTilePlaces(shape, cluster, row_tiles, column_tiles, left_lanes);
  WriteFinish(shape, static_cast<int>(vector));
  std::string layout = Text(left_vector) + ", " + truth(shape.rhs_along_depth);
  std::string call;
  if (tile.groups) {
    call = "group_product<" + Text(tile.n) + ", " + Text(room->stages) + ", " + Text(rights) + ", " +
           Text(cluster) + ", " + layout;
  } else {
    call = "tile_product<" + Text(tile.m) + ", " + Text(tile.n) + ", " + Text(tile.deep) + ", " +
           Text(tile.warps_m) + ", " + Text(tile.warps_n) + ", " + Text(tile.warps_k) + ", " +
           Text(room->stages) + ", " + Text(rights) + ", " + Text(cluster) + ", " +
           truth(shape.lhs_along_depth) + ", " + layout + ", " + Text(shape.rhs_vector);
  }
  Line(call + ", " + Text(vector) + ", " + truth(bf16) + ", " + truth(RightIsConstant()) + ">" +
       TileArguments(shape));
  RONDO_RETURN_IF_ERROR(SetBlocks(shape.batches * row_tiles * column_tiles * cluster));
  launch_.shared = static_cast<uint32_t>(
      Slack(tile) + std::max(room->stages * StageBytes(tile, rights), rights * tile.m * (tile.n + 4) * 4));
  launch_.cluster = static_cast<uint32_t>(cluster);
  launch_.resident = static_cast<uint32_t>(room->resident);
  return Status::Ok();
}

}  // namespace rondo::cuda

namespace rondo {

std::vector<ProductChoice> TileChoices(const CudaTarget& target) {
  std::vector<ProductChoice> choices;
  for (const cuda::Tile& tile : cuda::kTiles) {
    if (!tile.groups || target.warp_groups) choices.push_back(cuda::ChoiceOf(tile, 0));
  }
  return choices;
}

}  // namespace rondo
