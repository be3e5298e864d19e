// Measures the entries of the compiler's table of a GPU (compiler/codegen/cuda/gpu_table.h) again, and prints
// them beside the table.
//
//   gpu_table               on this machine's GPU
//   gpu_table --compile A   only compiles the kernels that it would time, for architecture A ("sm_90a")
#include "compiler/codegen/cuda/gpu_table.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include "compiler/codegen/cuda/add_modules.h"
#include "drivers/cuda/cuda_driver.h"
#include "tools/bench/gpu_table/gpu_clock.h"
#include "tools/bench/gpu_table/measure_table.h"
#include "tools/rondo/kernel_timer.h"

namespace rondo::bench {
namespace {

// Gives the kernel its machine code; false if it is not of the configuration that was asked for.
Result<bool> Compile(const CudaTarget& target, const std::string& architecture, BenchKernel* kernel) {
  RONDO_ASSIGN_OR_RETURN(const std::optional<double> known, EstimatedCycles(target, *kernel));
  if (!known) return false;
  ModuleOptions options;
  options.units.architecture = architecture;
  if (!kernel->configuration().empty()) options.matmul = *ParseMatmulConfiguration(kernel->configuration());
  std::string report;
  RONDO_RETURN_IF_ERROR(AddCudaModules(&kernel->emitted(), options, &report));
  return true;
}

Result<double> Microseconds(Device* device, BenchKernel& kernel) {
  const PlanData& plan = kernel.emitted().plan;
  tools::KernelTimer timer(plan, device, {});
  RONDO_RETURN_IF_ERROR(timer.Open());
  RONDO_ASSIGN_OR_RETURN(const size_t images, timer.Load(plan));
  return timer.Time(0, images);
}

void Print(const std::vector<TableRow>& rows) {
  std::printf("%-20s %12s %12s  %s\n", "entry", "table", "measured", "unit");
  for (const TableRow& row : rows) {
    if (row.measured) {
      std::printf("%-20s %12.2f %12.2f  %s\n", row.entry.c_str(), row.table, *row.measured, row.unit.c_str());
    } else {
      std::printf("%-20s %12.2f %12s  %s\n", row.entry.c_str(), row.table, "-", row.unit.c_str());
    }
  }
}

// Without a device: of so many kernels, whether each compiles.
Status OnlyCompile(const std::string& architecture) {
  const CudaTarget target = TargetOf(architecture);
  int compiled = 0, without = 0;
  const KernelCycles cycles = [&](BenchKernel& kernel) -> Result<std::optional<double>> {
    RONDO_ASSIGN_OR_RETURN(const bool has, Compile(target, architecture, &kernel));
    ++(has ? compiled : without);
    return EstimatedCycles(target, kernel);
  };
  RONDO_ASSIGN_OR_RETURN(const std::vector<TableRow> rows, MeasureTable(target, cycles));
  std::printf("%zu entries by %d kernels for %s; %d others are not of this architecture\n", rows.size(),
              compiled, architecture.c_str(), without);
  return Status::Ok();
}

Status Measure() {
  RONDO_ASSIGN_OR_RETURN(const GpuFacts gpu, ReadGpu());
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriver());
  RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
  RONDO_ASSIGN_OR_RETURN(const double clock, CyclesAMicrosecond(gpu));
  CudaTarget target = TargetOf(gpu.architecture);
  std::printf("%s, %u multiprocessors, %s\n", gpu.name.c_str(), gpu.processors, gpu.architecture.c_str());
  if (gpu.processors != target.processors)
    std::printf("kernels are made for %u multiprocessors: compare with care\n", target.processors);
  const KernelCycles cycles = [&](BenchKernel& kernel) -> Result<std::optional<double>> {
    RONDO_ASSIGN_OR_RETURN(const bool has, Compile(target, gpu.architecture, &kernel));
    if (!has) return std::optional<double>();
    RONDO_ASSIGN_OR_RETURN(const double microseconds, Microseconds(device, kernel));
    return std::optional<double>(microseconds * clock);
  };
  RONDO_ASSIGN_OR_RETURN(std::vector<TableRow> rows, MeasureTable(target, cycles));
  rows.insert(rows.begin(),
              {"cycles_a_microsecond", "cycles", cuda::GpuTableOf(target).cycles_a_microsecond, clock});
  Print(rows);
  DestroyCudaDriver(driver);
  return Status::Ok();
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  const bool compile = argc == 3 && std::strcmp(argv[1], "--compile") == 0;
  if (argc != 1 && !compile) {
    std::fprintf(stderr, "usage: gpu_table [--compile ARCHITECTURE]\n");
    return 2;
  }
  const rondo::Status status = compile ? rondo::bench::OnlyCompile(argv[2]) : rondo::bench::Measure();
  if (status.ok()) return 0;
  std::fprintf(stderr, "gpu_table: %s\n", status.message());
  return 1;
}
