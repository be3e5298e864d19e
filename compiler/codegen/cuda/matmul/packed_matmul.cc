// Matmuls of few rows with packed weights: codes are streamed once and unpacked in registers
// (device/matmul_packed.cuh).
#include <algorithm>

#include "compiler/codegen/cuda/device/packed_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/matmul/packed_operands.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostRows = 16;                  // rows of two tensor-core instructions
constexpr int64_t kMostScales = int64_t{1} << 25;  // of 64 bytes, with 32-bit places
constexpr int64_t kReserved = 1024;  // bytes of shared memory that the system reserves for each block

// Whether codes are multiplied as bytes, which takes fewer instructions for few rows: A takes two tensor-core
// columns for each row, but codes need almost no unpacking. Codes of 2 bits do not suit: their order would
// mix blocks. FP8 codes suit on GPUs that multiply FP8, and by bf16, which two digits hold.
bool MultipliesDigits(const PartContext& context, const PackedMatmul& matmul) {
  constexpr int kMostRows = 4;
  const PackedType type = context.part.packed.type;
  const bool fp8 = type == PackedType::kE4M3 || type == PackedType::kE5M2;
  const bool bytes = type == PackedType::kU4 || type == PackedType::kU8 ||
                     (fp8 && context.target.fp8() && matmul.format.bf16 && matmul.even_k());
  return bytes && matmul.m <= kMostRows && matmul.block_k() % 32 == 0;
}

PackedMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem,
                      const KernelConfiguration& configuration) {
  PackedMatmul matmul = {};
  matmul.m = static_cast<int>(problem.m);
  matmul.n = static_cast<int>(problem.n);
  matmul.k = static_cast<int>(problem.k);
  matmul.b_count = static_cast<int>(problem.b_count);
  matmul.warps = static_cast<int>(configuration.warps);
  matmul.stages = static_cast<int>(configuration.m);
  matmul.pieces = static_cast<int>(configuration.n);
  matmul.cluster = static_cast<int>(configuration.cluster);
  matmul.format = FormatOf(context.part);
  matmul.b_constant = IsPackedBConstant(context);
  matmul.block_warps = configuration.warps_m != 0 ? static_cast<int>(configuration.warps_m) : 8;
  matmul.digits = MultipliesDigits(context, matmul);
  matmul.streamed = AreStreamed(context, context.part.rhs);
  return matmul;
}

bool Suits(const PartContext& context, const MatmulProblem& problem) {
  if (!SuitsPacked(context.part, problem)) return false;
  const int64_t blocks = problem.k / std::min(context.part.packed.block, problem.k) + 1;
  return problem.m <= kMostRows && problem.n / 16 * blocks < kMostScales;
}

// Stages of copies, pieces of a step, and the numbers of warps and blocks that split K.
struct Tried {
  int64_t stages, pieces, warps, cluster;
  int64_t block_warps = 0;  // 0: 8
};
constexpr Tried kTried[] = {
    {5, 4, 8, 1}, {6, 2, 8, 1},     {4, 2, 8, 1},      {8, 2, 8, 1}, {3, 4, 8, 1}, {4, 4, 8, 1},
    {5, 2, 8, 1}, {5, 2, 8, 1, 16}, {5, 2, 16, 1, 16}, {7, 4, 8, 1}, {4, 4, 4, 1}, {5, 4, 4, 1},
    {6, 2, 4, 1}, {4, 2, 4, 1},     {3, 2, 8, 1},      {5, 4, 8, 2}, {6, 2, 8, 2}, {4, 2, 4, 4},
    {6, 2, 8, 4}, {5, 4, 8, 1, 16}, {4, 4, 8, 1, 16}};
// With more rows, A takes most of the shared memory: blocks of 16 warps share it, or a cluster splits it.
constexpr Tried kTriedOfRows[] = {
    {4, 4, 8, 1, 16},  {5, 2, 8, 1, 16}, {3, 2, 8, 1, 16},  {3, 2, 16, 1, 16}, {4, 1, 8, 1, 16},
    {4, 2, 16, 1, 16}, {3, 1, 8, 1, 16}, {3, 1, 16, 1, 16}, {4, 1, 4, 1, 16},  {6, 1, 16, 1, 16},
    {3, 2, 4, 1, 16},  {4, 1, 2, 1, 16}, {3, 4, 8, 1},      {3, 2, 8, 1},      {4, 4, 8, 1},
    {4, 2, 8, 1},      {6, 2, 8, 1},     {5, 4, 8, 1},      {6, 1, 8, 1},      {4, 2, 4, 1},
    {4, 2, 2, 8},      {3, 2, 8, 8},     {4, 2, 1, 8},      {4, 2, 4, 8},      {3, 2, 4, 8, 16},
    {3, 2, 2, 4, 16},  {3, 2, 4, 4, 16}, {6, 2, 8, 4},      {3, 2, 2, 8, 16}};

Span<const Tried> TriedOf(const MatmulProblem& problem) {
  return problem.m > 2 ? Span<const Tried>(kTriedOfRows) : Span<const Tried>(kTried);
}

KernelConfiguration ConfigurationOf(const Tried& tried) {
  KernelConfiguration configuration;
  configuration.variant = VariantId::kPacked;
  configuration.m = tried.stages;
  configuration.n = tried.pieces;
  configuration.warps_m = tried.block_warps;
  configuration.warps = tried.warps;
  configuration.cluster = tried.cluster;
  return configuration;
}

// Columns of the busiest multiprocessor, with `resident` blocks on each.
int64_t BusiestColumns(const PartContext& context, const MatmulProblem& problem, int64_t columns,
                       int64_t resident) {
  const auto processors = static_cast<int64_t>(context.Processors());
  const int64_t tiles = (problem.n + columns - 1) / columns, blocks = std::min(tiles, processors * resident);
  return columns * ((tiles + blocks - 1) / blocks) * ((blocks + processors - 1) / processors);
}

// The fastest configuration in measurements of a decoder's matmuls (tools/bench/results/packed-weights.md).
// The others follow in the order of the list, also where this one does not fit.
Tried QuickestOf(const PartContext& context, const MatmulProblem& problem) {
  const bool deep = problem.k >= 8192, narrow = problem.n <= 4096, two = problem.b_count > 1;
  const bool bytes = context.part.packed.type <= PackedType::kU8 ||
                     MultipliesDigits(context, MatmulOf(context, problem, ConfigurationOf(kTried[0])));
  if (problem.m > 4) {
    if (deep) return {3, 2, 4, 4, 16};
    if (two) return {4, 2, 8, 1};
    return problem.n <= 8192 && !narrow ? Tried{3, 2, 4, 1, 16} : Tried{3, 2, 8, 1, 16};
  }
  // Whether blocks of 16 warps, twice as wide, take no longer than two of 8.
  const bool wide = BusiestColumns(context, problem, 32, 1) <= BusiestColumns(context, problem, 16, 2);
  if (problem.m > 2 && bytes) {
    const bool few_bits = BitsOf(context.part.packed.type) <= 4;
    if (two) return few_bits ? Tried{5, 4, 8, 1} : Tried{4, 4, 8, 1};
    if (deep) return few_bits ? Tried{5, 4, 8, 1} : wide ? Tried{5, 2, 8, 1, 16} : Tried{4, 4, 8, 1};
    if (!narrow) return {5, 4, 8, 1};
    // Occupies few multiprocessors, for a little longer; the next kernel begins on the others.
    if (few_bits && context.share == 1 && problem.n > 2048) return {3, 2, 4, 1, 16};
    return wide ? Tried{4, 4, 8, 1, 16} : Tried{3, 4, 8, 1};
  }
  if (problem.m > 2) {
    if (deep) return {3, 2, 8, 1, 16};
    if (two) return {3, 2, 8, 1};
    return narrow ? Tried{3, 2, 16, 1, 16} : Tried{3, 4, 8, 1};
  }
  if (two) return wide ? Tried{5, 2, 8, 1, 16} : Tried{4, 2, 8, 1};
  if (deep) return wide && bytes ? Tried{5, 4, 8, 1, 16} : Tried{4, 4, 8, 1};
  if (!narrow) return {5, 4, 8, 1};
  // A part that shares the GPU with other parts has few tiles for each block.
  return wide && bytes && context.share == 1 ? Tried{5, 2, 8, 1, 16} : Tried{3, 4, 8, 1};
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  std::vector<KernelCandidate> candidates;
  if (!context.matmul) return candidates;
  const MatmulProblem& problem = *context.matmul;
  if (!Suits(context, problem)) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  const int64_t bytes = problem.n * problem.k * problem.b_count * BitsOf(context.part.packed.type) / 8;
  const auto offer = [&](const KernelConfiguration& configuration) {
    if (configuration.cluster > 1 && !context.target.clusters()) return;
    if (context.cluster != 0 && static_cast<int64_t>(context.cluster) != configuration.cluster) return;
    const PackedMatmul matmul = MatmulOf(context, problem, configuration);
    if (matmul.shared() > static_cast<int64_t>(context.target.shared)) return;
    const auto place = static_cast<double>(candidates.size());
    const double cycles =
        gpu.stream_start + static_cast<double>(bytes) / gpu.memory_bytes + gpu.stream_next_best * place;
    candidates.push_back({configuration, cycles / gpu.cycles_a_microsecond,
                          BlockNeeds{static_cast<uint32_t>(matmul.threads())}});
  };
  const KernelConfiguration quickest = ConfigurationOf(QuickestOf(context, problem));
  offer(quickest);
  for (const Tried& tried : TriedOf(problem)) {
    if (ConfigurationOf(tried) != quickest) offer(ConfigurationOf(tried));
  }
  return candidates;
}

std::string Pointers(const Part& part, Span<const uint16_t> operands) {
  std::string text;
  for (uint16_t index : operands) text += (text.empty() ? "p" : ", p") + Text(part.operands[index].param);
  return text.empty() ? "nullptr" : text;
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const Part& part = context.part;
  const PackedMatmul matmul = MatmulOf(context, problem, configuration);
  const int64_t shared = matmul.shared();
  // Several blocks for each multiprocessor where there is room: each fills the gaps at the others' ends. With
  // more rows there are not enough registers for three.
  const int64_t resident = std::max<int64_t>(
      1, std::min<int64_t>(problem.m > 2 ? 2 : 3, context.target.shared_processor / (shared + kReserved)));
  const int64_t tiles = (problem.n + matmul.tile_n() - 1) / matmul.tile_n();
  // Clusters without room would begin only when others have ended.
  const double used = GpuTableOf(context.target).UsedBy(configuration.cluster);
  const auto processors = static_cast<int64_t>(used * static_cast<double>(context.Processors()));
  const int64_t most = std::max<int64_t>(1, processors * resident / configuration.cluster);
  const int64_t blocks = std::min(tiles, most) * configuration.cluster;
  writer->Include("matmul_packed");
  writer->Line("const int batch = 0; (void)batch;");
  writer->Line("const char* const codes[] = {" + Pointers(part, part.rhs) + "};");
  writer->Line("const char* const scales[] = {" + Pointers(part, part.scales) + "};");
  writer->Line("const char* const zeros[] = {" + Pointers(part, part.zeros) + "};");
  WriteAValue(context, problem, 1, writer);
  WriteAVectors(context, problem, part.packed.dtype, writer);
  WriteFetchOfPoint(context, problem, writer);
  WriteEpilogue(context, problem, 1, "", writer);
  writer->Line("matmul_packed<" + Aggregate("PackedMatmul", matmul) + ">(block, " + Text(blocks) +
               "u, PackedMatrices{codes, scales, zeros}, a_at, fetch, epilogue);");
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(shared);
  launch.cluster = static_cast<uint32_t>(configuration.cluster);
  launch.resident = static_cast<uint32_t>(resident);
  launch.block = static_cast<uint32_t>(matmul.threads());
  return WithBlocks(launch, blocks);
}

}  // namespace

constinit const KernelVariant kPackedMatmul = {VariantId::kPacked, {}, Candidates, Write};

}  // namespace rondo::cuda
