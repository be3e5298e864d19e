// QueryTiles: attention on tensor cores, as tiles of queries that share keys; and the text that templates
// over such tiles have in common. Internal to compiler/codegen/cuda.
//
// In the text: `rank` is the block's number in its cluster, `group` the head, `tile` the tile of its queries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/device/attention_layout.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Keys and values of one head, and how their queries are put into blocks of 8 warps.
struct QueryTiles {
  static constexpr int64_t kMostValues = 256;  // features of a value, whose sums are in registers
  static constexpr int64_t kWarps = AttentionLayout::kWarps;  // of a block
  static constexpr int64_t kRun = AttentionLayout::kRun;      // keys of a warp at a time

  std::vector<size_t> heads, queries;  // loops with keys of their own; loops over which keys are shared
  size_t value = 0, key = 0, feature = 0;
  int64_t groups = 1, rows = 1, keys = 1, features = 1, values = 1;
  int64_t warp_rows = 16;  // queries of a warp
  int64_t tile_warps = 1;  // warps of a block with different queries; the others split the keys
  int64_t cluster = 1;     // blocks that split the keys
  bool bf16 = false;
  // Elements of a query, a key, a value that can be copied at once, up to 16 bytes; 0: they are no
  // neighbours.
  int query_lanes = 0, key_lanes = 0, value_lanes = 0;
  // Whether a thread can read whole vectors of 16 bytes, of which there are `multiple` elements to a head.
  bool vectors(int64_t multiple) const {
    return query_lanes == 8 && key_lanes == 8 && value_lanes == 8 && features % multiple == 0 &&
           values % multiple == 0;
  }
  int64_t tile_rows() const { return warp_rows * tile_warps; }
  int64_t tiles() const { return (rows + tile_rows() - 1) / tile_rows(); }
  int64_t splits() const { return kWarps / tile_warps; }
  // Whether a warp can have all features of its queries in registers.
  bool fits_registers() const { return features <= kMostValues; }
  int64_t blocks() const { return groups * tiles() * cluster; }
  // Blocks that a multiprocessor holds, where every warp reads keys and values for itself: narrow ones leave
  // registers for two.
  uint32_t resident() const { return features + values <= 128 ? 2 : 1; }
  AttentionLayout layout() const {
    return {static_cast<int>(warp_rows), static_cast<int>((values + 7) / 8 * 8), static_cast<int>(splits())};
  }
};

// Queries, keys and values of 16 bits; how they are put into blocks is left open. None if they are of
// different types, have more than 256 features of a value or 512 of a query, or lie in memory as no plain
// operand does.
std::optional<QueryTiles> QueryTilesOf(const PartContext& context);
// The same of f32.
std::optional<QueryTiles> FloatQueryTilesOf(const PartContext& context);

// rank, group, tile and warp; the counters of all loops, at the head; keys and values of the head. Nothing is
// read.
void WriteTilePlace(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);
// Waits for the kernels ahead. Few blocks let the next one begin at once.
void WriteTileWait(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);
// "{keys, 160ll, 2ll}": where an operand's lines are, by the name of the first one's address.
std::string LinesText(const PartContext& context, std::string_view first, uint16_t operand, size_t line,
                      size_t element);
// Bytes from one of the operand's elements along a loop to the next.
std::string BytesText(const PartContext& context, uint16_t operand, size_t along);
// `query_at`: where the block's query of a number is; null if there is none.
void WriteQueryAt(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);
// The rows of a thread: how many, and which of its warp's (or block's) number `h` is; as fragments of mma
// have them, if nothing else is said.
struct ThreadRows {
  int count = 2;
  std::string_view number = "threadIdx.x % 32 / 4 + 8 * h";
};
// This thread's rows: where their queries are, how many keys they have, where their mask begins.
void WriteQueryRows(const PartContext& context, const QueryTiles& tiles, ThreadRows rows, PartWriter* writer);
// `score`: a score from a dot product; and `unit`, which makes it one of base 2. Returns whether the score is
// the dot product itself.
bool WriteScore(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);
// Values of a query that are written at once; of a cluster at least two.
int ResultLanes(const PartContext& context, const QueryTiles& tiles);
// Puts the parts of each query together, from `block_out`, and writes its results.
void WriteQueryResults(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);

}  // namespace rondo::cuda
