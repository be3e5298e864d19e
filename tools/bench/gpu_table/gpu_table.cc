// Measures the compiler's table of a GPU (compiler/codegen/cuda/gpu_table.h) again. It times a few hundred
// kernels, fits the table to the times, and prints the old and the fitted table with the estimates' errors by
// each.
//
//   gpu_table [TIMES]       times on this machine's GPU; writes the times to the file TIMES
//   gpu_table --fit TIMES   fits to times taken before, without a GPU
//   gpu_table --compile A   only compiles the kernels, for architecture A ("sm_90a")
#include "compiler/codegen/cuda/gpu_table.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compiler/codegen/cuda/add_modules.h"
#include "drivers/cuda/cuda_driver.h"
#include "tools/bench/gpu_table/bench_cases.h"
#include "tools/bench/gpu_table/fit_table.h"
#include "tools/bench/gpu_table/gpu_clock.h"
#include "tools/rondo/kernel_timer.h"

namespace rondo::bench {
namespace {

// A measurement. In a file of times the first line holds the GPU and the clock, the rest the cases.
struct Times {
  std::string gpu, architecture;
  double clock = 0;  // cycles a microsecond
  std::vector<TimedCase> cases;
};

Status Compile(const std::string& architecture, BenchKernel* kernel) {
  ModuleOptions options;
  options.units.architecture = architecture;
  options.units.threads = 1;
  const bool by_library = !kernel->emitted().library.empty();
  if (!kernel->configuration().empty() && !by_library)
    options.configuration = *ParseKernelConfiguration(kernel->configuration());
  std::string report;
  return AddCudaModules(&kernel->emitted(), options, &report);
}

// Compiles on all threads of the machine. Returns the first error in the order of `cases`; it names the
// kernel.
Status CompileAll(const std::string& architecture, const std::vector<BenchCase>& cases,
                  std::vector<std::unique_ptr<BenchKernel>>* kernels) {
  for (const BenchCase& one : cases) kernels->push_back(one.Kernel());
  std::vector<Status> results(cases.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < cases.size(); i = next++)
      results[i] = Compile(architecture, (*kernels)[i].get());
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back(work);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!results[i].ok())
      return Status::Error(results[i].code(), "%s: %s", cases[i].Name().c_str(), results[i].message());
  }
  return Status::Ok();
}

Result<double> Microseconds(Device* device, BenchKernel& kernel) {
  const PlanData& plan = kernel.emitted().plan;
  tools::KernelTimer timer(plan, device, {});
  RONDO_RETURN_IF_ERROR(timer.Open());
  RONDO_ASSIGN_OR_RETURN(const size_t binaries, timer.Load(plan));
  return timer.Time(0, binaries);
}

Result<Times> Measure() {
  RONDO_ASSIGN_OR_RETURN(const GpuFacts gpu, ReadGpu());
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriver());
  RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
  Times times{gpu.name, gpu.architecture, 0, {}};
  RONDO_ASSIGN_OR_RETURN(times.clock, CyclesAMicrosecond(gpu));
  const CudaTarget target = TargetOf(gpu.architecture);
  if (gpu.processors != target.processors) {
    std::printf("kernels are made for %u multiprocessors, this GPU has %u: compare with care\n",
                target.processors, gpu.processors);
  }
  const std::vector<BenchCase> cases = BenchCases(target);
  std::vector<std::unique_ptr<BenchKernel>> kernels;
  RONDO_RETURN_IF_ERROR(CompileAll(gpu.architecture, cases, &kernels));
  for (size_t i = 0; i < cases.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(const double microseconds, Microseconds(device, *kernels[i]));
    times.cases.push_back({cases[i], microseconds * times.clock});
  }
  DestroyCudaDriver(driver);
  return times;
}

Status WriteTimes(const Times& times, const std::string& path) {
  std::ofstream file(path);
  file << times.gpu << "," << times.architecture << "," << times.clock << "\n";
  for (const TimedCase& one : times.cases)
    file << one.kernel.Name() << "," << one.cycles / times.clock << "\n";
  file.flush();
  return file ? Status::Ok() : Status::Error(Code::kIo, "cannot write %s", path.c_str());
}

Result<Times> ReadTimes(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  Times times;
  char gpu[128] = "", architecture[32] = "";
  if (!std::getline(file, line) ||
      std::sscanf(line.c_str(), "%127[^,],%31[^,],%lf", gpu, architecture, &times.clock) != 3) {
    return Status::Error(Code::kInvalidArgument, "%s does not begin with GPU,architecture,cycles",
                         path.c_str());
  }
  times.gpu = gpu;
  times.architecture = architecture;
  while (std::getline(file, line)) {
    const size_t comma = line.find(',');
    const std::optional<BenchCase> one = ParseBenchCase(line.substr(0, comma));
    const double microseconds =
        comma == std::string::npos ? 0 : std::strtod(line.c_str() + comma + 1, nullptr);
    if (!one || !(microseconds > 0)) {
      return Status::Error(Code::kInvalidArgument, "%s: \"%s\" is no kernel and time", path.c_str(),
                           line.c_str());
    }
    times.cases.push_back({*one, microseconds * times.clock});
  }
  return times;
}

void Print(const cuda::GpuTable& start, const FittedTable& fitted) {
  std::printf("%-20s %12s %12s  %s\n", "entry", "table", "fitted", "unit");
  const Span<const TableEntry> entries = TableEntries();
  for (size_t e = 0; e < entries.size(); ++e) {
    const double value = start.*entries[e].value, found = fitted.table.*entries[e].value;
    if (fitted.determined[e]) {
      std::printf("%-20s %12.2f %12.2f  %s\n", entries[e].name, value, found, entries[e].unit);
    } else {
      std::printf("%-20s %12.2f %12s  %s\n", entries[e].name, value, "-", entries[e].unit);
    }
  }
  std::printf("\n%-10s %8s   %-24s %-24s\n", "", "", "table: |ln est/meas|", "fitted");
  std::printf("%-10s %8s %12s %12s %12s %12s\n", "variant", "kernels", "median", "9 of 10", "median",
              "9 of 10");
  for (size_t f = 0; f < fitted.before.variants.size(); ++f) {
    const VariantError &before = fitted.before.variants[f], &after = fitted.after.variants[f];
    std::printf("%-10s %8zu %12.2f %12.2f %12.2f %12.2f\n", before.variant.c_str(), before.kernels,
                before.median, before.ninth_decile, after.median, after.ninth_decile);
  }
  std::printf("\nwhat is chosen by estimate takes %.3f times the best that was timed; fitted, %.3f\n",
              fitted.before.choice, fitted.after.choice);
}

Status FitAndPrint(const Times& times) {
  const CudaTarget target = TargetOf(times.architecture);
  const cuda::GpuTable& start = cuda::GpuTableOf(target);
  std::printf("%s, %s, %zu kernels\n", times.gpu.c_str(), times.architecture.c_str(), times.cases.size());
  std::printf("%-20s %12.2f %12.2f  cycles, measured\n", "cycles_a_microsecond", start.cycles_a_microsecond,
              times.clock);
  RONDO_ASSIGN_OR_RETURN(const FittedTable fitted, FitTable(target, start, times.cases));
  Print(start, fitted);
  return Status::Ok();
}

Status OnlyCompile(const std::string& architecture) {
  const std::vector<BenchCase> cases = BenchCases(TargetOf(architecture));
  std::vector<std::unique_ptr<BenchKernel>> kernels;
  RONDO_RETURN_IF_ERROR(CompileAll(architecture, cases, &kernels));
  std::printf("%zu kernels for %s\n", cases.size(), architecture.c_str());
  return Status::Ok();
}

Status MeasureAndFit(const char* path) {
  RONDO_ASSIGN_OR_RETURN(const Times times, Measure());
  if (path != nullptr) RONDO_RETURN_IF_ERROR(WriteTimes(times, path));
  return FitAndPrint(times);
}

Status FitFile(const char* path) {
  RONDO_ASSIGN_OR_RETURN(const Times times, ReadTimes(path));
  return FitAndPrint(times);
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  const auto is = [&](const char* option) { return argc == 3 && std::strcmp(argv[1], option) == 0; };
  const bool fit = is("--fit"), compile = is("--compile");
  if (!fit && !compile && (argc > 2 || (argc == 2 && argv[1][0] == '-'))) {
    std::fprintf(stderr, "usage: gpu_table [TIMES | --fit TIMES | --compile ARCHITECTURE]\n");
    return 2;
  }
  const rondo::Status status = compile ? rondo::bench::OnlyCompile(argv[2])
                               : fit   ? rondo::bench::FitFile(argv[2])
                                       : rondo::bench::MeasureAndFit(argc == 2 ? argv[1] : nullptr);
  if (status.ok()) return 0;
  std::fprintf(stderr, "gpu_table: %s\n", status.message());
  return 1;
}
