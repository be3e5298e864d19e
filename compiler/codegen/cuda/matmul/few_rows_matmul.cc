// Matmuls of few rows: B is streamed once, through slots of each warp; on tensor cores
// (device/matmul_few_rows.cuh), or by FMA (device/matmul_few_rows_f32.cuh).
#include <algorithm>

#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/matmul_templates.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostRows = 16;  // that one instruction of tensor cores multiplies

// How a stream of B is cut.
struct Stream {
  FewRowsLayout layout;
  int64_t tiles = 1;   // along N
  int64_t stages = 0;  // as many as fit besides A and the sums of the warps
  int64_t shared = 0;  // bytes
};

Stream StreamOf(const PartContext& context, const MatmulProblem& problem, int64_t warps) {
  constexpr int64_t kMostStages = 12;
  Stream stream;
  stream.layout.m = static_cast<int>(problem.m);
  stream.layout.b_count = static_cast<int>(problem.bs);
  stream.layout.warps = static_cast<int>(warps);
  stream.layout.wide = !problem.b_k_major;
  stream.layout.f32 = context.part.operands[context.part.rhs[0]].dtype == DType::kF32;
  const int64_t besides = stream.layout.besides_stages(problem.k), stage = stream.layout.stage();
  stream.stages = std::min(kMostStages, (static_cast<int64_t>(context.target.shared) - besides) / stage);
  stream.shared = stream.stages * stage + besides;
  stream.tiles = (problem.n + stream.layout.columns() - 1) / stream.layout.columns();
  return stream;
}

// Blocks of all clusters: as many as the device has room for, though some then take one tile less than
// others. What is streamed bounds them all, and those that end first leave their room to the next kernel's
// copies: 1152 microseconds for a decode step where even rounds on fewer blocks took 1167. (Shares of columns
// that do not begin at a line of 128 bytes are out of the question: 1510.)
int64_t BlocksOf(const PartContext& context, const Stream& stream, int64_t cluster) {
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(context.Processors()) / cluster);
  return std::min(stream.tiles, most) * cluster;
}

// So little that a stream ends before it has begun: a warp a point takes less.
bool IsLittle(const PartContext& context, const MatmulProblem& problem) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const int64_t bytes =
      problem.n * problem.k * problem.bs * ByteSize(context.part.operands[context.part.rhs[0]].dtype);
  return problem.m <= gpu.dot_rows && bytes <= gpu.dot_bytes && kDotMatmul.suits(context);
}

bool Suits(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const GpuTable& gpu = GpuTableOf(context.target);
  const DType type = part.operands[part.rhs[0]].dtype;
  if (part.acc_type != TapeType::kF32 || problem.batches != 1 || IsLittle(context, problem) ||
      !part.operands[part.lhs].guards.empty())
    return false;
  if (Is16Bit(type)) {
    return problem.m <= (problem.b_k_major ? kMostRows : gpu.stream_wide_rows) && problem.b_vector == 8 &&
           problem.k % 8 == 0 && part.loops[problem.k_loops.back()] % 8 == 0 && problem.n >= 64 &&
           problem.k >= 128;
  }
  return type == DType::kF32 && problem.m * problem.bs <= gpu.stream_wide_rows && problem.b_vector == 4 &&
         problem.n >= 32 && problem.k >= 64;
}

// What memory takes for B, whatever the configuration; each next one is but a little behind.
double Cycles(const GpuTable& gpu, const PartContext& context, const MatmulProblem& problem, size_t place) {
  const int64_t size = ByteSize(context.part.operands[context.part.rhs[0]].dtype);
  const double bytes = static_cast<double>(problem.n * problem.k * problem.bs * size);
  return gpu.stream_start + bytes / gpu.memory_bytes + gpu.stream_next_best * static_cast<double>(place);
}

// Two blocks split K where that still leaves at most one block a multiprocessor (more gain nothing).
std::vector<int64_t> ClustersOf(const PartContext& context, const MatmulProblem& problem,
                                const Stream& stream) {
  if (context.cluster != 0) return {static_cast<int64_t>(context.cluster)};
  if (!context.target.clusters() || problem.k < 4 * stream.layout.step()) return {1};
  const bool two = static_cast<double>(2 * stream.tiles) <= context.Processors();
  return two ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{1, 2};
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  if (!Suits(context, problem)) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  for (int64_t warps : {8, 4}) {
    const Stream stream = StreamOf(context, problem, warps);
    if (stream.stages < 3) continue;
    for (int64_t cluster : ClustersOf(context, problem, stream)) {
      MatmulConfiguration configuration;
      configuration.family = MatmulFamily::kFewRows;
      configuration.warps = warps;
      configuration.cluster = cluster;
      const double cycles = Cycles(gpu, context, problem, candidates.size());
      candidates.push_back({configuration, cycles / gpu.cycles_a_microsecond});
    }
  }
  return candidates;
}

// auto left_at = [&](row, depth) -> uint4: eight elements of A along K, in B's type.
void WriteAVectors(const PartContext& context, const MatmulProblem& problem, PartWriter* writer) {
  const Part& part = context.part;
  const Operand &lhs = part.operands[part.lhs], &rhs = part.operands[part.rhs[0]];
  writer->Line("auto left_at = [&](int row, int depth) -> uint4 {");
  if (part.prologue.empty() && lhs.dtype == rhs.dtype && IsPlain(lhs) && problem.a_k_major &&
      problem.a_vector == 8) {
    const FlatOperand a = Flatten(part, lhs);
    WritePlace("row_place", problem.m_loops, a, true, writer);
    WritePlace("left_depth_place", problem.k_loops, a, false, writer);
    writer->Line("return *(const uint4*)(p" + Text(lhs.param) +
                 " + 2 * (row_place(row).a + left_depth_place(depth).a)); };");
    return;
  }
  const std::string type = Truth(rhs.dtype == DType::kBF16);
  std::string words;
  for (int w = 0; w < 4; ++w) {
    words += std::string(w == 0 ? "" : ", ") + "pack_pair<" + type + ">(left_value(row, depth + " +
             Text(2 * w) + "), left_value(row, depth + " + Text(2 * w + 1) + "))";
  }
  writer->Line("return make_uint4(" + words + "); };");
}

Result<PartLaunch> Write(const PartContext& context, const MatmulProblem& problem,
                         const MatmulConfiguration& configuration, PartWriter* writer) {
  const Part& part = context.part;
  const Stream stream = StreamOf(context, problem, configuration.warps);
  const Operand& rhs = part.operands[part.rhs[0]];
  const FlatOperand b = Flatten(part, rhs);
  const int64_t blocks = BlocksOf(context, stream, configuration.cluster);
  writer->Include(stream.layout.f32 ? "matmul_few_rows_f32" : "matmul_few_rows");
  writer->Line("const int batch = 0; (void)batch;");
  WritePlace("column_place", problem.n_loops, b, false, writer);
  WritePlace("depth_place", problem.k_loops, b, false, writer);
  WriteBases(part, "", writer);
  WriteAValue(context, problem, 1, writer);
  if (!stream.layout.f32) WriteAVectors(context, problem, writer);
  WriteEpilogue(context, problem, 1, "", writer);
  const std::string type = stream.layout.f32 ? "" : Truth(rhs.dtype == DType::kBF16) + ", ";
  writer->Line(
      (stream.layout.f32 ? "matmul_few_rows_f32<" : "matmul_few_rows<") + Text(problem.bs) + ", " +
      Text(problem.m) + ", " + Text(configuration.warps) + ", " + Text(stream.stages) + ", " +
      Text(configuration.cluster) + ", " + Truth(stream.layout.wide) + ", " + type +
      Truth(AreConstant(context, part.rhs)) + ">(block, " + Text(blocks) + "u, " + Text(problem.n) + ", " +
      Text(problem.k) +
      ", right, [&](int c) { return column_place(c).a; }, [&](int k) { return depth_place(k).a; }, " +
      (stream.layout.f32 ? "left_value" : "left_at") + ", finish);");
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(stream.shared);
  launch.cluster = static_cast<uint32_t>(configuration.cluster);
  return WithBlocks(launch, blocks);
}

}  // namespace

constinit const MatmulTemplate kFewRowsMatmul = {MatmulFamily::kFewRows, {}, Candidates, Write};

}  // namespace rondo::cuda
