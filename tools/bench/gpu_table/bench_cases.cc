#include "tools/bench/gpu_table/bench_cases.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <utility>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/kernel_binaries.h"
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"

namespace rondo::bench {

namespace {

constexpr int kProblems = 48;             // tiled matmuls
constexpr size_t kCandidates = 7;         // for each
constexpr int64_t kMostWork = 1LL << 35;  // multiply-adds: some 100 microseconds
constexpr uint64_t kSeed = 1;

const char* TypeName(const MatmulSize& size) {
  return size.tf32 ? "tf32" : size.type == DType::kF32 ? "f32" : "bf16";
}

// A random multiple of 64 from `least` to `most`, uniform in the logarithm.
int64_t Extent(std::mt19937_64& random, double least, double most) {
  const double at = static_cast<double>(random() >> 11) * 0x1p-53;
  return std::max<int64_t>(1, std::llround(least * std::pow(most / least, at) / 64)) * 64;
}

// A problem for tiled kernels. B fits into L2 and lies there.
MatmulSize TiledProblem(std::mt19937_64& random, int place) {
  MatmulSize size;
  do {
    size = {Extent(random, 128, 4096), Extent(random, 256, 4096), Extent(random, 256, 4096)};
  } while (size.m * size.n * size.k > kMostWork);
  if (place % 6 == 4) size.type = DType::kF32;
  if (place % 6 == 5) {
    size.type = DType::kF32;
    size.tf32 = true;
  }
  return size;
}

std::vector<KernelCandidate> CandidatesOf(const CudaTarget& target, BenchKernel& kernel) {
  const std::vector<std::vector<cuda::ParamFacts>> facts = FactsOf(kernel.emitted().plan);
  return KernelCandidates(kernel.kernel(), target, facts[0]);
}

// Adds up to kCandidates cases: the two best by estimate, and others drawn at random from all variants.
void AddCases(const CudaTarget& target, const MatmulSize& size, std::mt19937_64& random,
              std::vector<BenchCase>* cases) {
  BenchKernel kernel(size, "");
  std::vector<KernelCandidate> candidates = CandidatesOf(target, kernel);
  std::erase_if(candidates, [](const KernelCandidate& one) { return one.microseconds == kNotEstimated; });
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const KernelCandidate& a, const KernelCandidate& b) { return a.microseconds < b.microseconds; });
  for (size_t taken = 0; taken < kCandidates && !candidates.empty(); ++taken) {
    const size_t next = taken < 2 ? 0 : random() % candidates.size();
    cases->push_back({size, Text(candidates[next].configuration)});
    candidates.erase(candidates.begin() + static_cast<int64_t>(next));
  }
}

}  // namespace

std::unique_ptr<BenchKernel> BenchCase::Kernel() const {
  return elements > 0 ? std::make_unique<BenchKernel>(elements)
                      : std::make_unique<BenchKernel>(size, configuration);
}

std::string BenchCase::Problem() const {
  if (elements > 0) return "map " + std::to_string(elements);
  return std::string(TypeName(size)) + " " + std::to_string(size.m) + " " + std::to_string(size.n) + " " +
         std::to_string(size.k);
}

std::string BenchCase::Name() const { return elements > 0 ? Problem() : Problem() + " " + configuration; }

std::string BenchCase::Family() const {
  return elements > 0 ? "map" : configuration.substr(0, configuration.find(' '));
}

std::optional<BenchCase> ParseBenchCase(const std::string& name) {
  std::istringstream text(name);
  std::string type;
  BenchCase found;
  if (!(text >> type)) return std::nullopt;
  if (type == "map") return text >> found.elements && text.eof() ? std::optional(found) : std::nullopt;
  if (!(text >> found.size.m >> found.size.n >> found.size.k)) return std::nullopt;
  found.size.tf32 = type == "tf32";
  if (type != "bf16") found.size.type = DType::kF32;
  std::getline(text >> std::ws, found.configuration);
  const bool known = ParseKernelConfiguration(found.configuration).has_value() && found.Name() == name;
  return known ? std::optional(found) : std::nullopt;
}

std::vector<BenchCase> BenchCases(const CudaTarget& target) {
  std::mt19937_64 random(kSeed);
  std::vector<BenchCase> cases;
  for (int i = 0; i < kProblems; ++i) AddCases(target, TiledProblem(random, i), random, &cases);
  // Few rows: B exceeds any L2.
  for (const int64_t n : {32768, 49152, 65536}) AddCases(target, {1, n, 4096}, random, &cases);
  AddCases(target, {8, 32768, 4096}, random, &cases);
  for (const int64_t elements : {1 << 20, 2 << 20, 4 << 20, 8 << 20}) cases.push_back({{}, "", elements});
  return cases;
}

Result<std::optional<double>> EstimatedCycles(const CudaTarget& target, BenchKernel& kernel) {
  const cuda::GpuTable& gpu = cuda::GpuTableOf(target);
  if (kernel.configuration().empty())
    return std::optional<double>(cuda::MapMicroseconds(kernel.kernel(), target) * gpu.cycles_a_microsecond);
  const std::optional<KernelConfiguration> wanted = ParseKernelConfiguration(kernel.configuration());
  for (const KernelCandidate& candidate : CandidatesOf(target, kernel)) {
    if (candidate.configuration != wanted || candidate.microseconds == kNotEstimated) continue;
    const double cycles = candidate.microseconds * gpu.cycles_a_microsecond;
    if (wanted->variant == VariantId::kFewRows || wanted->variant == VariantId::kLibrary)
      return std::optional<double>(cycles);
    if (wanted->variant == VariantId::kTma || wanted->variant == VariantId::kPingPong)
      return std::optional<double>(cuda::TmaCyclesAlone(gpu, candidate.microseconds));
    const bool is_long = cycles > gpu.long_kernel * gpu.long_among_others;
    return std::optional<double>(cycles / (is_long ? gpu.long_among_others : gpu.short_among_others));
  }
  return std::optional<double>();
}

}  // namespace rondo::bench
