// Attention for many queries: chooses how staged_attention_prelude.cc cuts it, and fills that.
#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kWarps = 8, kWarpRows = 16;
constexpr int64_t kRowWarps = 4;      // of a block; two such groups of warps split the keys
constexpr int64_t kFewestRows = 33;   // that fill most of those warps
constexpr int64_t kNarrow = 128;      // features and values that leave registers for the scores of 64 keys
constexpr int64_t kHalfValues = 128;  // that leave registers for two blocks of a multiprocessor
constexpr int64_t kOwn = 1024;        // bytes of shared memory that a block has besides

std::string Text(int64_t n) { return std::to_string(n); }
std::string Truth(bool b) { return b ? "true" : "false"; }

}  // namespace

// Bytes of shared memory of a block: queries, stages of keys and values; the same memory then holds what
// AttentionBlock keeps.
int64_t PartText::StagedBytes(const FlashShape& shape, const StagedShape& staged) {
  const int64_t padding = staged.groups ? 0 : 16, slack = staged.groups ? 1024 : 0;
  const int64_t key = shape.features * 2 + padding, value = shape.values * 2 + padding;
  const int64_t copied = shape.tile_rows() * key + staged.stages * staged.keys * (key + value);
  return std::max(slack + copied, kWarps * kWarpRows * (shape.values + 4) * 4);
}

// Where its blocks of 64 queries leave multiprocessors idle, smaller ones whose warps all split the keys are
// faster.
std::optional<PartText::StagedShape> PartText::ShapeOfStaged(FlashShape* shape) const {
  FlashShape cut = *shape;
  cut.warp_rows = kWarpRows;
  cut.tile_warps = kRowWarps;
  cut.cluster = 1;
  if (cut.rows < kFewestRows || static_cast<double>(cut.groups * cut.tiles()) < Processors())
    return std::nullopt;
  StagedShape staged;
  staged.groups = target_.warp_groups && cut.features % 64 == 0 && cut.values % 64 == 0;
  staged.keys = staged.groups || cut.features + cut.values <= kNarrow ? 128 : 64;
  for (staged.resident = cut.values <= kHalfValues ? 2 : 1; staged.resident > 0; --staged.resident) {
    const int64_t room = staged.resident == 1 ? target_.shared : target_.shared_processor / staged.resident;
    for (staged.stages = 2; staged.stages > 0; --staged.stages) {
      if (StagedBytes(cut, staged) + kOwn > room) continue;
      *shape = cut;
      return staged;
    }
  }
  return std::nullopt;
}

Status PartText::StagedAttention(const FlashShape& shape, const StagedShape& staged) {
  FlashPlace(shape);
  const bool early = LeavesRoom(shape.groups * shape.tiles());
  if (early) Line("launch_dependents();");
  Line("auto query_at = [&](int line) -> const char* {");
  Line("const u32 row = tile * " + Text(shape.tile_rows()) + "u + line;");
  Line("if (row >= " + Text(shape.rows) + "u) return 0;");
  CountLoops("row", shape.queries);
  Line("return " + AddressText(part_.lhs) + "; };");
  FlashRows(shape);
  const bool plain = FlashScore(shape);
  const std::string products = std::string(staged.groups ? "GroupAttention<" : "WarpAttention<") +
                               Truth(shape.bf16) + ", " + Text(shape.features) + ", " + Text(shape.values) +
                               ", " + Text(shape.tile_warps) + ", " + Text(staged.keys) + ">";
  Line("const u32 memory = shared_address(shared_memory)" +
       std::string(staged.groups ? " + 1023u & ~1023u;" : ";"));
  Line("AttentionBlock<" + Text(kWarpRows) + ", " + Text(shape.values) + ", " + Text(shape.splits()) +
       "> block_out;");
  Line("{ AttentionRows<" + Text(shape.values) + "> rows_out;");
  Line("staged_attention<" + products + ", " + Truth(plain) + ", " + Truth(part_.limit != kNoOperand) + ", " +
       Text(staged.keys) + ", " + Text(staged.stages) + ">(rows_out, memory, query_at, limits, " +
       Text(shape.keys) + ", keys, " + KeyBytes(shape, part_.keys) + ", values, " +
       KeyBytes(shape, part_.values) + ", unit, score);");
  Line("block_out.keep(rows_out); }");
  if (!early) Line("launch_dependents();");
  FlashFinish(shape);
  launch_.resident = static_cast<uint32_t>(staged.resident);
  launch_.shared = static_cast<uint32_t>(StagedBytes(shape, staged));
  return SetBlocks(shape.groups * shape.tiles());
}

}  // namespace rondo::cuda
