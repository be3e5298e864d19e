// KernelConfiguration: one way to compute a kernel's largest part, and its name. KernelCandidate: a
// configuration with its estimated cost.
//
// Profiles, plans and reports use these names. They are stable: a configuration keeps its name, and a name
// means one configuration.
//
//   mma 128x128x64 2x4x1 cluster 2   matmul by mma.sync: M, N and K of a stage; warps along each; blocks a
//                                    cluster
//   wgmma 128x256 cluster 1          wgmma, tiles copied by threads, two warpgroups: M and N
//   tma 128x192 2x1x1 cluster 2      wgmma, tiles brought by TMA: M and N; blocks that share tiles of B,
//                                    that share tiles of A, and that split K; blocks a cluster
//   ping_pong 64x256 2x1x1 cluster 2 as tma, and warpgroups take tiles in turn
//   simt 64x64 cluster 1             FMA in f32: M and N
//   tf32 64x64 cluster 1             the same by mma.sync, with factors rounded to tf32
//   few_rows warps 8 cluster 2       1 to 16 rows: warps of a block, and blocks, that split K
//   packed 5x4 warps 8 cluster 2     1 to 16 rows by weights in fewer bits: stages of copies, pieces of 512
//                                    bytes that a warp takes at a time (5x4 16: of blocks of 16 warps, not
//                                    8); then as few_rows
//   packed_tiles 128x128x64 1x1x2 cluster 2
//                                    more rows by weights in fewer bits, wgmma: M and N (columns of each B)
//                                    of a tile, K of a stage; blocks that split K; blocks a cluster
//   packed_rows 16x256x128 2x2x2 cluster 1
//                                    5 to 32 rows by weights in fewer bits, wgmma, scales multiply sums: M
//                                    and N (columns of each B) of a tile, K of a stage; tiles of 64 columns
//                                    that a warpgroup has, warpgroups that have others, warpgroups that take
//                                    turns with the steps; blocks that split K
//   packed_digits 16x256x128 2x2x2 cluster 1
//                                    up to 32 rows by weights of 4 and 8 bits: as packed_rows, A as digits of
//                                    8 bits
//   dot                              little work: a warp a point
//   library 3                        the third algorithm of a vendor library; "library": its first
//   staged 64x128                    attention, keys and values through shared memory: queries of a block,
//                                    keys of a stage
//   pipelined 128x128                as staged, where a warpgroup copies and two compute in turn; those of 64
//                                    queries share the keys
//   flash warps 8 cluster 2          attention, each warp for itself: warps of a block, and blocks, that
//   split
//                                    the keys
//   fma 32                           attention in f32 by FMA: queries of a block
//   windows 8x4x3                    depthwise convolutions and pools: channels, outputs along the last axis
//                                    and taps that a thread has at a time
//   short 8x4                        K of a few: rows and neighbours of a thread
//   imma 64x64x128 2x2x2 cluster 1   8-bit integers by mma.sync: as mma, K in bytes
//   plain                            what runs everything
//
// Omitted fields are 0. In a pattern (Matches), omitted fields match anything: "mma", "wgmma 128x256",
// "cluster 2". Old names are accepted too: tile is mma, group wgmma, bulk tma, float simt, skinny few_rows.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// In the order of kVariantNames (kernel_configuration.cc).
enum class VariantId : uint8_t {
  kAny,
  kFewRows,
  kMma,
  kWgmma,
  kSimt,
  kTf32,
  kTma,
  kDot,
  kLibrary,
  kStaged,
  kFlash,
  kWindows,
  kPlain,
  kImma,
  kPacked,
  kFma,
  kPackedTiles,
  kPackedRows,
  kPackedDigits,
  kWgmmaFp8,
  kPingPong,
  kPipelined,
  kShort,
};

struct KernelConfiguration {
  VariantId variant = VariantId::kAny;
  int64_t m = 0, n = 0, k = 0;  // of a block's tile, `k` of one stage; for windows see above
  int64_t warps_m = 0, warps_n = 0, warps_k = 0;  // warps along a tile's three extents
  int64_t warps = 0;                              // warps of a block that split K
  int64_t cluster = 0;                            // blocks of a cluster that split K
  int64_t algorithm = 0;                          // of a library: its index in the library's ranking, from 1

  bool operator==(const KernelConfiguration&) const = default;
};

// The name of a configuration; "" if everything is left open.
std::string Text(const KernelConfiguration& configuration);

// The configuration with that name; no value if there is none. Text of the result is `name`, except for old
// names.
std::optional<KernelConfiguration> ParseKernelConfiguration(std::string_view name);

// Whether `configuration` agrees with `pattern` in everything that `pattern` does not leave open.
bool Matches(const KernelConfiguration& pattern, const KernelConfiguration& configuration);

// For candidates that were never measured: they are only used on request, or if there is no other.
inline constexpr double kNotEstimated = std::numeric_limits<double>::infinity();

// What a thread block asks of the launch.
struct BlockNeeds {
  uint32_t threads = 0;    // 0: as many as most variants have (kCudaBlock)
  uint32_t registers = 0;  // the fewest with which a thread compiles without spills; 0: any number
};

struct KernelCandidate {
  KernelConfiguration configuration;
  // Estimated, among the kernels of a whole model. For a library's matmul followed by a map: the time of
  // both. For comparing candidates, not for predictions.
  double microseconds = 0;
  BlockNeeds block = {};
};

// The index of the candidate that equals the pattern; otherwise of the fastest by estimate, among those that
// match the pattern if any does; the first of equals. `candidates` must not be empty.
size_t BestCandidate(const std::vector<KernelCandidate>& candidates, const KernelConfiguration& pattern);

}  // namespace rondo
