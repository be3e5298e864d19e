// SparseAttention of com.microsoft (Phi-3-small): GroupQueryAttention in which a query sees only some blocks
// of positions. The mask of blocks is in CSR form.
#include <algorithm>

#include "compiler/import/decompose.h"
#include "compiler/import/grouped_attention.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

enum Input { kQuery, kKey, kValue, kPastKey, kPastValue, kRows, kColumns, kTotal, kLengths, kCosine, kSine };

// The key blocks that the queries of a block see: several layouts of blocks by blocks.
struct Blocks {
  int64_t layouts = 0, blocks = 0, size = 0;
  std::vector<bool> seen;
};

Result<Blocks> ReadBlocks(OpContext& c) {
  constexpr int64_t kMostSeen = 1 << 26;
  Blocks all;
  all.size = c.Int("sparse_block_size", 0);
  RONDO_RETURN_IF_ERROR(c.RequireRank(kRows, 2, 2));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kColumns, 2, 2));
  const Shape rows = c.shape(kRows), columns = c.shape(kColumns);
  all.layouts = rows[0], all.blocks = rows[1] - 1;
  if (all.size < 1 || all.size > (1 << 20) || all.layouts < 1 || all.blocks < 1 ||
      columns[0] != all.layouts || all.layouts * all.blocks > kMostSeen / all.blocks) {
    return Status::Error(Code::kCorrupt, "blocks of %lld with rows %s and columns %s",
                         static_cast<long long>(all.size), Text(rows).c_str(), Text(columns).c_str());
  }
  const auto begins = c.ConstantInts(kRows), of = c.ConstantInts(kColumns);
  if (!begins.ok() || !of.ok())
    return Status::Error(Code::kUnsupported,
                         "block_row_indices and block_col_indices that only a run knows: rondo needs them as "
                         "constants of the model");
  all.seen.resize(static_cast<size_t>(all.layouts * all.blocks * all.blocks));
  for (int64_t layout = 0; layout < all.layouts; ++layout) {
    for (int64_t row = 0; row < all.blocks; ++row) {
      const size_t at = static_cast<size_t>(layout * (all.blocks + 1) + row);
      const int64_t from = (*begins)[at], to = (*begins)[at + 1];
      if (from < 0 || to < from || to > columns[1])
        return Status::Error(Code::kCorrupt, "block row %lld of layout %lld is entries %lld to %lld of %lld",
                             static_cast<long long>(row), static_cast<long long>(layout),
                             static_cast<long long>(from), static_cast<long long>(to),
                             static_cast<long long>(columns[1]));
      for (int64_t i = from; i < to; ++i) {
        const int64_t column = (*of)[static_cast<size_t>(layout * columns[1] + i)];
        if (column < 0 || column >= all.blocks)
          return Status::Error(Code::kCorrupt, "block column %lld of %lld", static_cast<long long>(column),
                               static_cast<long long>(all.blocks));
        all.seen[static_cast<size_t>((layout * all.blocks + row) * all.blocks + column)] = true;
      }
    }
  }
  return all;
}

// The mask of blocks as bool [b, heads, rows, positions]; the heads take the layouts in turn.
Result<NodeId> SeenBy(Builder& b, const Blocks& all, const GroupedQueries& queries) {
  const int64_t positions = queries.positions.extent();
  if (queries.heads % all.layouts != 0 || all.blocks * all.size < positions)
    return Status::Error(Code::kCorrupt,
                         "%lld layouts of %lld blocks of %lld positions for %lld heads over a cache of %lld",
                         static_cast<long long>(all.layouts), static_cast<long long>(all.blocks),
                         static_cast<long long>(all.size), static_cast<long long>(queries.heads),
                         static_cast<long long>(positions));
  const std::vector<int64_t> seen(all.seen.begin(), all.seen.end());
  NodeId mask = b.Ints(DType::kBool, {all.layouts, all.blocks, all.blocks}, seen);
  mask = SliceOf(b, RepeatEach(b, mask, 2, all.size), 2, 0, 1, queries.positions);
  NodeId block = b.Binary(TapeOp::kDiv, queries.place, b.Scalar(DType::kI64, static_cast<double>(all.size)));
  block = Clamp(b, block, 0, static_cast<double>(all.blocks - 1));
  mask = b.Transpose(b.Gather(mask, block, 1, false), {1, 0, 2, 3});  // [b, layouts, rows, positions]
  return TileAxis(b, mask, 1, queries.heads / all.layouts);
}

Status SparseAttention(OpContext& c) {
  Builder& b = c.b;
  for (int i : {kPastKey, kPastValue, kRows, kColumns, kLengths})
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
  RONDO_ASSIGN_OR_RETURN(const Blocks all, ReadBlocks(c));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(kLengths));
  const NodeId lengths = b.Cast(c.In(kLengths), DType::kI64);
  std::vector<Value> inputs;
  for (NodeId input : {c.In(kQuery), c.In(kKey), c.In(kValue), c.In(kPastKey), c.In(kPastValue),
                       b.BinaryScalar(TapeOp::kSub, lengths, 1), c.In(kTotal), c.In(kCosine), c.In(kSine)})
    inputs.push_back(Value{input, false, {}});
  OpContext grouped(&c.b, &c.host, c.proto, c.opset, c.attributes(), std::move(inputs));
  RONDO_RETURN_IF_ERROR(
      GroupedAttention(grouped, [&](const GroupedQueries& queries) { return SeenBy(b, all, queries); }));
  for (int i = 0; i < c.num_outputs(); ++i)
    if (c.Wants(i)) c.SetValue(i, grouped.outputs()[static_cast<size_t>(i)]);
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"SparseAttention", 1, SparseAttention, 1, kLatest, "com.microsoft"},
};

}  // namespace

Span<const OpRow> SparseAttentionOps() { return kOps; }

}  // namespace rondo::importer
