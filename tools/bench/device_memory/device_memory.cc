// Compares the device memory that plans state with what a GPU takes for them, and fits the rates of
// formats/plan/device_memory.h to it.
//
//   device_memory [-o FILE] PLAN...   measures on device 0, which nobody else may use; writes it to FILE
//   device_memory --fit FILE          fits the rates to an earlier measurement, without a GPU
//
// Each plan (for one device) is measured in its own process: CUDA's start, code, blocks and graphs, and the
// total with 1, 2, 8 and more sessions. The last lines of output are the rates to copy into that header.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "tools/bench/device_memory/fit_rates.h"
#include "tools/bench/device_memory/measured_plan.h"

namespace rondo::bench {
namespace {

constexpr char kOpened[] = "opened";

// The child: opens the device, writes kOpened, waits for a line, then writes what it measures.
Status MeasureHere(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(const Plan plan, Plan::Open(path.c_str()));
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriver());
  RONDO_RETURN_IF_ERROR(driver->Open(0).status());
  std::cout << kOpened << std::endl;
  std::string line;
  std::getline(std::cin, line);
  const std::string file = path.substr(path.rfind('/') + 1);
  RONDO_ASSIGN_OR_RETURN(const MeasuredPlan measured,
                         MeasurePlan(file.substr(0, file.rfind('.')), plan, driver));
  Write(measured, std::cout);
  DestroyCudaDriver(driver);
  return Status::Ok();
}

// A second process of this program that measures one plan, with pipes to and from it.
class Child {
 public:
  explicit Child(const std::string& plan) {
    int in[2] = {}, out[2] = {};
    if (pipe(in) != 0 || pipe(out) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (int end : {in[0], in[1], out[0], out[1]}) close(end);
      execl("/proc/self/exe", "device_memory", "--here", plan.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
  }
  Child(const Child&) = delete;
  ~Child() {
    if (to_ != nullptr) fclose(to_);
    if (from_ != nullptr) fclose(from_);
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }
  // The next line; "" at the end of the output.
  std::string Line() {
    char line[4096] = "";
    return from_ != nullptr && fgets(line, sizeof(line), from_) != nullptr ? line : "";
  }
  void GoOn() {
    fputs("\n", to_);
    fflush(to_);
  }

 private:
  pid_t process_ = -1;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

Result<uint64_t> FreeBytes(Device* device) {
  uint64_t free_bytes = 0, total_bytes = 0;
  RONDO_RETURN_IF_ERROR(device->MemoryInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

Result<MeasuredPlan> MeasureThere(const std::string& path, Device* device) {
  RONDO_ASSIGN_OR_RETURN(const uint64_t before, FreeBytes(device));
  Child child(path);
  std::stringstream text;
  if (child.Line() == std::string(kOpened) + "\n") {
    RONDO_ASSIGN_OR_RETURN(const uint64_t after, FreeBytes(device));
    child.GoOn();
    for (std::string line = child.Line(); !line.empty(); line = child.Line()) text << line;
    RONDO_ASSIGN_OR_RETURN(std::vector<MeasuredPlan> plans, ReadMeasured(text));
    if (plans.size() == 1) {
      plans[0].start = before - after;
      return plans[0];
    }
  }
  return Status::Error(Code::kInternal, "%s could not be measured", path.c_str());
}

Status PrintFit(const std::vector<MeasuredPlan>& plans) {
  size_t totals = 0, good = 0, good_fitted = 0;
  const DeviceMemoryRates fitted = FitRates(plans, kDeviceMemoryRates);
  for (const MeasuredPlan& plan : plans) {
    std::printf("%s", StageTable(plan, kDeviceMemoryRates).c_str());
    for (const StatementError& error : ErrorsOf(plan, kDeviceMemoryRates)) ++totals, good += error.good();
    for (const StatementError& error : ErrorsOf(plan, fitted)) good_fitted += error.good();
  }
  std::printf("within 1 %% or 4 MiB: %zu of %zu; with the rates below %zu\n%s", good, totals, good_fitted,
              RatesText(fitted).c_str());
  return Status::Ok();
}

Status MeasureAll(const std::vector<std::string>& paths, const std::string& to) {
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriver());
  RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
  std::vector<MeasuredPlan> plans;
  for (const std::string& path : paths) {
    RONDO_ASSIGN_OR_RETURN(MeasuredPlan plan, MeasureThere(path, device));
    plans.push_back(std::move(plan));
  }
  std::printf("%s\n", CudaDeviceName(device));
  DestroyCudaDriver(driver);
  if (!to.empty()) {
    std::ofstream file(to);
    for (const MeasuredPlan& plan : plans) Write(plan, file);
    if (!file.flush()) return Status::Error(Code::kIo, "cannot write %s", to.c_str());
  }
  return PrintFit(plans);
}

Status FitFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status::Error(Code::kIo, "cannot read %s", path.c_str());
  RONDO_ASSIGN_OR_RETURN(const std::vector<MeasuredPlan> plans, ReadMeasured(file));
  return PrintFit(plans);
}

int Main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  Status status;
  const bool two = words.size() == 2;
  if (two && words[0] == "--here") {
    status = MeasureHere(words[1]);
  } else if (two && words[0] == "--fit") {
    status = FitFile(words[1]);
  } else {
    std::string to;
    if (words.size() > 2 && words[0] == "-o") {
      to = words[1];
      words.erase(words.begin(), words.begin() + 2);
    }
    if (words.empty() || words[0][0] == '-') {
      std::fprintf(stderr, "usage: device_memory [-o FILE] PLAN... | --fit FILE\n");
      return 2;
    }
    status = MeasureAll(words, to);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "device_memory: %s\n", status.message());
  return 1;
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) { return rondo::bench::Main(argc, argv); }
