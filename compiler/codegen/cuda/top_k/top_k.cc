// The first elements of rows: warps that sort short rows, and blocks or clusters that search long ones
// (device/top_k.cuh).
#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/codegen/cuda/device/top_k_layout.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/team_limits.h"
#include "compiler/codegen/cuda/top_k/top_k_variants.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"scalar", "top_k"};

constexpr int64_t kWarp = 32, kMostOfWarp = 256;  // elements of a row that a warp sorts
constexpr int64_t kMostShared = 128 << 10;        // bytes that a block puts in order
constexpr int64_t kFewRanks = 256;                // of a block that could have fewer
constexpr int64_t kSlice = 8192;                  // elements of a block that could have fewer

DType ElementType(const Part& part) { return part.operands[part.lhs].dtype; }

int KeyBits(DType type) { return IsFp8(type) ? 16 : static_cast<int>(8 * ByteSize(type)); }

struct RowsOf {
  int64_t rows, ranks, elements;
};
RowsOf RowsOfPart(const PartContext& context) {
  const size_t first = static_cast<size_t>(context.part.outer) + context.part.m;
  return {context.Points(0, first), context.part.loops[first], context.part.loops[first + 1]};
}

// Few rows are shared by several blocks, which take ranks, and by clusters, whose blocks take elements.
TopKRows TopKShapeOf(const PartContext& context) {
  const RowsOf of = RowsOfPart(context);
  const double processors = context.Processors();
  const auto free = [&](int64_t blocks) {
    return static_cast<int64_t>(processors / static_cast<double>(blocks));
  };
  TopKRows shape = {};
  shape.elements = static_cast<int>(of.elements);
  shape.count = static_cast<int>(of.ranks);
  shape.bits = KeyBits(ElementType(context.part));
  const int64_t most = kMostShared / shape.element_bytes() / 2;  // with room for as many again
  const int64_t chunks =
      std::max((of.ranks - 1) / most + 1, std::min(free(of.rows), (of.ranks - 1) / kFewRanks + 1));
  shape.chunk = static_cast<int>((of.ranks - 1) / std::max<int64_t>(1, chunks) + 1);
  const int64_t blocks = of.rows * ((of.ranks - 1) / shape.chunk + 1);
  shape.cluster = 1;
  if (context.target.clusters() && context.cluster == 0) {
    while (shape.cluster < kTeamBlocks && free(blocks) >= 2 * shape.cluster &&
           of.elements >= 2 * shape.cluster * kSlice / 2)
      shape.cluster *= 2;
  }
  const int64_t own = of.elements / shape.cluster;
  shape.threads = own > 4096 || shape.room() > 2048 ? 1024 : own > 2048 ? 512 : own > 1024 ? 256 : 128;
  return shape;
}

// Writes the lambdas: an element's key, of type `type`, and what becomes of an element of a rank.
void WriteAccesses(const PartContext& context, const std::string& type, PartWriter* writer) {
  const Part& part = context.part;
  const size_t rank = static_cast<size_t>(part.outer) + part.m;
  const int bits = KeyBits(ElementType(part));
  std::string key = "key_" + std::string(Name(ElementType(part))) + "(x)";
  if (part.combine == Combine::kMax) {
    key = bits < 32 ? Text((1 << bits) - 1) + "u - " + key : "~" + key;
  }
  writer->Line("const auto key_at = [&](u32 at) -> " + type + " {");
  writer->ZeroLoops(rank, rank + 1);
  writer->Line("const i64 " + Counter(rank + 1) + " = at; (void)" + Counter(rank + 1) + ";");
  writer->Load(part.lhs, "x");
  writer->Line("return " + key + "; };");
  writer->Line("const auto store_at = [&](u32 rank_of_row, u32 place) {");
  writer->Line("const i64 " + Counter(rank) + " = rank_of_row; (void)" + Counter(rank) + ";");
  writer->ZeroLoops(rank + 1, rank + 2);
  writer->Line("const i64 acc0 = place;");
  writer->WriteTape(part.epilogue, "r");
  writer->Line("};");
}

// ------------------------------------------------------------------------------------- short rows

int64_t ItemsOfLane(const RowsOf& of) {
  return std::max<int64_t>(1,
                           static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(of.elements))) / kWarp);
}

std::vector<KernelCandidate> LanesCandidates(const PartContext& context) {
  const RowsOf of = RowsOfPart(context);
  const int bits = KeyBits(ElementType(context.part));
  if (of.elements > kMostOfWarp || bits > 32) return {};
  // Of each pair of a network's steps: a shuffle, a comparison, a choice; twice for two words.
  constexpr double kStep = 4, kIssued = 4, kAround = 60;
  const GpuTable& gpu = GpuTableOf(context.target);
  const double items = static_cast<double>(ItemsOfLane(of)), log = std::log2(kWarp * items),
               steps = log * (log + 1) / 2 * items * kStep * (bits == 32 ? 2 : 1);
  const double warps = std::ceil(static_cast<double>(of.rows) / context.Processors());
  const double cycles = gpu.element_start + std::max(4 * steps, warps * (steps + kAround * items) / kIssued);
  return {{{}, cycles / gpu.cycles_a_microsecond}};
}

Result<PartLaunch> WriteLanes(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const RowsOf of = RowsOfPart(context);
  const Part& part = context.part;
  const int64_t warps = kCudaBlock / kWarp;
  const std::string type = KeyBits(ElementType(part)) == 32 ? "u64" : "u32";
  writer->Line("const u32 row = block * " + Text(warps) + "u + threadIdx.x / 32;");
  writer->Line("if (row >= " + Text(of.rows) + "u) return;");
  writer->Decode("row", 0, static_cast<size_t>(part.outer) + part.m);
  writer->Line("wait_for_earlier();");
  WriteAccesses(context, "u32", writer);
  writer->Line("top_k_lanes<" + Text(of.elements) + ", " + Text(of.ranks) + ", " + Text(ItemsOfLane(of)) +
               ", " + type + ">(key_at, store_at);");
  return WithBlocks((of.rows - 1) / warps + 1);
}

// -------------------------------------------------------------------------------------- long rows

// Digits that are counted, and then the elements that are listed: of most rows two passes or three.
double RowMicroseconds(const PartContext& context, const TopKRows& shape) {
  constexpr double kPass = 1800, kElement = 22,
                   kExchange = 1500;  // cycles: of a pass, a warp's element, a cluster
  constexpr double kPair = 16, kStage = 60, kIssued = 4;
  const GpuTable& gpu = GpuTableOf(context.target);
  const RowsOf of = RowsOfPart(context);
  const double passes = shape.elements <= shape.room() ? 1 : shape.bits > 16 ? 3.5 : 2.5;
  const double own = static_cast<double>(shape.elements) / shape.cluster / kWarp;
  const double room = shape.room(), stages = std::log2(room) * (std::log2(room) + 1) / 2;
  const bool counted = shape.room() <= TopKRows::kCounted;
  const double sort_work = counted ? room / kWarp * room * 3 : stages * room / 2 / kWarp * kPair;
  const double sort_wait = counted ? 4 * room : stages * kStage;
  const double work = passes * own * kElement + sort_work;
  const double alone = passes * (kPass + (shape.cluster > 1 ? kExchange : 0)) + sort_wait;
  const double blocks = static_cast<double>(of.rows * ((of.ranks - 1) / shape.chunk + 1) * shape.cluster);
  const double together = std::max(1.0, std::min(2048.0 / shape.threads, 200e3 / (shape.shared() + 5000)));
  const double waves = std::ceil(blocks / context.Processors() / together);
  const double cycles =
      gpu.element_start + waves * alone + std::ceil(blocks / context.Processors()) * work / kIssued;
  return cycles / gpu.cycles_a_microsecond;
}

std::vector<KernelCandidate> RowCandidates(const PartContext& context) {
  if (!LanesCandidates(context).empty()) return {};
  const TopKRows shape = TopKShapeOf(context);
  KernelConfiguration configuration;
  configuration.cluster = shape.cluster > 1 ? shape.cluster : 0;
  BlockNeeds block;
  block.threads = static_cast<uint32_t>(shape.threads);
  return {{configuration, RowMicroseconds(context, shape), block}};
}

Result<PartLaunch> WriteTopKRow(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const RowsOf of = RowsOfPart(context);
  const Part& part = context.part;
  if (of.elements > INT32_MAX / 2) {
    return Status::Error(Code::kUnsupported, "the first of %lld elements; the limit is %d",
                         static_cast<long long>(of.elements), INT32_MAX / 2);
  }
  const TopKRows shape = TopKShapeOf(context);
  const int64_t chunks = (of.ranks - 1) / shape.chunk + 1;
  const std::string type = shape.bits == 64 ? "u64" : "u32";
  writer->Line("const u32 rank = block % " + Text(shape.cluster) + "u, of_row = block / " +
               Text(shape.cluster) + "u, chunk = of_row % " + Text(chunks) + "u;");
  writer->Decode("of_row / " + Text(chunks) + "u", 0, static_cast<size_t>(part.outer) + part.m);
  writer->Line("wait_for_earlier();");
  WriteAccesses(context, type, writer);
  writer->Line("top_k_row<" + Aggregate("TopKRows", shape) + ", " + type +
               ">(chunk, rank, key_at, store_at);");
  PartLaunch launch;
  launch.block = static_cast<uint32_t>(shape.threads);
  launch.shared = static_cast<uint32_t>(shape.shared());
  launch.cluster = static_cast<uint32_t>(shape.cluster);
  return WithBlocks(launch, of.rows * chunks * shape.cluster);
}

}  // namespace

constinit const KernelVariant kLanesTopK = {VariantId::kAny, kHeaders, LanesCandidates, WriteLanes};
constinit const KernelVariant kRowTopK = {VariantId::kAny, kHeaders, RowCandidates, WriteTopKRow};

}  // namespace rondo::cuda
