// MatmulConfiguration: one way to compute a matmul (a contraction or convolution), and its name.
//
// Names are what profiles, plans and reports call a configuration. They are stable: a configuration keeps its
// name, and a name means one configuration.
//
//   mma 128x128x64 2x4x1 cluster 2   mma.sync: M, N and K of a stage; warps along each; blocks a cluster
//   wgmma 128x256 cluster 1          wgmma, tiles copied by threads, two groups of warps: M and N
//   tma 128x192 2x1x1 cluster 2      wgmma, tiles brought by TMA: M and N; blocks that share tiles of B,
//                                    that share tiles of A, and that split K; blocks a cluster
//   simt 64x64 cluster 1             FMA in f32: M and N
//   tf32 64x64 cluster 1             the same by mma.sync, with factors rounded to tf32
//   few_rows warps 8 cluster 2       1 to 16 rows: warps of a block, and blocks, that split K
//   library 3                        the third algorithm of a vendor library; "library": its first
//
// What a name leaves out is 0. As a pattern (Matches), what is left out may be anything: "mma", "wgmma
// 128x256", "cluster 2". Names of before are read as well: tile is mma, group wgmma, bulk tma, float
// simt, skinny few_rows.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_CONFIGURATION_H_
#define RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_CONFIGURATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

// The order is that of kFamilyNames (matmul_configuration.cc).
enum class MatmulFamily : uint8_t { kAny, kFewRows, kMma, kWgmma, kSimt, kTf32, kTma, kLibrary };

struct MatmulConfiguration {
  MatmulFamily family = MatmulFamily::kAny;
  int64_t m = 0, n = 0, k = 0;                    // of a block's tile; `k`: of one stage
  int64_t warps_m = 0, warps_n = 0, warps_k = 0;  // into which a tile's three extents are split
  int64_t warps = 0;                              // of a block, that split K
  int64_t cluster = 0;                            // blocks of a cluster, that split K
  int64_t algorithm = 0;                          // of a library: its place in the library's ranking, from 1

  bool operator==(const MatmulConfiguration&) const = default;
};

// The name of a configuration; "" for one in which everything is left open.
std::string Text(const MatmulConfiguration& configuration);

// The configuration of that name; none if there is no such name. Text of what is returned is `name`, but for
// names of before.
std::optional<MatmulConfiguration> ParseMatmulConfiguration(std::string_view name);

// Whether `configuration` has everything that `pattern` does not leave open.
bool Matches(const MatmulConfiguration& pattern, const MatmulConfiguration& configuration);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_CONFIGURATION_H_
