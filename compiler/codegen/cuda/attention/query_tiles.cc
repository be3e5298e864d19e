#include "compiler/codegen/cuda/attention/query_tiles.h"

#include <algorithm>

#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostFeatures = 512;  // features of a query, kept in shared memory

// Which of the loops before the values' loop have keys of their own.
void CountQueries(const Part& part, QueryTiles* tiles) {
  const Operand &key = part.operands[part.keys], &value = part.operands[part.values];
  for (size_t l = 0; l < tiles->value; ++l) {
    (key.strides[l] != 0 || value.strides[l] != 0 ? tiles->heads : tiles->queries).push_back(l);
  }
  // Loops that move the limit are counted slowest, so that a tile's queries have about the same number of
  // keys.
  std::stable_partition(tiles->queries.begin(), tiles->queries.end(), [&](size_t l) {
    return part.limit != kNoOperand && MovesAlong(part, part.operands[part.limit], l);
  });
  for (size_t l : tiles->heads) tiles->groups *= part.loops[l];
  for (size_t l : tiles->queries) tiles->rows *= part.loops[l];
}

}  // namespace

namespace {

// Elements that one copy can take, up to 16 bytes.
int LanesOf(const PartContext& context, uint16_t index, size_t along) {
  const Operand& operand = context.part.operands[index];
  if (context.part.loops[along] > 1 && operand.strides[along] != 1) return 0;
  return VectorAlong(context.part, operand, along, context.params[operand.param]);
}

// The operands must all have one dtype.
std::optional<QueryTiles> TilesOf(const PartContext& context) {
  const Part& part = context.part;
  const size_t m_end = part.outer + part.m;
  if (part.n != 1 || part.reduced != 1 || part.features != 1) return std::nullopt;
  QueryTiles tiles;
  tiles.value = m_end;
  tiles.key = m_end + 1;
  tiles.feature = m_end + 2;
  const Operand &query = part.operands[part.lhs], &key = part.operands[part.keys],
                &value = part.operands[part.values];
  for (const Operand* operand : {&query, &key, &value}) {
    if (!IsPlain(*operand) || operand->dtype != query.dtype) return std::nullopt;
  }
  tiles.bf16 = query.dtype == DType::kBF16;
  tiles.keys = part.loops[tiles.key];
  tiles.features = part.loops[tiles.feature];
  tiles.values = part.loops[tiles.value];
  if (tiles.features > kMostFeatures || tiles.values > QueryTiles::kMostValues || tiles.keys > (1 << 30))
    return std::nullopt;
  tiles.query_lanes = LanesOf(context, part.lhs, tiles.feature);
  tiles.key_lanes = LanesOf(context, part.keys, tiles.feature);
  tiles.value_lanes = LanesOf(context, part.values, tiles.value);
  CountQueries(part, &tiles);
  tiles.warp_rows = std::min(tiles.rows, tiles.warp_rows);
  if (tiles.rows > 0x7fffffff || tiles.groups > 0x7fffffff) return std::nullopt;
  return tiles;
}

}  // namespace

std::optional<QueryTiles> QueryTilesOf(const PartContext& context) {
  return Is16Bit(context.part.operands[context.part.lhs].dtype) ? TilesOf(context) : std::nullopt;
}

std::optional<QueryTiles> FloatQueryTilesOf(const PartContext& context) {
  return context.part.operands[context.part.lhs].dtype == DType::kF32 ? TilesOf(context) : std::nullopt;
}

std::string BytesText(const PartContext& context, uint16_t index, size_t along) {
  const Operand& operand = context.part.operands[index];
  return Text(ByteSize(operand.dtype) * operand.strides[along]) + "ll";
}

std::string LinesText(const PartContext& context, std::string_view first, uint16_t index, size_t line,
                      size_t element) {
  return "{" + std::string(first) + ", " + BytesText(context, index, line) + ", " +
         BytesText(context, index, element) + "}";
}

void WriteTilePlace(const PartContext& context, const QueryTiles& tiles, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("const u32 rank = block % " + Text(tiles.cluster) + "u, number = block / " +
               Text(tiles.cluster) + "u, group = number % " + Text(tiles.groups) + "u; (void)rank;");
  // The last queries of a causal model have the most keys, so that they go first.
  writer->Line("const u32 tile = " + Text(tiles.tiles()) + "u - 1 - number / " + Text(tiles.groups) + "u;");
  writer->Line("const u32 warp = threadIdx.x / 32;");
  writer->DeclareLoops();
  writer->CountLoops("group", tiles.heads);
  writer->Line("const char* keys = " + writer->AddressText(part.keys) +
               "; const char* values = " + writer->AddressText(part.values) + ";");
}

void WriteTileWait(const PartContext& context, const QueryTiles& tiles, PartWriter* writer) {
  const bool small = context.LeavesRoom(tiles.blocks()), early = small && context.target.begins_early;
  if (early) writer->Line("launch_dependents();");
  writer->Line("wait_for_earlier();");
  if (small && !early) writer->Line("launch_dependents();");
}

void WriteQueryAt(const PartContext& context, const QueryTiles& tiles, PartWriter* writer) {
  writer->Line("auto query_at = [&](int line) -> const char* {");
  writer->Line("const u32 row = tile * " + Text(tiles.tile_rows()) + "u + line;");
  writer->Line("if (row >= " + Text(tiles.rows) + "u) return 0;");
  writer->CountLoops("row", tiles.queries);
  writer->Line("return " + writer->AddressText(context.part.lhs) + "; };");
}

void WriteQueryRows(const PartContext& context, const QueryTiles& tiles, ThreadRows rows,
                    PartWriter* writer) {
  const Part& part = context.part;
  const std::string count = Text(rows.count);
  writer->Line("const char* at[" + count + "]; int limits[" + count + "]; i64 mask_at[" + count +
               "]; (void)mask_at;");
  writer->Line("#pragma unroll");
  writer->Line("for (int h = 0; h < " + count + "; ++h) {");
  writer->Line("at[h] = 0; limits[h] = -1; mask_at[h] = 0;");
  writer->Line("const u32 own = " + std::string(rows.number) + ", row = tile * " + Text(tiles.tile_rows()) +
               "u + warp % " + Text(tiles.tile_warps) + "u * " + Text(tiles.warp_rows) + "u + own;");
  writer->Line("if (own >= " + Text(tiles.warp_rows) + "u || row >= " + Text(tiles.rows) + "u) continue;");
  writer->CountLoops("row", tiles.queries);
  writer->Line("at[h] = " + writer->AddressText(part.lhs) + ";");
  writer->Line("limits[h] = " + Text(tiles.keys) + ";");
  if (part.limit != kNoOperand) {
    writer->Load(part.limit, "bound");
    writer->Line("if (bound < limits[h]) limits[h] = bound < 0 ? 0 : (int)bound;");
  }
  if (part.mask != kNoOperand && IsPlain(part.operands[part.mask])) {
    const Operand& mask = part.operands[part.mask];
    writer->Line("mask_at[h] = " + AffineText(mask.offset, mask.strides) + ";");
  } else if (part.mask != kNoOperand) {
    writer->Line("mask_at[h] = row;");
  }
  writer->Line("}");
}

namespace {

// Whether vectors of `lanes` keys begin at aligned elements in all rows of the mask, and the last of a row
// ends before the next row begins.
bool HasRowsOfVectors(const PartContext& context, const Operand& mask, size_t along, int64_t lanes) {
  const Part& part = context.part;
  const int64_t bytes = lanes * ByteSize(mask.dtype);
  if (bytes > 16 || context.params[mask.param].alignment % static_cast<uint64_t>(bytes) != 0) return false;
  const int64_t keys = part.loops[along];
  int64_t pitch = INT64_MAX;
  for (size_t l = 0; l < part.loops.size(); ++l) {
    if (l == along || part.loops[l] == 1 || mask.strides[l] == 0) continue;
    if (mask.strides[l] % lanes != 0) return false;
    pitch = std::min(pitch, std::abs(mask.strides[l]));
  }
  const bool apart = keys % lanes == 0 || (pitch != INT64_MAX &&
                                           mask.offset % pitch + (keys + lanes - 1) / lanes * lanes <= pitch);
  return apart && mask.offset % lanes == 0;
}

}  // namespace

std::optional<int> MaskLanes(const PartContext& context, const QueryTiles& tiles) {
  const Part& part = context.part;
  if (part.mask == kNoOperand) return std::nullopt;
  const Operand& mask = part.operands[part.mask];
  if (!IsPlain(mask) || mask.strides[tiles.key] != 1 || ByteSize(mask.dtype) > 4) return std::nullopt;
  int lanes = 8;
  while (lanes > 1 && !HasRowsOfVectors(context, mask, tiles.key, lanes)) lanes /= 2;
  return lanes;
}

namespace {

// The element of a mask, given its bits.
std::string MaskOfBits(DType type) {
  switch (type) {
    case DType::kF32: return "bits_float(bits)";
    case DType::kF16: return "half_float((unsigned short)bits)";
    case DType::kBF16: return "bf16_float((unsigned short)bits)";
    default:
      return IsFp8(type) ? type == DType::kE4M3 ? "fp8_float<3>((unsigned char)bits)"
                                                : "fp8_float<2>((unsigned char)bits)"
                         : "bits";
  }
}

}  // namespace

bool WriteScore(const PartContext& context, const QueryTiles& tiles, bool ahead, PartWriter* writer) {
  const Part& part = context.part;
  auto number = [](double value) { return NumberText(value, TapeType::kF32); };
  constexpr double kLog2E = 1.4426950408889634;
  if (part.softcap == 0 && part.mask == kNoOperand && part.scale > 0) {
    writer->Line("const float unit = " + number(part.scale * kLog2E) + ";");
    writer->Line("auto score = [&](int, int, float dot) -> float { return dot; };");
    return true;
  }
  writer->Line("const float unit = " + number(kLog2E) + ";");
  writer->Line("auto score = [&](int h, int key, float dot" + std::string(ahead ? ", u32 bits" : "") +
               ") -> float {");
  writer->Line("dot *= " + number(part.scale) + ";");
  if (part.softcap != 0) {
    writer->Line("dot = " + number(part.softcap) + " * tanhf(dot / " + number(part.softcap) + ");");
  }
  if (part.mask != kNoOperand) {
    const Operand& mask = part.operands[part.mask];
    writer->Include("elements");
    if (ahead) {
      writer->Line("const auto mask = " + MaskOfBits(mask.dtype) + ";");
    } else if (IsPlain(mask)) {
      writer->Line("const auto mask = ld_" + std::string(Name(mask.dtype)) + "(p" + Text(mask.param) +
                   ", mask_at[h] + " + Text(mask.strides[tiles.key]) + "ll * key);");
    } else {
      writer->CountLoops("(u32)mask_at[h]", tiles.queries);
      writer->Line(Counter(tiles.key) + " = key;");
      writer->Load(part.mask, "mask");
      writer->Line(Counter(tiles.key) + " = 0;");
    }
    const bool keep = NaturalType(mask.dtype) == TapeType::kI64;
    const bool wide = mask.dtype != DType::kF16;  // some scaled values overflow
    writer->Line(keep   ? "if (mask == 0) return kNoScore;"
                 : wide ? "dot = masked_score(dot, (float)mask);"
                        : "dot += (float)mask;");
  }
  writer->Line("return dot; };");
  return false;
}

int ResultLanes(const PartContext& context, const QueryTiles& tiles) {
  return LanesFor(context, Touched(context.part.epilogue, TapeOp::kStore), tiles.value);
}

void WriteQueryResults(const PartContext& context, const QueryTiles& tiles, PartWriter* writer) {
  const Part& part = context.part;
  // In a cluster, a thread has a pair of values.
  const int lanes = tiles.cluster > 1 ? 2 : ResultLanes(context, tiles);
  const std::string count = Text(lanes), pieces = Text(tiles.values / lanes);
  const bool spread = tiles.cluster > 1;
  if (spread) writer->Line("block_out.template send<" + Text(tiles.cluster) + ">(rank);");
  writer->Line("for (u32 item = threadIdx.x * " + Text(tiles.cluster) + "u + rank; item < " +
               Text(tiles.tile_rows() * tiles.values / lanes) +
               "u; item += " + Text(kCudaBlock * tiles.cluster) + "u) {");
  writer->Line("const u32 query = item / " + pieces + "u, first = item % " + pieces + "u * " + count + "u;");
  writer->Line("const u32 row = tile * " + Text(tiles.tile_rows()) + "u + query;");
  writer->Line("if (row >= " + Text(tiles.rows) + "u) continue;");
  writer->Line("float sums[" + count + "], total;");
  if (spread) {
    writer->Line("block_out.template gather_cluster<" + Text(tiles.cluster) + ">(item, sums, &total);");
  } else {
    writer->Line("float most; block_out.template gather<" + count + ">(query, first, sums, &most, &total);");
  }
  writer->CountLoops("row", tiles.queries);
  writer->Line(Counter(tiles.value) + " = first;");
  // If no key counted, this is 0 / 0, like softmax over only -inf.
  writer->Line("{ const float share = 1.0f / total;");
  writer->WriteLanes(part.epilogue, "r", tiles.value, lanes,
                     std::string("float acc0 = sums[e] * share;") +
                         (part.nan_to_zero ? " if (acc0 != acc0) acc0 = 0;" : ""));
  writer->Line("} }");
}

}  // namespace rondo::cuda
