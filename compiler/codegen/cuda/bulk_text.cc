// Contractions whose tiles TMA brings, for wgmma (device/matmul_tma.cuh).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

std::string Text(int64_t n) { return std::to_string(n); }

constexpr int64_t kDeep = 64;  // of a stage: a line of 128 bytes

struct BulkTile {
  int64_t m, n;
};
// Of tiles that cost the same, the first is taken.
constexpr BulkTile kTiles[] = {{128, 256}, {128, 224}, {128, 208}, {128, 192}, {128, 160},
                               {128, 128}, {128, 96},  {128, 64},  {64, 256},  {64, 192},
                               {64, 128},  {64, 96},   {64, 64}};

// What the blocks of a cluster are: `down` share the columns, `across` the rows, and `split` divide the
// depth.
struct Sharing {
  int64_t down, across, split;
  int64_t blocks() const { return down * across * split; }
};
constexpr Sharing kSharings[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 1, 4}, {1, 1, 8}};

ProductChoice ChoiceOf(const BulkTile& tile, const Sharing& sharing) {
  ProductChoice choice;
  choice.by = ProductTemplate::kBulk;
  choice.rows = tile.m;
  choice.columns = tile.n;
  choice.warps_rows = sharing.down;
  choice.warps_columns = sharing.across;
  choice.warps_deep = sharing.split;
  choice.cluster = sharing.blocks();
  return choice;
}

// Columns of the right side in shared memory: whole lines of 64 where they lie along lines.
int64_t LoadedColumns(const ProductShape& shape, int64_t n) {
  return shape.rhs_along_depth ? n : (n + 63) / 64 * 64;
}

int64_t StageBytes(const ProductShape& shape, const BulkTile& tile, int64_t rights) {
  return (tile.m + rights * LoadedColumns(shape, tile.n)) * kDeep * 2;
}

// Whether the template can do that: registers for the sums, and no sides narrower than their lines.
bool Suits(const ProductShape& shape, const BulkTile& tile, const Sharing& sharing, int64_t rights) {
  const bool at_once = shape.rhs_along_depth || tile.n % 64 == 0;
  const int64_t steps = (shape.depths + kDeep - 1) / kDeep;
  return rights * tile.n <= 256 && (rights == 1 || (at_once && tile.n % 16 == 0)) &&
         (rights == 1 || (rights * tile.n) % 64 == 0) && sharing.split <= steps;
}

// Clusters' tiles.
int64_t Tiles(const ProductShape& shape, const BulkTile& tile, const Sharing& sharing) {
  const int64_t m = tile.m * sharing.down, n = tile.n * sharing.across;
  return shape.batches * ((shape.rows + m - 1) / m) * ((shape.columns + n - 1) / n);
}

// Blocks of a part: as many as run at once, each with one tile after another; where they split the depth, one
// tile each.
int64_t Blocks(const ProductShape& shape, const BulkTile& tile, const Sharing& sharing, double processors) {
  const int64_t tiles = Tiles(shape, tile, sharing), cluster = sharing.blocks();
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(processors) / cluster);
  return (sharing.split > 1 ? tiles : std::min(tiles, most)) * cluster;
}

// Bytes besides the stages: to align them, barriers, and what sums go through.
int64_t FixedBytes(const BulkTile& tile, int64_t rights, int64_t stages, const Sharing& sharing) {
  const int64_t piece = rights == 1 && tile.n % 32 == 0 ? 32 : 16;
  const int64_t sums = sharing.split > 1 ? 0 : tile.m / 16 * rights * 16 * (piece + 8) * 4;
  return 1024 + 16 * stages + sums;
}

// Stages that fit, 0 if too few do. The sums of a split depth lie where the stages were.
int64_t Stages(const ProductShape& shape, const BulkTile& tile, const Sharing& sharing, int64_t rights,
               const CudaTarget& target) {
  constexpr int64_t kMost = 12, kLeast = 3;
  const int64_t bytes = StageBytes(shape, tile, rights);
  const int64_t fit = (target.shared - FixedBytes(tile, rights, kMost, sharing)) / bytes;
  const int64_t sums = sharing.split > 1 ? rights * tile.m * (tile.n + 4) * 4 : 0;
  const int64_t steps = (shape.depths + kDeep - 1) / kDeep;
  const int64_t useful = sharing.split > 1 ? (steps + sharing.split - 1) / sharing.split : kMost;
  const int64_t stages = std::min({fit, kMost, std::max({kLeast, useful, (sums + bytes - 1) / bytes})});
  return stages < kLeast || stages * bytes < sums ? 0 : stages;
}

// Cycles of the busiest multiprocessor. The rates are those measured on an H200: 72 bytes a cycle into a
// multiprocessor, 6000 from the second level cache for all of them, 2500 from memory; 1500 products a cycle,
// 1600 where blocks share what they read; the epilogue at one instruction a lane and cycle, where there are
// warps enough.
double Cycles(const ProductShape& shape, const BulkTile& tile, const Sharing& sharing, int64_t rights,
              double processors, double finish) {
  const double cluster = static_cast<double>(sharing.blocks()), split = static_cast<double>(sharing.split);
  // A cluster lies in one group of multiprocessors; those groups are no multiples of 4 and 8.
  const double used = cluster >= 8 ? 0.84 : cluster >= 4 ? 0.9 : 1;
  const double at_once = std::max(1.0, std::floor(used * processors / cluster));
  const double busiest = std::ceil(static_cast<double>(Tiles(shape, tile, sharing)) / at_once);
  const double steps = std::ceil(static_cast<double>((shape.depths + kDeep - 1) / kDeep) / split);
  const double area = static_cast<double>(tile.m * tile.n * rights);
  const double left = static_cast<double>(tile.m * kDeep * 2),
               right = static_cast<double>(rights * LoadedColumns(shape, tile.n) * kDeep * 2);
  // Blocks at work at once, of which this part has its share of the device.
  const double blocks = std::min(static_cast<double>(Tiles(shape, tile, sharing)), at_once) * cluster,
               device = 132 / processors;
  const double read = left / static_cast<double>(sharing.across) + right / static_cast<double>(sharing.down);
  const double copy = std::max((left + right) / 72, read * blocks * device / 6000);
  const bool shared = sharing.down * sharing.across > 1;
  const double product = area * static_cast<double>(kDeep) / (shared ? 1600 : 1500);
  const double points = static_cast<double>(tile.m * tile.n) / split;
  double end = points * finish / 128 * (tile.m == 64 ? 1.6 : 1);
  if (sharing.split > 1) end += 600 + 500 * split + 0.07 * area * (split - 1);
  // All right sides come once from memory, at 2500 bytes a cycle.
  const double memory = static_cast<double>(shape.batches * shape.columns * shape.depths * rights * 2) /
                        (2500 * std::min(1.0, processors / 100));
  return 2500 + (shared ? 1000 : 0) + std::max(memory, busiest * (steps * std::max(copy, product) + end));
}

// Loops whose points lie evenly, as one: how many, and elements from one to the next.
struct Run {
  int64_t extent, stride;
};
// The runs of some loops, innermost first.
std::vector<Run> RunsOf(const Part& part, const std::vector<size_t>& loops, const FlatOperand& operand) {
  std::vector<Run> runs;
  for (size_t n = loops.size(); n-- > 0;) {
    const int64_t extent = part.loops[loops[n]], stride = operand.strides[loops[n]];
    if (extent == 1) continue;
    if (!runs.empty() && stride == runs.back().stride * runs.back().extent) {
      runs.back().extent *= extent;
    } else {
      runs.push_back({extent, stride});
    }
  }
  if (runs.empty()) runs.push_back({1, 1});
  return runs;
}

// None unless the copy engine can go along them.
std::optional<TensorMap> MapOf(const Operand& operand, const FlatOperand& flat,
                               const std::vector<Run>& runs) {
  const int64_t size = ByteSize(operand.dtype), line = 16 / size;
  if (!flat.coordinates.empty() || !operand.indirects.empty() || flat.offset < 0 || runs[0].stride != 1)
    return std::nullopt;
  TensorMap map;
  map.param = operand.param;
  map.offset = static_cast<uint64_t>(flat.offset * size);
  map.dtype = operand.dtype;
  map.rank = static_cast<uint32_t>(runs.size());
  for (size_t d = 0; d < runs.size(); ++d) {
    const int64_t stride = runs[d].extent == 1 ? line : runs[d].stride;
    if (d > 0 && (stride < 1 || stride % line != 0)) return std::nullopt;
    map.extents[d] = static_cast<uint64_t>(runs[d].extent);
    if (d > 0) map.strides[d - 1] = static_cast<uint64_t>(stride * size);
    map.box[d] = 1;
  }
  map.box[0] = kDeep;
  map.swizzle = 128;
  return map;
}

}  // namespace

// The left side's map (depth, rows, far depth, far rows, batches), then one a right side (line, lines,
// batches).
std::optional<PartText::BulkSides> PartText::SidesOf(const ProductShape& shape) const {
  constexpr Run kOne = {1, 1};
  BulkSides sides;
  const Operand& lhs = part_.operands[part_.lhs];
  const FlatOperand left = Flatten(part_, lhs);
  std::vector<Run> depth = RunsOf(part_, shape.depth, left), row = RunsOf(part_, shape.row, left),
                   batch = RunsOf(part_, shape.batch, left);
  if (depth.size() > 2 || row.size() > 2 || batch.size() > 1) return std::nullopt;
  if (depth.size() == 2 && depth[0].extent % kDeep != 0) return std::nullopt;
  sides.depth_run = depth[0].extent;
  sides.row_run = row[0].extent;
  depth.push_back(kOne);
  row.push_back(kOne);
  std::vector<std::optional<TensorMap>> maps = {
      MapOf(lhs, left, {depth[0], row[0], depth[1], row[1], batch[0]})};
  for (uint16_t index : part_.rhs) {
    const Operand& rhs = part_.operands[index];
    const FlatOperand right = Flatten(part_, rhs);
    const std::vector<Run> along = RunsOf(part_, shape.depth, right),
                           across = RunsOf(part_, shape.column, right),
                           over = RunsOf(part_, shape.batch, right);
    if (along.size() > 1 || across.size() > 1 || over.size() > 1) return std::nullopt;
    maps.push_back(shape.rhs_along_depth ? MapOf(rhs, right, {along[0], across[0], over[0]})
                                         : MapOf(rhs, right, {across[0], along[0], over[0]}));
  }
  for (const std::optional<TensorMap>& map : maps) {
    if (!map) return std::nullopt;
    sides.maps.push_back(*map);
  }
  return sides;
}

std::vector<ProductOffer> PartText::OfferBulk(const ProductShape& shape) const {
  std::vector<ProductOffer> offers;
  const DType type = part_.operands[part_.lhs].dtype;
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const bool fits = target_.warp_groups && part_.skeleton == Skeleton::kContraction &&
                    part_.prologue.empty() && part_.acc_type == TapeType::kF32 &&
                    (type == DType::kF16 || type == DType::kBF16) &&
                    part_.operands[part_.rhs[0]].dtype == type && rights <= 2 && shape.lhs_along_depth &&
                    shape.lhs_vector == 8 && shape.rhs_vector == 8 && shape.rows > 16 &&
                    shape.columns >= 32 && shape.depths >= 64;
  const std::optional<BulkSides> sides = fits ? SidesOf(shape) : std::nullopt;
  if (!sides) return offers;
  for (const BulkTile& tile : kTiles) {
    if (sides->row_run < shape.rows && sides->row_run % tile.m != 0) continue;
    for (const Sharing& sharing : kSharings) {
      if (cluster_ != 0 && sharing.blocks() != static_cast<int64_t>(cluster_)) continue;
      if (!Suits(shape, tile, sharing, rights) || Stages(shape, tile, sharing, rights, target_) == 0)
        continue;
      offers.push_back(
          {ChoiceOf(tile, sharing), Cycles(shape, tile, sharing, rights, Processors(), FinishCost())});
    }
  }
  return offers;
}

Status PartText::BulkProduct(const ProductShape& shape, const ProductChoice& choice) {
  headers_.insert("matmul_tma");
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const BulkTile tile = {choice.rows, choice.columns};
  const Sharing sharing = {choice.warps_rows, choice.warps_columns, choice.warps_deep};
  const int64_t stages = Stages(shape, tile, sharing, rights, target_);
  const int64_t blocks = Blocks(shape, tile, sharing, Processors());
  auto truth = [](bool b) { return std::string(b ? "true" : "false"); };
  const BulkSides sides = *SidesOf(shape);
  launch_.tensor_maps = sides.maps;
  for (TensorMap& map : launch_.tensor_maps) {
    const int64_t lines = shape.rhs_along_depth ? tile.n / sharing.down : kDeep / sharing.down;
    map.box[1] = static_cast<uint32_t>(map.rank == 5 ? tile.m / sharing.across : lines);
  }
  Line("u32 batch = 0;");
  const int vector = FinishVector(shape);
  const std::vector<std::string> outer_lanes = lanes_;
  const int words = WriteFetch(shape, vector);
  WriteFinish(shape, vector, ", const u32* words");
  lanes_ = outer_lanes;
  Line(std::string("const BulkMap* const right[] = {&m1") + (rights == 2 ? ", &m2" : "") + "};");
  Line("bulk_product<" + Text(tile.m) + ", " + Text(tile.n) + ", " + Text(stages) + ", " + Text(rights) +
       ", " + Text(sharing.down) + ", " + Text(sharing.across) + ", " + Text(sharing.split) + ", " +
       truth(shape.rhs_along_depth) + ", " + Text(vector) + ", " +
       truth(part_.operands[part_.lhs].dtype == DType::kBF16) + ", " + truth(RightIsConstant()) + ", " +
       Text(words) + ">(block, " + Text(blocks) + "u, " + Text(shape.rows) + ", " + Text(shape.columns) +
       ", " + Text(shape.depths) + ", " + Text(shape.batches) + ", " + Text(sides.row_run) + ", " +
       Text(sides.depth_run) + ", &m0, right, batch, fetch, finish);");
  RONDO_RETURN_IF_ERROR(SetBlocks(blocks));
  launch_.block = static_cast<uint32_t>(tile.m * 2 + 32);
  launch_.shared = static_cast<uint32_t>(stages * StageBytes(shape, tile, rights) +
                                         FixedBytes(tile, rights, stages, sharing));
  launch_.cluster = static_cast<uint32_t>(sharing.blocks());
  return Status::Ok();
}

}  // namespace rondo::cuda

namespace rondo {

std::vector<ProductChoice> BulkChoices(const CudaTarget& target) {
  std::vector<ProductChoice> choices;
  if (!target.warp_groups) return choices;
  for (const cuda::BulkTile& tile : cuda::kTiles) {
    for (const cuda::Sharing& sharing : cuda::kSharings) choices.push_back(cuda::ChoiceOf(tile, sharing));
  }
  return choices;
}

}  // namespace rondo
