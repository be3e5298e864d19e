// The pass that weighs the cost of fusions against what they save. Some kernels delay work that could run
// beside a collective; others keep more bytes alive than their pieces would. Undoing a fusion is tried on one
// device of each stage.
#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "compiler/fusion_choices.h"
#include "compiler/program_passes.h"
#include "compiler/schedule/op_times.h"
#include "compiler/schedule/overlap.h"

namespace rondo::program_passes {
namespace {

constexpr int kMostRounds = 6;
constexpr double kLeastGain = 0.005;   // share of the run
constexpr size_t kMostTried = 12'000;  // nodes of one device's graph, and their inputs

// A program without some fusions.
struct Trial {
  std::vector<NodePair> apart;                // both orders of each pair, ascending
  double end = 0, exposed = 0;                // estimates in microseconds
  int64_t peak = 0;                           // the most live bytes of the arena
  bool fits = true;                           // whether the arena is within its budget
  std::vector<NodePair> delays, keeps_alive;  // further pairs to try apart

  // A run may get longer by the factor by which its memory gets smaller.
  double Cost() const { return end * static_cast<double>(peak); }
};

std::string TextOf(const Trial& trial) {
  char text[120];
  std::snprintf(text, sizeof text, "%.1f us by estimate, %.1f of them exposed, a peak of %lld bytes",
                trial.end, trial.exposed, static_cast<long long>(trial.peak));
  return text;
}

size_t SizeOf(const ir::Graph& graph) {
  size_t size = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id) size += 1 + graph.node(id).inputs.size();
  return size;
}

std::vector<NodePair> Joined(std::vector<NodePair> a, const std::vector<NodePair>& b) {
  for (const NodePair& pair : b) {
    a.push_back(pair);
    a.emplace_back(pair.second, pair.first);
  }
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

class Weighing {
 public:
  Weighing(Compilation* compilation, ProgramInWork* device, size_t devices)
      : compilation_(compilation), device_(device), devices_(devices) {}

  Result<Trial> Run() {
    RONDO_ASSIGN_OR_RETURN(Trial best, Try({}));
    least_ = best.peak;
    text_ = "as many as there can be: " + TextOf(best);
    for (int round = 0; round < kMostRounds; ++round) {
      RONDO_ASSIGN_OR_RETURN(const bool earlier, Improve(&Trial::delays, "delay work", &best));
      RONDO_ASSIGN_OR_RETURN(const bool smaller, Improve(&Trial::keeps_alive, "keep more alive", &best));
      if (!earlier && !smaller) break;
    }
    return best;
  }

  const std::string& text() const { return text_; }
  // For reports: the least peak among the tried choices.
  std::string Bound() const {
    if (tried_ == 0) return "no fusion keeps alive more than its pieces would";
    return "of " + std::to_string(tried_ + 1) + " choices of fusion the least keeps " +
           std::to_string(least_) + " bytes alive at once";
  }

 private:
  Result<bool> Improve(std::vector<NodePair> Trial::*nodes, const char* what, Trial* best) {
    const std::vector<NodePair> apart = Joined(best->apart, best->*nodes);
    if (apart.size() == best->apart.size() || !seen_.insert(apart).second) return false;
    RONDO_ASSIGN_OR_RETURN(Trial trial, Try(apart));
    ++tried_;
    least_ = std::min(least_, trial.peak);
    const bool smallest = device_->variant == Variant::kSmallest;
    const bool better =
        nodes == &Trial::delays
            ? trial.end < best->end * (1 - kLeastGain) && trial.fits &&
                  (!smallest || trial.peak <= best->peak)
            : trial.peak < best->peak && (smallest || (trial.Cost() < best->Cost() && trial.fits));
    text_ += "\nwithout " + std::to_string((apart.size() - best->apart.size()) / 2) + " that " + what + ": " +
             TextOf(trial) + (better ? "" : "; not taken");
    if (better) *best = std::move(trial);
    return better;
  }

  Result<Trial> Try(std::vector<NodePair> apart) {
    ProgramInWork tried = *device_;
    tried.apart = apart;
    RONDO_RETURN_IF_ERROR(LowerOnTrial(compilation_, &tried));
    LoweredProgram* lowered = &tried.planned.lowered;
    Trial trial;
    trial.apart = std::move(apart);
    trial.peak = tried.schedule.peak_after;
    const OverlapOptions options = OverlapOptionsFor(*compilation_, devices_);
    if (lowered->collectives.empty()) {
      for (double time : OpTimes(options.costs, *lowered)) trial.end += time;
    } else {
      const OverlapReport report = OverlapOnDevices({{0, lowered, 0, tried.uncut_arena}}, options)[0];
      trial.end = report.end_after;
      trial.fits = report.arena_after <= report.arena_limit;
      for (const OverlapNote& note : report.collectives) trial.exposed += note.exposed_after;
      trial.delays = WhatDelays(device_->graph, *lowered, report.collectives);
    }
    trial.keeps_alive = WhatKeepsAlive(device_->graph, *lowered);
    return trial;
  }

  Compilation* compilation_;
  ProgramInWork* device_;
  const size_t devices_;
  std::set<std::vector<NodePair>> seen_;
  int tried_ = 0;
  int64_t least_ = 0;
  std::string text_;
};

}  // namespace

Status LowerOnTrial(Compilation* compilation, ProgramInWork* program) {
  std::string text;
  RONDO_RETURN_IF_ERROR(FuseGraph(compilation, program, &text));
  if (compilation->options.targets.any_gpu())
    RONDO_RETURN_IF_ERROR(PickLibraries(compilation, program, &text));
  for (const PassFunction pass : {Schedule, WriteOutLoops, PutOnStreams, KeepRegions})
    RONDO_RETURN_IF_ERROR(pass(compilation, program, &text));
  return Status::Ok();
}

// Devices of a stage do the same work, and fuse in the same way.
Status WeighFusions(Compilation* compilation, ProgramInWork*, std::string* text) {
  const size_t ranks = std::max(compilation->options.tensor_parallel, 1u);
  std::vector<ProgramInWork>& programs = compilation->programs;
  for (size_t p = 0; p < programs.size(); ++p) {
    const ProgramInWork& before = programs[p == 0 ? 0 : p - 1];
    const bool follows = p > 0 && programs[p].source.program == before.source.program &&
                         programs[p].device % ranks != 0 && programs[p].graph.size() == before.graph.size();
    if (follows) {
      programs[p].apart = before.apart;
      programs[p].fusions = before.fusions;
      continue;
    }
    std::string said;
    if (SizeOf(programs[p].graph) > kMostTried) {
      programs[p].fusions = "other fusions were not looked at, so no bound over them is known";
    } else {
      const auto of_program = [&](const ProgramInWork& other) {
        return other.source.program == programs[p].source.program;
      };
      Weighing weighing(compilation, &programs[p],
                        static_cast<size_t>(std::count_if(programs.begin(), programs.end(), of_program)));
      RONDO_ASSIGN_OR_RETURN(Trial taken, weighing.Run());
      programs[p].apart = std::move(taken.apart);
      programs[p].fusions = weighing.Bound();
      said = weighing.text() + "\n";
    }
    *text += (text->empty() ? "" : "\n") + NameOf(compilation->options, programs[p]) + ": " + said +
             programs[p].fusions;
  }
  return Status::Ok();
}

}  // namespace rondo::program_passes
