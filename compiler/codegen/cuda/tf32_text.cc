// Products of f32 whose factors may be rounded to tf32 (device/matmul_tf32.cuh).
#include <algorithm>
#include <cmath>
#include <iterator>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kDeep = 32, kStages = 4;

struct Tile {
  int64_t rows, columns, warps_rows, warps_columns;  // 8 warps
};

// Of tiles that cost the same, the first is taken.
constexpr Tile kTiles[] = {{128, 128, 2, 4}, {128, 64, 4, 2}, {64, 128, 2, 4},
                           {64, 64, 2, 4},   {32, 64, 2, 4},  {32, 32, 2, 4}};

std::string Number(int64_t n) { return std::to_string(n); }

ProductChoice ChoiceOf(const Tile& tile, int64_t cluster) {
  ProductChoice choice;
  choice.by = ProductTemplate::kTf32;
  choice.rows = tile.rows;
  choice.columns = tile.columns;
  choice.cluster = cluster;
  return choice;
}

// Lines are padded by four elements: at most those of sides of 32.
int64_t StageBytes(const Tile& tile, int64_t rights) {
  auto side = [](int64_t extent) { return std::max(extent * (kDeep + 4), kDeep * (extent + 4)) * 4; };
  return side(tile.rows) + rights * side(tile.columns);
}

int64_t SharedBytes(const Tile& tile, int64_t rights) {
  return std::max(kStages * StageBytes(tile, rights), rights * tile.rows * (tile.columns + 4) * 4);
}

}  // namespace

// As for tiles of 16-bit types, with half the rate at most: fragments are loaded element by element.
std::vector<ProductOffer> PartText::OfferTf32Tiles(const ProductShape& shape) const {
  std::vector<ProductOffer> offers;
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  if (!part_.tf32 || rhs.dtype != DType::kF32 || (part_.prologue.empty() && lhs.dtype != DType::kF32) ||
      !SuitsFloatTiles(shape))
    return offers;
  const int64_t steps = (shape.depths + kDeep - 1) / kDeep;
  for (const Tile& tile : kTiles) {
    if (SharedBytes(tile, rights) > static_cast<int64_t>(target_.shared)) continue;
    for (int64_t cluster : Clusters(steps)) {
      const double area = static_cast<double>(tile.rows * tile.columns * rights),
                   parts = static_cast<double>(cluster),
                   own_steps = std::ceil(static_cast<double>(steps) / static_cast<double>(cluster));
      const double copy = static_cast<double>(StageBytes(tile, rights)) / 26;
      const double rate = 300 * std::min(1.0, std::sqrt(area / 8 / 2048));
      const double end = area / 20 + (cluster > 1 ? 1500 + 600 * parts + area * 0.1 * (parts - 1) : 0);
      const double busiest = BusiestBlocks(shape, tile.rows, tile.columns, cluster);
      offers.push_back({ChoiceOf(tile, cluster),
                        4200 + busiest * (own_steps * std::max(copy, area * kDeep / rate) + end)});
    }
  }
  return offers;
}

Status PartText::Tf32Product(const ProductShape& shape, const ProductChoice& choice) {
  headers_.insert("matmul_tf32");
  const Tile& tile = *std::find_if(std::begin(kTiles), std::end(kTiles),
                                   [&](const Tile& t) { return ChoiceOf(t, choice.cluster) == choice; });
  const int64_t rights = static_cast<int64_t>(part_.rhs.size()), cluster = choice.cluster;
  const int64_t row_tiles = (shape.rows + tile.rows - 1) / tile.rows,
                column_tiles = (shape.columns + tile.columns - 1) / tile.columns;
  WriteTilePlaces(shape, cluster, row_tiles, column_tiles);
  const int vector = FinishVector(shape);
  WriteFinish(shape, vector);
  auto truth = [](bool b) { return std::string(b ? "true" : "false"); };
  Line("tf32_product<" + Number(tile.rows) + ", " + Number(tile.columns) + ", " + Number(tile.warps_rows) +
       ", " + Number(tile.warps_columns) + ", " + Number(kStages) + ", " + Number(rights) + ", " +
       Number(cluster) + ", " + truth(shape.lhs_along_depth) + ", " +
       Number(LeftIsMade() ? 0 : shape.lhs_vector) + ", " + truth(shape.rhs_along_depth) + ", " +
       Number(shape.rhs_vector) + ", " + Number(vector) + ", " + truth(RightIsConstant()) + ">" +
       TileArguments(shape));
  RONDO_RETURN_IF_ERROR(SetBlocks(shape.batches * row_tiles * column_tiles * cluster));
  launch_.shared = static_cast<uint32_t>(SharedBytes(tile, rights));
  launch_.cluster = static_cast<uint32_t>(cluster);
  return Status::Ok();
}

}  // namespace rondo::cuda
