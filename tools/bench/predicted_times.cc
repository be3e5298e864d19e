// Prints a table of the run times that the cost model predicts for models, without a GPU.
//
//   predicted_times MODEL.onnx... [--counts 1,2,4,8] [--target cuda:sm_90a] [--profile F.json]
//
// Each model is sharded (--tp) over each count of devices. The columns differ in how collectives run: through
// NCCL, or as kernels over peer memory where those are faster; waited for at once, or overlapped with
// compute; and fused with the kernels that read them. Missing weights are replaced by synthetic ones. The
// last columns are earlier measurements of Rondo and PyTorch on H200s (README.md in results/). With a profile
// (rondo profile), its times of kernels and collectives replace the estimates, and the table says how many
// kernels it covers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/compilation.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/op_times.h"
#include "compiler/schedule/overlap.h"
#include "formats/plan/peer_times.h"
#include "tools/rondo/profile.h"

namespace rondo {
namespace {

// Measured device time of a run in microseconds; 0: not measured.
struct Measured {
  const char* model;
  uint32_t devices;
  double rondo, eager, compiled;  // Rondo's small collectives; PyTorch's eager kernels in
                                  // a graph; torch.compile
  double target;
};
constexpr Measured kMeasured[] = {
    {"minilm-l6-b1-s128-f16", 1, 114, 200, 234, 90},
    {"bert-base-b1-s128-f16", 1, 303, 550, 562, 240},
    {"bert-base-b8-s128-f16", 1, 667, 769, 766, 420},
    {"resnet50-b1-f16", 1, 255, 870, 619, 180},
    {"vit-b16-b1-f16", 1, 371, 691, 799, 280},
    {"llama3-8b-8layers-decode-b1-bf16", 1, 1144, 1831, 1451, 1060},
    {"llama3-8b-8layers-decode-b16-bf16", 1, 1314, 2332, 1735, 1200},
    {"llama3-8b-8layers-prefill512-b1-bf16", 1, 2923, 4771, 3753, 2800},
    {"llama3-70b-8layers-decode-b1-bf16", 2, 2061, 2977, 2581, 1920},
    {"llama3-70b-8layers-decode-b1-bf16", 8, 0, 1672, 1456, 600},
    {"llama3-8b-decode-b1-bf16", 2, 2537, 5835, 0, 0},
    {"llama3-8b-decode-b1-bf16", 8, 0, 4789, 3344, 900},
};

// Compiles the programs of all devices up to the pass `overlap`.
Status Lower(const CompileOptions& options, Compilation* compilation) {
  compilation->programs.emplace_back();
  compilation->programs.back().source = options.models[0];
  for (const PipelineEntry& entry : Pipeline()) {
    if (entry.name == std::string_view("overlap")) return Status::Ok();
    std::string text;
    if (entry.once()) {
      RONDO_RETURN_IF_ERROR(RunPass(entry, compilation, nullptr, &text));
      continue;
    }
    for (ProgramInWork& program : compilation->programs)
      RONDO_RETURN_IF_ERROR(RunPass(entry, compilation, &program, &text));
  }
  return Status::Error(Code::kInternal, "the pipeline has no pass \"overlap\"");
}

struct Predicted {
  double at_once = 0, beside = 0, fused = 0;  // microseconds of a run
  double collectives = 0, exposed = 0;        // microseconds on one device, as scheduled
  size_t kernels = 0, measured = 0;           // of one device; those whose time is from a profile
};

// The end of the run as scheduled, if each all-reduce of at most `largest` bytes is fused with the first
// kernel that reads it: that kernel's start is saved.
double EndWhereFused(const LoweredProgram& program, const CostModel& costs, double largest) {
  TimedSteps steps = TimedStepsOf(costs, program);
  std::vector<bool> fused(program.collectives.size(), false);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    if (op.kind != LoweredKind::kKernel) continue;
    for (int dep : op.deps) {
      const LoweredOp& wait = program.ops[static_cast<size_t>(dep)];
      if (wait.kind != LoweredKind::kCollectiveWait) continue;
      const size_t c = static_cast<size_t>(wait.collective);
      const LoweredCollective& collective = program.collectives[c];
      if (fused[c] || collective.op != CollectiveOp::kAllReduce ||
          static_cast<double>(collective.bytes) > largest)
        continue;
      fused[c] = true;
      steps.steps[i].time = std::max(0.0, steps.steps[i].time - costs.machine.starts[0]);
    }
  }
  std::vector<int> order(program.ops.size());
  std::iota(order.begin(), order.end(), 0);
  return Simulate(steps, order).end;
}

using Times = std::shared_ptr<const MeasuredTimes>;

Predicted Predict(const Compilation& compilation, CollectivesBy by, const Times& times) {
  const CompileOptions& options = compilation.options;
  std::vector<LoweredProgram> programs;
  for (const ProgramInWork& program : compilation.programs) programs.push_back(program.planned.lowered);
  OverlapOptions overlap;
  overlap.costs =
      CostModelOf(options.targets.any_gpu(), static_cast<uint32_t>(compilation.programs.size()), by);
  overlap.costs.measured = times;
  overlap.budget = options.overlap_budget;
  Predicted predicted;
  for (const LoweredOp& op : programs[0].ops) {
    if (op.kind != LoweredKind::kKernel) continue;
    ++predicted.kernels;
    predicted.measured += overlap.costs.IsMeasured(op.kernel);
  }
  if (programs.size() == 1) {
    predicted.at_once = predicted.beside = predicted.fused = EndWhereFused(programs[0], overlap.costs, 0);
    return predicted;
  }
  std::vector<ProgramOnDevice> devices;
  for (size_t d = 0; d < programs.size(); ++d) devices.push_back({static_cast<uint32_t>(d), &programs[d]});
  const OverlapReport report = OverlapOnDevices(devices, overlap)[0];
  predicted.at_once = report.end_before;
  predicted.beside = report.end_after;
  predicted.fused = predicted.beside;
  if (const auto& small = overlap.costs.small; !small.empty())
    predicted.fused = EndWhereFused(programs[0], overlap.costs, small[small.size() - 1].bytes);
  for (const OverlapNote& note : report.collectives) {
    predicted.collectives += note.time;
    predicted.exposed += note.exposed_after;
  }
  return predicted;
}

void PrintRow(const std::string& model, uint32_t devices, const Predicted& nccl, const Predicted& small) {
  Measured measured{"", 0, 0, 0, 0, 0};
  for (const Measured& row : kMeasured) {
    if (model == row.model && devices == row.devices) measured = row;
  }
  const auto number = [](double us) { return us > 0 ? std::to_string(std::lround(us)) : std::string("–"); };
  std::printf(
      "| `%s` | %u | %zu of %zu | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f, %.0f | %s | %s | %s | %s |\n",
      model.c_str(), devices, nccl.measured, nccl.kernels, nccl.at_once, nccl.beside, small.at_once,
      small.beside, small.fused, nccl.exposed, small.exposed, number(measured.rondo).c_str(),
      number(measured.eager).c_str(), number(measured.compiled).c_str(),
      measured.target > 0 ? ("≤ " + number(measured.target)).c_str() : "–");
  std::fflush(stdout);
}

int Main(int count, char** words) {
  std::vector<std::string> models;
  std::string counts = "2,4,8", target = "cuda:sm_90a", profile;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.substr(0, 2) != "--") {
      models.push_back(word);
    } else if (i + 1 < count && (word == "--counts" || word == "--target" || word == "--profile")) {
      (word == "--counts" ? counts : word == "--target" ? target : profile) = words[++i];
    } else {
      models.clear();
      break;
    }
  }
  const Result<Targets> targets = ParseTargets(target);
  if (models.empty() || !targets.ok()) {
    std::fprintf(stderr,
                 "predicted_times MODEL.onnx... [--counts 1,2,4,8] [--target %s] [--profile F.json]\n",
                 KnownTargets().c_str());
    return 2;
  }
  Times times;
  if (!profile.empty()) {
    const Result<tools::TuningProfile> read = tools::ReadProfile(profile);
    if (!read.ok()) return std::fprintf(stderr, "%s\n", read.status().message()), 1;
    times = tools::TimesOf(*read);
  }
  std::printf(
      "| model | N | kernels measured | NCCL, at once | NCCL, beside compute | small kernels, at once | "
      "beside compute | and "
      "fused | "
      "exposed: NCCL, small | Rondo measured | eager graph | compile | target |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& path : models) {
    for (const char* at = counts.c_str(); *at != '\0';) {
      char* end = nullptr;
      const unsigned long devices = std::strtoul(at, &end, 10);
      if (end == at || devices < 1 || devices > 64) return std::fprintf(stderr, "--counts are 1 to 64\n"), 2;
      at = *end == ',' ? end + 1 : end;
      CompileOptions options;
      options.models = {{"main", path}};
      options.targets = *targets;
      options.synthetic_seed = 1;
      options.tensor_parallel = static_cast<uint32_t>(devices);
      Compilation compilation(options);
      if (const Status status = Lower(options, &compilation); !status.ok()) {
        std::fprintf(stderr, "%s: %s\n", path.c_str(), status.message());
        return 1;
      }
      PrintRow(std::filesystem::path(path).stem().string(), static_cast<uint32_t>(devices),
               Predict(compilation, CollectivesBy::kNccl, times),
               Predict(compilation, CollectivesBy::kFaster, times));
    }
  }
  return 0;
}

}  // namespace
}  // namespace rondo

int main(int count, char** words) { return rondo::Main(count, words); }
