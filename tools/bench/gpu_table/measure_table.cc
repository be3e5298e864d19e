#include "tools/bench/gpu_table/measure_table.h"

#include <algorithm>
#include <utility>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/kernel_images.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"

namespace rondo::bench {

namespace {

using cuda::GpuTable;

// Instructions that the table counts for the epilogue of a BenchKernel.
double PlainEpilogue(const GpuTable& gpu) {
  const BenchKernel kernel(MatmulSize(), "");
  return cuda::EpilogueInstructions(gpu, kernel.kernel().parts[0].epilogue);
}

// Cycles over steps of K, or over bytes: what each takes, and what is left at none.
struct Line {
  double slope, intercept;
};

class Measurer {
 public:
  Measurer(const CudaTarget& target, const KernelCycles& cycles)
      : target_(target), gpu_(cuda::GpuTableOf(target.architecture)), cycles_(cycles) {}

  Result<std::vector<TableRow>> Run() {
    for (auto measure : {&Measurer::Copies, &Measurer::Multiplies, &Measurer::Memory, &Measurer::TileEnds,
                         &Measurer::TileSplits, &Measurer::TmaEnds, &Measurer::TmaSplits, &Measurer::Clusters,
                         &Measurer::Maps}) {
      RONDO_RETURN_IF_ERROR((this->*measure)());
    }
    return std::move(rows_);
  }

 private:
  using Maybe = std::optional<double>;

  void Add(const char* entry, const char* unit, double table, Maybe measured) {
    rows_.push_back({entry, unit, table, measured});
  }

  // As many tiles as there are multiprocessors, in a grid that is nearly square, so that A and B stay in L2;
  // or `tiles` of them.
  MatmulSize Tiled(int64_t m, int64_t n, int64_t k, int64_t tiles = 0) const {
    const int64_t all = tiles > 0 ? tiles : static_cast<int64_t>(target_.processors);
    int64_t rows = 1;
    for (int64_t d = 1; d * d <= all; ++d) {
      if (all % d == 0) rows = d;
    }
    return {m * rows, n * (all / rows), k};
  }

  Result<Maybe> Time(const MatmulSize& size, const std::string& configuration) {
    BenchKernel kernel(size, configuration);
    return cycles_(kernel);
  }

  // Over steps of `deep` of K, of the tiles of `size` at any K.
  Result<std::optional<Line>> OverSteps(MatmulSize size, int64_t deep, const std::string& configuration) {
    constexpr int64_t kFew = 16, kMany = 48;
    size.k = kFew * deep;
    RONDO_ASSIGN_OR_RETURN(const Maybe few, Time(size, configuration));
    size.k = kMany * deep;
    RONDO_ASSIGN_OR_RETURN(const Maybe many, Time(size, configuration));
    if (!few || !many) return std::optional<Line>();
    const double slope = (*many - *few) / (kMany - kFew);
    return std::optional<Line>({slope, *few - kFew * slope});
  }

  // An amount a step, over the cycles that a step takes.
  Status AddRate(const char* entry, const char* unit, double table, double amount, const MatmulSize& size,
                 int64_t deep, const std::string& configuration) {
    RONDO_ASSIGN_OR_RETURN(const std::optional<Line> line, OverSteps(size, deep, configuration));
    Add(entry, unit, table, line ? Maybe(amount / line->slope) : Maybe());
    return Status::Ok();
  }

  // Tiles that are bound by what they copy.
  Status Copies() {
    RONDO_RETURN_IF_ERROR(AddRate("l2_copy_bytes", "bytes", gpu_.l2_copy_bytes, (16 + 64) * 128 * 2,
                                  Tiled(16, 64, 0), 128, "mma 16x64x128 1x2x4 cluster 1"));
    constexpr const char* kSmall = "tma 64x64 1x1x1 cluster 1";
    constexpr double kBytes = (64 + 64) * 64 * 2;
    RONDO_RETURN_IF_ERROR(
        AddRate("l2_tma_bytes", "bytes", gpu_.l2_tma_bytes, kBytes, Tiled(64, 64, 0, 8), 64, kSmall));
    return AddRate("l2_all_bytes", "bytes", gpu_.l2_all_bytes, kBytes * target_.processors, Tiled(64, 64, 0),
                   64, kSmall);
  }

  // Tiles that are bound by what they multiply.
  Status Multiplies() {
    RONDO_RETURN_IF_ERROR(AddRate("mma", "multiply-adds", gpu_.mma, 128 * 128 * 64, Tiled(128, 128, 0), 64,
                                  "mma 128x128x64 2x4x1 cluster 1"));
    RONDO_RETURN_IF_ERROR(AddRate("wgmma_tma", "multiply-adds", gpu_.wgmma_tma, 128 * 256 * 64,
                                  Tiled(128, 256, 0), 64, "tma 128x256 1x1x1 cluster 1"));
    // Pairs of tiles along M.
    const int64_t pairs = target_.processors / 2;
    RONDO_RETURN_IF_ERROR(AddRate("wgmma_tma_shared", "multiply-adds", gpu_.wgmma_tma_shared, 128 * 256 * 64,
                                  Tiled(256, 256, 0, pairs), 64, "tma 128x256 2x1x1 cluster 2"));
    MatmulSize floats = Tiled(128, 128, 0);
    floats.type = DType::kF32;
    floats.tf32 = true;
    RONDO_RETURN_IF_ERROR(
        AddRate("tf32", "multiply-adds", gpu_.tf32, 128 * 128 * 32, floats, 32, "tf32 128x128 cluster 1"));
    floats = Tiled(64, 64, 0);
    floats.type = DType::kF32;
    return AddRate("simt", "multiply-adds", gpu_.simt, 64 * 64 * 32, floats, 32, "simt 64x64 cluster 1");
  }

  // A stream of B that no cache holds.
  Status Memory() {
    constexpr int64_t kDeep = 4096, kFew = 32768, kMany = 65536;
    constexpr const char* kStream = "few_rows warps 8 cluster 1";
    RONDO_ASSIGN_OR_RETURN(const Maybe few, Time({1, kFew, kDeep}, kStream));
    RONDO_ASSIGN_OR_RETURN(const Maybe many, Time({1, kMany, kDeep}, kStream));
    Maybe bytes, start;
    if (few && many) {
      const double slope = (*many - *few) / ((kMany - kFew) * kDeep * 2);
      bytes = 1 / slope;
      start = *few - slope * kFew * kDeep * 2;
    }
    Add("memory_bytes", "bytes", gpu_.memory_bytes, bytes);
    Add("stream_start", "cycles", gpu_.stream_start, start);
    return Status::Ok();
  }

  // What large and small tiles leave at no steps.
  Status TileEnds() {
    RONDO_ASSIGN_OR_RETURN(const std::optional<Line> large,
                           OverSteps(Tiled(128, 128, 0), 64, "mma 128x128x64 2x4x1 cluster 1"));
    RONDO_ASSIGN_OR_RETURN(const std::optional<Line> small,
                           OverSteps(Tiled(16, 64, 0), 128, "mma 16x64x128 1x2x4 cluster 1"));
    Maybe stored, start;
    if (large && small) {
      stored = (128 * 128 - 16 * 64) / (large->intercept - small->intercept);
      start = small->intercept - 16 * 64 / *stored;
    }
    Add("tile_stored", "points", gpu_.tile_stored, stored);
    Add("tile_start", "cycles", gpu_.tile_start, start);
    return Status::Ok();
  }

  // What a cluster of `blocks` that splits K takes more than one block with a part of that K.
  Result<Maybe> More(int64_t m, int64_t n, int64_t deep, const std::string& alone, const std::string& split,
                     int64_t blocks) {
    constexpr int64_t kTiles = 8, kSteps = 8;  // too few blocks for L2 to bound them all
    RONDO_ASSIGN_OR_RETURN(const Maybe one, Time(Tiled(m, n, kSteps * deep, kTiles), alone));
    RONDO_ASSIGN_OR_RETURN(const Maybe all, Time(Tiled(m, n, kSteps * deep * blocks, kTiles), split));
    return one && all ? Maybe(*all - *one) : Maybe();
  }

  // start + block c + point area (c - 1), of a small tile with c = 2 and 8 and of a large one with 2.
  struct Split {
    double start, block, point;
  };
  static std::optional<Split> Solve(Maybe two, Maybe eight, Maybe large, double small_area,
                                    double large_area) {
    if (!two || !eight || !large) return std::nullopt;
    Split split = {};
    split.point = (*large - *two) / (large_area - small_area);
    split.block = (*eight - *two - split.point * small_area * 6) / 6;
    split.start = *two - 2 * split.block - split.point * small_area;
    return split;
  }

  Status TileSplits() {
    const std::string small = "mma 32x32x128 1x2x4 cluster ", large = "mma 128x128x64 2x4x1 cluster ";
    RONDO_ASSIGN_OR_RETURN(const Maybe two, More(32, 32, 128, small + "1", small + "2", 2));
    RONDO_ASSIGN_OR_RETURN(const Maybe eight, More(32, 32, 128, small + "1", small + "8", 8));
    RONDO_ASSIGN_OR_RETURN(const Maybe wide, More(128, 128, 64, large + "1", large + "2", 2));
    const std::optional<Split> split = Solve(two, eight, wide, 32 * 32, 128 * 128);
    Add("split_start", "cycles", gpu_.split_start, split ? Maybe(split->start) : Maybe());
    Add("split_block", "cycles a block", gpu_.split_block, split ? Maybe(split->block) : Maybe());
    Add("split_point", "cycles a point", gpu_.split_point, split ? Maybe(split->point) : Maybe());
    return Status::Ok();
  }

  Status TmaEnds() {
    const auto line = [&](int64_t m, int64_t n, int64_t tiles, const char* configuration) {
      return OverSteps(Tiled(m, n, 0, tiles), 64, configuration);
    };
    RONDO_ASSIGN_OR_RETURN(const std::optional<Line> large, line(128, 256, 0, "tma 128x256 1x1x1 cluster 1"));
    RONDO_ASSIGN_OR_RETURN(const std::optional<Line> small, line(128, 128, 0, "tma 128x128 1x1x1 cluster 1"));
    RONDO_ASSIGN_OR_RETURN(const std::optional<Line> group, line(64, 256, 0, "tma 64x256 1x1x1 cluster 1"));
    RONDO_ASSIGN_OR_RETURN(const std::optional<Line> shared,
                           line(256, 256, target_.processors / 2, "tma 128x256 2x1x1 cluster 2"));
    Maybe start, more, lanes, one_group;
    if (large && small && group && shared) {
      const double work = 128 * 128 * PlainEpilogue(gpu_);
      lanes = lanes_ = work / (large->intercept - small->intercept);
      start = small->intercept - work / *lanes;
      more = shared->intercept - large->intercept;
      one_group = one_group_ = (group->intercept - *start) / (work / *lanes);
    }
    Add("tma_start", "cycles", gpu_.tma_start, start);
    Add("tma_cluster_start", "cycles", gpu_.tma_cluster_start, more);
    Add("tma_stored_lanes", "instructions", gpu_.tma_stored_lanes, lanes);
    Add("tma_one_group", "times", gpu_.tma_one_group, one_group);
    return Status::Ok();
  }

  // Blocks that split K share the epilogue as well: what they save of it counts.
  Status TmaSplits() {
    const double saved = 64 * 64 * PlainEpilogue(gpu_) * one_group_ / lanes_;
    const auto more = [&](int64_t n, const char* split, int64_t blocks) -> Result<Maybe> {
      const std::string tile = "tma 64x" + std::to_string(n);
      RONDO_ASSIGN_OR_RETURN(const Maybe measured,
                             More(64, n, 64, tile + " 1x1x1 cluster 1", tile + split, blocks));
      const double own = saved * static_cast<double>(n) / 64;
      return measured ? Maybe(*measured + own * (1 - 1 / static_cast<double>(blocks))) : Maybe();
    };
    RONDO_ASSIGN_OR_RETURN(const Maybe two, more(64, " 1x1x2 cluster 2", 2));
    RONDO_ASSIGN_OR_RETURN(const Maybe eight, more(64, " 1x1x8 cluster 8", 8));
    RONDO_ASSIGN_OR_RETURN(const Maybe wide, more(256, " 1x1x2 cluster 2", 2));
    const std::optional<Split> split = Solve(two, eight, wide, 64 * 64, 64 * 256);
    Add("tma_split_start", "cycles", gpu_.tma_split_start, split ? Maybe(split->start) : Maybe());
    Add("tma_split_block", "cycles a block", gpu_.tma_split_block, split ? Maybe(split->block) : Maybe());
    Add("tma_split_point", "cycles a point", gpu_.tma_split_point, split ? Maybe(split->point) : Maybe());
    return Status::Ok();
  }

  // The most clusters that run at once: those of which each further one would have to wait.
  Result<Maybe> UsedBy(int64_t cluster) {
    constexpr double kWaits = 1.4;  // of a launch, with some that wait for others
    const std::string name = "mma 32x32x128 1x2x4 cluster " + std::to_string(cluster);
    const auto time = [&](int64_t clusters) { return Time({32, 32 * clusters, 128 * 32 * cluster}, name); };
    RONDO_ASSIGN_OR_RETURN(const Maybe one, time(1));
    if (!one) return Maybe();
    int64_t clusters = static_cast<int64_t>(target_.processors) / cluster;
    for (; clusters > 1; --clusters) {
      RONDO_ASSIGN_OR_RETURN(const Maybe all, time(clusters));
      if (all && *all < kWaits * *one) break;
    }
    return Maybe(static_cast<double>(clusters * cluster) / target_.processors);
  }

  Status Clusters() {
    RONDO_ASSIGN_OR_RETURN(const Maybe four, UsedBy(4));
    RONDO_ASSIGN_OR_RETURN(const Maybe eight, UsedBy(8));
    Add("clusters_of_4", "of all", gpu_.clusters_of_4, four);
    Add("clusters_of_8", "of all", gpu_.clusters_of_8, eight);
    return Status::Ok();
  }

  Status Maps() {
    constexpr int64_t kFew = 2 << 20, kMany = 8 << 20, kBytes = 4;  // read and written, of an element
    BenchKernel small(kFew), large(kMany);
    RONDO_ASSIGN_OR_RETURN(const Maybe few, cycles_(small));
    RONDO_ASSIGN_OR_RETURN(const Maybe many, cycles_(large));
    Maybe bytes, start;
    if (few && many) {
      const double slope = (*many - *few) / ((kMany - kFew) * kBytes);
      bytes = 1 / slope;
      start = *few - slope * kFew * kBytes;
    }
    Add("map_bytes", "bytes", gpu_.map_bytes, bytes);
    Add("map_start", "cycles", gpu_.map_start, start);
    return Status::Ok();
  }

  const CudaTarget& target_;
  const GpuTable& gpu_;
  const KernelCycles& cycles_;
  double lanes_ = 1, one_group_ = 1;  // as TmaEnds measured them
  std::vector<TableRow> rows_;
};

}  // namespace

Result<std::vector<TableRow>> MeasureTable(const CudaTarget& target, const KernelCycles& cycles) {
  return Measurer(target, cycles).Run();
}

Result<std::optional<double>> EstimatedCycles(const CudaTarget& target, BenchKernel& kernel) {
  const GpuTable& gpu = cuda::GpuTableOf(target.architecture);
  if (kernel.configuration().empty())
    return std::optional<double>(cuda::MapMicroseconds(kernel.kernel(), target) * gpu.cycles_a_microsecond);
  const std::optional<MatmulConfiguration> wanted = ParseMatmulConfiguration(kernel.configuration());
  const std::vector<std::vector<cuda::ParamFacts>> facts = FactsOf(kernel.emitted().plan);
  for (const MatmulCandidate& candidate : KernelCandidates(kernel.kernel(), target, facts[0])) {
    if (candidate.configuration != wanted) continue;
    const double cycles = candidate.microseconds * gpu.cycles_a_microsecond;
    if (wanted->family == MatmulFamily::kFewRows) return std::optional<double>(cycles);
    const bool is_long = cycles > gpu.long_kernel * gpu.long_among_others;
    return std::optional<double>(cycles / (is_long ? gpu.long_among_others : gpu.short_among_others));
  }
  return std::optional<double>();
}

}  // namespace rondo::bench
