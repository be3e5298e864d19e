// QueryTiles: attention on tensor cores, as tiles of queries that share keys, and the text shared by
// templates over such tiles. Internal to compiler/codegen/cuda.
//
// In the text: `rank` is the block's index in its cluster, `group` the head, `tile` the tile of its queries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/device/attention_layout.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Keys and values of one head, and the distribution of their queries over blocks of 8 warps.
struct QueryTiles {
  static constexpr int64_t kMostValues = 256;  // features of a value; their sums are in registers
  static constexpr int64_t kWarps = AttentionLayout::kWarps;  // of a block
  static constexpr int64_t kRun = AttentionLayout::kRun;      // keys of a warp at a time

  std::vector<size_t> heads, queries;  // loops with keys of their own; loops over which keys are shared
  size_t value = 0, key = 0, feature = 0;
  int64_t groups = 1, rows = 1, keys = 1, features = 1, values = 1;
  int64_t warp_rows = 16;  // queries of a warp
  int64_t tile_warps = 1;  // warps of a block with different queries; the others split the keys
  int64_t cluster = 1;     // blocks that split the keys
  bool bf16 = false;
  // Elements of a query, a key, a value that can be copied at once, up to 16 bytes; 0: they are not
  // contiguous.
  int query_lanes = 0, key_lanes = 0, value_lanes = 0;
  // Whether a thread can read whole vectors of 16 bytes; features and values must be multiples of `multiple`.
  bool vectors(int64_t multiple) const {
    return query_lanes == 8 && key_lanes == 8 && value_lanes == 8 && features % multiple == 0 &&
           values % multiple == 0;
  }
  int64_t tile_rows() const { return warp_rows * tile_warps; }
  int64_t tiles() const { return (rows + tile_rows() - 1) / tile_rows(); }
  int64_t splits() const { return kWarps / tile_warps; }
  // Whether a warp can keep all features of its queries in registers.
  bool fits_registers() const { return features <= kMostValues; }
  int64_t blocks() const { return groups * tiles() * cluster; }
  // Blocks resident on a multiprocessor if every warp reads its own keys and values: narrow ones leave
  // registers for two.
  uint32_t resident() const { return features + values <= 128 ? 2 : 1; }
  AttentionLayout layout() const {
    return {static_cast<int>(warp_rows), static_cast<int>((values + 7) / 8 * 8), static_cast<int>(splits())};
  }
};

// Queries, keys and values of 16 bits; the distribution over blocks is left open. No value if their types
// differ, if a value has more than 256 features or a query more than 512, or if an operand is not plain.
std::optional<QueryTiles> QueryTilesOf(const PartContext& context);
// The same for f32.
std::optional<QueryTiles> FloatQueryTilesOf(const PartContext& context);

// Declares rank, group, tile and warp; the counters of all loops, at the head; keys and values of the head.
// Reads nothing.
void WriteTilePlace(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);
// Waits for the kernels ahead. If there are few blocks, lets the next one begin at once.
void WriteTileWait(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);
// "{keys, 160ll, 2ll}": the lines of an operand, given the name of the first one's address.
std::string LinesText(const PartContext& context, std::string_view first, uint16_t operand, size_t line,
                      size_t element);
// Bytes between neighbours of an operand along a loop.
std::string BytesText(const PartContext& context, uint16_t operand, size_t along);
// Defines `query_at`: the address of the block's query of a given index; null if there is none.
void WriteQueryAt(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);
// The rows of a thread: their count, and the index of row `h` within its warp (or block). The default is the
// layout of mma fragments.
struct ThreadRows {
  int count = 2;
  std::string_view number = "threadIdx.x % 32 / 4 + 8 * h";
};
// Declares this thread's rows: addresses of their queries, numbers of their keys, beginnings of their masks.
void WriteQueryRows(const PartContext& context, const QueryTiles& tiles, ThreadRows rows, PartWriter* writer);
// The elements of a mask that a thread reads at once, before the scores are there
// (device/attention_masks.cuh). None if they are not contiguous along the keys, or if there is no mask.
std::optional<int> MaskLanes(const PartContext& context, const QueryTiles& tiles);
// Declares `score`, which makes a score from a dot product and, if `ahead`, from the bits of the mask's
// element, which was read before; and `unit`, which converts it to base 2. Returns whether the score is the
// dot product itself.
bool WriteScore(const PartContext& context, const QueryTiles& tiles, bool ahead, PartWriter* writer);
// Values of a query that are written at once; at least two with a cluster.
int ResultLanes(const PartContext& context, const QueryTiles& tiles);
// Combines the parts of each query from `block_out`, and writes its results.
void WriteQueryResults(const PartContext& context, const QueryTiles& tiles, PartWriter* writer);

}  // namespace rondo::cuda
