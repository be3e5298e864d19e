// Matmuls of few rows. B is streamed once, through slots of each warp. Tensor cores multiply in 16 bits
// (device/matmul_few_rows.cuh) or 8 bits (device/matmul_few_rows_bytes.cuh), or FMA instructions do
// (device/matmul_few_rows_f32.cuh).
#include <algorithm>

#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/matmul/byte_operands.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostRows = 16;  // rows of one tensor-core instruction

// Tiles along N.
int64_t TilesOfN(const MatmulProblem& problem, const FewRowsMatmul& matmul) {
  return (problem.n + matmul.tile_n() - 1) / matmul.tile_n();
}

int64_t SharedBytes(const MatmulProblem& problem, const FewRowsMatmul& matmul) {
  return static_cast<int64_t>(matmul.stages) * matmul.stage() + matmul.besides_stages(problem.k);
}

// A matrix B.
const Operand& BOf(const Part& part, const MatmulProblem& problem) {
  return part.operands[MatricesOf(part, problem)[0]];
}

// Takes as many stages as fit besides A and the warps' accumulators.
FewRowsMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem, int64_t warps,
                       int64_t cluster) {
  constexpr int64_t kMostStages = 12;
  const Operand& b = BOf(context.part, problem);
  FewRowsMatmul matmul = {};
  matmul.m = static_cast<int>(problem.m);
  matmul.b_count = static_cast<int>(problem.b_count);
  matmul.warps = static_cast<int>(warps);
  matmul.cluster = static_cast<int>(cluster);
  matmul.bytes = ByteSize(b.dtype) == 1;
  matmul.whole = Is8Bit(b.dtype);
  matmul.sums = problem.adds_up >= 0;
  matmul.n_major = !problem.b_k_major;
  matmul.f32 = b.dtype == DType::kF32;
  matmul.bf16 = b.dtype == DType::kBF16;
  matmul.b_constant = AreConstant(context, context.part.rhs);
  matmul.streamed = AreStreamed(context, context.part.rhs);
  const int64_t room = static_cast<int64_t>(context.target.shared) - matmul.besides_stages(problem.k);
  matmul.stages = static_cast<int>(std::min(kMostStages, room / matmul.stage()));
  return matmul;
}

// Blocks of all clusters: as many as the device holds, although some then get one tile less than others.
// Streaming is the bound, and blocks that end early leave room for the next kernel's copies: a decode step
// took 1152 microseconds, and 1167 with even rounds on fewer blocks. (Column shares that do not start at a
// 128-byte line are no alternative: 1510.)
int64_t BlocksOf(const PartContext& context, int64_t tiles, int64_t cluster) {
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(context.Processors()) / cluster);
  return std::min(tiles, most) * cluster;
}

// Whether the matmul is too small for streaming: one warp for each output element takes less time.
bool IsLittle(const PartContext& context, const MatmulProblem& problem) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const int64_t bytes = problem.n * problem.k * problem.b_count * ByteSize(BOf(context.part, problem).dtype);
  return problem.m <= gpu.dot_rows && bytes <= gpu.dot_bytes && !kDotMatmul.candidates(context).empty();
}

// Matmuls of bytes that copy whole lines of A and B along K.
bool SuitsBytes(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  constexpr int kLine = 16;
  return MultipliesBytes(context, problem) && IsPlain(part.operands[part.lhs]) && problem.batches == 1 &&
         problem.m <= kMostRows && !IsLittle(context, problem) && problem.a_k_major && problem.b_k_major &&
         problem.a_vector == kLine && problem.b_vector == kLine && problem.k % kLine == 0 &&
         part.loops[problem.k_loops.back()] % kLine == 0 && problem.n >= 64 && problem.k >= 256;
}

bool Suits(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const GpuTable& gpu = GpuTableOf(context.target);
  const DType type = BOf(part, problem).dtype;
  if (ByteSize(type) == 1) return SuitsBytes(context, problem);
  if (part.acc_type != TapeType::kF32 || problem.batches != 1 || IsLittle(context, problem) ||
      !part.operands[part.lhs].guards.empty())
    return false;
  if (Is16Bit(type)) {
    return problem.m <= (problem.b_k_major ? kMostRows : gpu.stream_wide_rows) && problem.b_vector == 8 &&
           problem.k % 8 == 0 && part.loops[problem.k_loops.back()] % 8 == 0 && problem.n >= 64 &&
           problem.k >= 128;
  }
  return type == DType::kF32 && problem.m * problem.b_count <= gpu.stream_wide_rows &&
         problem.b_vector == 4 && problem.n >= 32 && problem.k >= 64;
}

// The time to read B from memory, which no configuration changes; each next place in the list is a little
// slower.
double Cycles(const GpuTable& gpu, const PartContext& context, const MatmulProblem& problem, size_t place) {
  const int64_t size = ByteSize(BOf(context.part, problem).dtype);
  const double bytes = static_cast<double>(problem.n * problem.k * problem.b_count * size);
  return gpu.stream_start + bytes / gpu.memory_bytes + gpu.stream_next_best * static_cast<double>(place);
}

// Matmuls of bytes with more than 8 rows and a long K: two blocks of four warps, with half of A each, were
// fastest.
bool IsDeep(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kLong = 8192, kHalf = 8;
  return ByteSize(BOf(context.part, problem).dtype) == 1 && problem.m > kHalf && problem.k >= kLong;
}

// Two blocks split K if that gives at most one block for each multiprocessor (more do not help). For bytes, a
// block has only its part of A, so that larger clusters can split an A that does not fit one block.
std::vector<int64_t> ClustersOf(const PartContext& context, const MatmulProblem& problem,
                                const FewRowsMatmul& matmul) {
  if (context.cluster != 0) return {static_cast<int64_t>(context.cluster)};
  if (!context.target.clusters() || problem.k < 4 * matmul.tile_k()) return {1};
  const bool two =
      IsDeep(context, problem) || static_cast<double>(2 * TilesOfN(problem, matmul)) <= context.Processors();
  std::vector<int64_t> clusters = two ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{1, 2};
  if (matmul.bytes) clusters.insert(clusters.end(), {4, 8});
  return clusters;
}

// Columns of the busiest multiprocessor.
int64_t BusiestColumns(const PartContext& context, const MatmulProblem& problem,
                       const FewRowsMatmul& matmul) {
  const int64_t tiles = TilesOfN(problem, matmul), blocks = BlocksOf(context, tiles, 1);
  return (tiles + blocks - 1) / blocks * matmul.tile_n();
}

// Numbers of warps that split K, best first. Eight warps take 1024 bytes of K in a step; with a short K,
// tiles would end too soon for the copies in flight to bridge their ends. Four warps have tiles of twice the
// width, unless the multiprocessors' shares then become unequal.
std::vector<int64_t> WarpsOf(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kShort = 8192;
  if (IsDeep(context, problem)) return {4, 8};
  const FewRowsMatmul eight = MatmulOf(context, problem, 8, 1), four = MatmulOf(context, problem, 4, 1);
  const bool wide = eight.bytes && problem.k < kShort &&
                    BusiestColumns(context, problem, four) <= BusiestColumns(context, problem, eight);
  return wide ? std::vector<int64_t>{4, 8} : std::vector<int64_t>{8, 4};
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul) return {};
  const MatmulProblem& problem = *context.matmul;
  std::vector<KernelCandidate> candidates;
  if (!Suits(context, problem)) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  for (int64_t warps : WarpsOf(context, problem)) {
    for (int64_t cluster : ClustersOf(context, problem, MatmulOf(context, problem, warps, 1))) {
      if (MatmulOf(context, problem, warps, cluster).stages < 3) continue;
      KernelConfiguration configuration;
      configuration.variant = VariantId::kFewRows;
      configuration.warps = warps;
      configuration.cluster = cluster;
      const double cycles = Cycles(gpu, context, problem, candidates.size());
      candidates.push_back({configuration, cycles / gpu.cycles_a_microsecond});
    }
  }
  return candidates;
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const Part& part = context.part;
  const FewRowsMatmul matmul = MatmulOf(context, problem, configuration.warps, configuration.cluster);
  const Operand& operand = BOf(part, problem);
  const FlatOperand b = Flatten(part, operand);
  const int64_t blocks = BlocksOf(context, TilesOfN(problem, matmul), configuration.cluster);
  const std::string name = matmul.bytes ? "matmul_few_rows_bytes"
                           : matmul.f32 ? "matmul_few_rows_f32"
                                        : "matmul_few_rows";
  writer->Include(name);
  writer->Line("const int batch = 0; (void)batch;");
  WritePlace("b_n_place", problem.n_loops, b, false, writer);
  WritePlace("b_k_place", problem.k_loops, b, false, writer);
  WriteBases(part, problem, "", writer);
  if (!matmul.bytes) WriteAValue(context, problem, 1, writer);
  if (!matmul.f32)
    WriteAVectors(context, problem, matmul.bytes ? part.operands[part.lhs].dtype : operand.dtype, writer);
  WriteFetchOfPoint(context, problem, writer);
  WriteEpilogue(context, problem, 1, "", writer);
  const std::string bytes =
      matmul.bytes ? ", " + BytesText(operand.dtype, part.operands[part.lhs].dtype) : "";
  writer->Line(name + "<" + Aggregate("FewRowsMatmul", matmul) + bytes + ">(block, " + Text(blocks) + "u, " +
               Aggregate("MatmulExtents", ExtentsOf(problem)) +
               ", b, [&](int n) { return b_n_place(n).a; }, [&](int k) { return b_k_place(k).a; }, " +
               (matmul.f32 ? "a_value" : "a_at") + ", fetch, epilogue);");
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(SharedBytes(problem, matmul));
  launch.cluster = static_cast<uint32_t>(configuration.cluster);
  return WithBlocks(launch, blocks);
}

}  // namespace

constinit const KernelVariant kFewRowsMatmul = {VariantId::kFewRows, {}, Candidates, Write};

}  // namespace rondo::cuda
