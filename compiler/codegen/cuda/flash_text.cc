// Attention on tensor cores: fills the template of device/attention_warp.cuh and attention_block.cuh.
#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostFeatures = 256;  // of a query or a value, in registers
constexpr int64_t kWarps = 8, kWarpRows = 16;
constexpr int64_t kRun = 16;      // keys of a warp at a time
constexpr int64_t kNarrow = 128;  // features and values that leave room for two blocks on a multiprocessor

std::string Text(int64_t n) { return std::to_string(n); }

}  // namespace

std::optional<PartText::FlashShape> PartText::ShapeOfFlash() const {
  const size_t m_end = part_.outer + part_.m;
  if (part_.n != 1 || part_.reduced != 1 || part_.features != 1) return std::nullopt;
  FlashShape shape;
  shape.value = m_end;
  shape.key = m_end + 1;
  shape.feature = m_end + 2;
  const Operand &query = part_.operands[part_.lhs], &key = part_.operands[part_.keys],
                &value = part_.operands[part_.values];
  for (const Operand* operand : {&query, &key, &value}) {
    if (!IsPlain(*operand) || operand->dtype != query.dtype) return std::nullopt;
  }
  if (query.dtype != DType::kF16 && query.dtype != DType::kBF16) return std::nullopt;
  if (part_.mask != kNoOperand && !IsPlain(part_.operands[part_.mask])) return std::nullopt;
  shape.bf16 = query.dtype == DType::kBF16;
  shape.keys = part_.loops[shape.key];
  shape.features = part_.loops[shape.feature];
  shape.values = part_.loops[shape.value];
  auto fits = [](int64_t features) { return features % 16 == 0 && features <= kMostFeatures; };
  if (!fits(shape.features) || !fits(shape.values) || shape.keys > (1 << 30)) return std::nullopt;
  const bool vectors = FitsLanes(part_.lhs, shape.feature, 8) && FitsLanes(part_.keys, shape.feature, 8) &&
                       FitsLanes(part_.values, shape.value, 8);
  if (!vectors) return std::nullopt;
  for (size_t l = 0; l < m_end; ++l) {
    (key.strides[l] != 0 || value.strides[l] != 0 ? shape.heads : shape.queries).push_back(l);
  }
  // Loops that the limit moves with are counted slowest, so that a tile's queries have about as many keys.
  std::stable_partition(shape.queries.begin(), shape.queries.end(), [&](size_t l) {
    return part_.limit != kNoOperand && MovesAlong(part_.operands[part_.limit], l);
  });
  for (size_t l : shape.heads) shape.groups *= part_.loops[l];
  for (size_t l : shape.queries) shape.rows *= part_.loops[l];
  if (shape.rows > 0x7fffffff || shape.groups > 0x7fffffff) return std::nullopt;
  Split(&shape);
  return shape;
}

// As many queries a block as leave a block for every multiprocessor; what is left of the device splits the
// keys.
void PartText::Split(FlashShape* shape) const {
  const double fill = target_.processors * share_;
  shape->warp_rows = std::min(shape->rows, kWarpRows);
  auto blocks = [&] { return shape->groups * shape->tiles(); };
  while (shape->tile_warps < kWarps && shape->tile_rows() < shape->rows) {
    shape->tile_warps *= 2;
    if (static_cast<double>(blocks()) >= fill) continue;
    shape->tile_warps /= 2;
    break;
  }
  constexpr int64_t kMostCluster = 8;
  const int64_t most_cluster = target_.clusters() && cluster_ == 0 ? kMostCluster : 1;
  auto useful = [&](int64_t cluster) {
    return static_cast<double>(blocks() * cluster) <= fill && shape->keys >= cluster * shape->splits() * kRun;
  };
  while (shape->cluster < most_cluster && useful(2 * shape->cluster)) shape->cluster *= 2;
}

void PartText::CountLoops(const std::string& from, const std::vector<size_t>& loops) {
  Line("{ u32 rest = " + from + ";");
  for (size_t k = loops.size(); k-- > 0;) {
    const std::string i = "i" + Text(static_cast<int64_t>(loops[k])), extent = Text(part_.loops[loops[k]]);
    Line(k == 0 ? i + " = rest;" : i + " = rest % " + extent + "u; rest /= " + extent + "u;");
  }
  Line("}");
}

std::string PartText::AddressText(uint16_t index) const {
  const Operand& operand = part_.operands[index];
  return "p" + Text(operand.param) + " + " + Text(ByteSize(operand.dtype)) + " * (" + AffineText(operand) +
         ")";
}

// This thread's two rows: where their queries are, how many keys they have, where their mask begins.
void PartText::FlashRows(const FlashShape& shape) {
  Line("const char* at[2]; int limits[2]; i64 mask_at[2]; (void)mask_at;");
  Line("#pragma unroll");
  Line("for (int h = 0; h < 2; ++h) {");
  Line("at[h] = 0; limits[h] = -1; mask_at[h] = 0;");
  Line("const u32 own = threadIdx.x % 32 / 4 + 8 * h, row = tile * " + Text(shape.tile_rows()) +
       "u + warp % " + Text(shape.tile_warps) + "u * " + Text(shape.warp_rows) + "u + own;");
  Line("if (own >= " + Text(shape.warp_rows) + "u || row >= " + Text(shape.rows) + "u) continue;");
  CountLoops("row", shape.queries);
  Line("at[h] = " + AddressText(part_.lhs) + ";");
  Line("limits[h] = " + Text(shape.keys) + ";");
  if (part_.limit != kNoOperand) {
    Load(part_.limit, "bound");
    Line("if (bound < limits[h]) limits[h] = bound < 0 ? 0 : (int)bound;");
  }
  if (part_.mask != kNoOperand) Line("mask_at[h] = " + AffineText(part_.operands[part_.mask]) + ";");
  Line("}");
}

// A score from a dot product, and the unit that makes it one of base 2.
bool PartText::FlashScore(const FlashShape& shape) {
  auto number = [](double value) { return Number(value, TapeType::kF32); };
  constexpr double kLog2E = 1.4426950408889634;
  if (part_.softcap == 0 && part_.mask == kNoOperand && part_.scale > 0) {
    Line("const float unit = " + number(part_.scale * kLog2E) + ";");
    Line("auto score = [&](int, int, float dot) -> float { return dot; };");
    return true;
  }
  Line("const float unit = " + number(kLog2E) + ";");
  Line("auto score = [&](int h, int key, float dot) -> float {");
  Line("dot *= " + number(part_.scale) + ";");
  if (part_.softcap != 0) {
    Line("dot = " + number(part_.softcap) + " * tanhf(dot / " + number(part_.softcap) + ");");
  }
  if (part_.mask != kNoOperand) {
    headers_.insert("elements");
    const Operand& mask = part_.operands[part_.mask];
    Line("const auto mask = ld_" + std::string(rondo::Name(mask.dtype)) + "(p" + Text(mask.param) +
         ", mask_at[h] + " + Text(mask.strides[shape.key]) + "ll * key);");
    const bool keep = NaturalType(mask.dtype) == TapeType::kI64;
    Line(keep ? "if (mask == 0) return kNoScore;" : "dot += (float)mask;");
  }
  Line("return dot; };");
  return false;
}

// Puts the parts of each query together and writes its results.
void PartText::FlashFinish(const FlashShape& shape) {
  int lanes = LanesFor(Touched(part_.epilogue, TapeOp::kStore), shape.value);
  // Few results: a thread for each two of them.
  if (shape.cluster > 1 && lanes > 2) lanes = 2;
  const std::string count = Text(lanes), pieces = Text(shape.values / lanes);
  const bool spread = shape.cluster > 1;
  if (spread) Line("block_out.publish(); block_out.meet();");
  Line("for (u32 item = threadIdx.x * " + Text(shape.cluster) + "u + rank; item < " +
       Text(shape.tile_rows() * shape.values / lanes) + "u; item += " + Text(256 * shape.cluster) + "u) {");
  Line("const u32 query = item / " + pieces + "u, first = item % " + pieces + "u * " + count + "u;");
  Line("const u32 row = tile * " + Text(shape.tile_rows()) + "u + query;");
  Line("if (row >= " + Text(shape.rows) + "u) continue;");
  Line("float sums[" + count + "], total;");
  if (spread) {
    Line("block_out.template gather_cluster<" + count + ", " + Text(shape.cluster) +
         ">(query, first, sums, &total);");
  } else {
    Line("float most; block_out.template gather<" + count + ">(query, first, sums, &most, &total);");
  }
  CountLoops("row", shape.queries);
  Line("i" + Text(static_cast<int64_t>(shape.value)) + " = first;");
  // No key counted: 0 / 0, as softmax over nothing but -inf gives.
  Line("{");
  WriteLanes(part_.epilogue, "r", shape.value, lanes,
             std::string("float acc0 = sums[e] / total;") +
                 (part_.nan_to_zero ? " if (acc0 != acc0) acc0 = 0;" : ""));
  Line("} }");
  if (spread) Line("block_out.meet();");
}

Status PartText::FlashAttention(const FlashShape& shape) {
  headers_.insert({"attention_block", "attention_warp"});
  const std::string tiles = Text(shape.tiles()), bf16 = shape.bf16 ? "true" : "false";
  Line("const u32 rank = block % " + Text(shape.cluster) + "u, number = block / " + Text(shape.cluster) +
       "u, group = number % " + Text(shape.groups) + "u; (void)rank;");
  // The last queries of a causal model have most keys: they go first.
  Line("const u32 tile = " + tiles + "u - 1 - number / " + Text(shape.groups) + "u;");
  const bool early = LeavesRoom(shape.groups * shape.tiles() * shape.cluster);
  if (early) Line("launch_dependents();");
  Line("const u32 warp = threadIdx.x / 32;");
  for (size_t l = 0; l < part_.loops.size(); ++l)
    Line("i64 i" + Text(static_cast<int64_t>(l)) + " = 0; (void)i" + Text(static_cast<int64_t>(l)) + ";");
  CountLoops("group", shape.heads);
  Line("const char* keys = " + AddressText(part_.keys) +
       "; const char* values = " + AddressText(part_.values) + ";");
  FlashRows(shape);
  const std::string plain = FlashScore(shape) ? "true" : "false";
  auto bytes = [&](uint16_t index) { return Text(2 * part_.operands[index].strides[shape.key]) + "ll"; };
  Line("AttentionBlock<" + Text(shape.warp_rows) + ", " + Text(shape.values) + ", " + Text(shape.splits()) +
       "> block_out;");
  Line("{ AttentionWarp<" + bf16 + ", " + Text(shape.features) + ", " + Text(shape.values) + "> warp_out;");
  Line("warp_out.template walk<" + plain + ">(at, limits, (rank * " + Text(shape.splits()) + " + warp / " +
       Text(shape.tile_warps) + ") * " + Text(kRun) + ", " + Text(kRun * shape.splits() * shape.cluster) +
       ", keys, " + bytes(part_.keys) + ", values, " + bytes(part_.values) + ", unit, score);");
  Line("block_out.keep(warp_out); }");
  if (!early) Line("launch_dependents();");
  FlashFinish(shape);
  launch_.cluster = static_cast<uint32_t>(shape.cluster);
  if (shape.features + shape.values <= kNarrow) launch_.resident = 2;
  // What AttentionBlock keeps there.
  const int64_t kept = kWarps * shape.warp_rows + (shape.cluster > 1 ? shape.tile_rows() : 0);
  launch_.shared = static_cast<uint32_t>(kept * (shape.values + 6) * 4);
  return SetBlocks(shape.groups * shape.tiles() * shape.cluster);
}

}  // namespace rondo::cuda
