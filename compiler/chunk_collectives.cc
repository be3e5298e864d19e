// The pass that cuts collectives, and what works row by row around them, into chunks (shard/cut_rows.h): so
// many as the run ends first with, by estimate. What a way to cut is worth is seen by going that way: fusion,
// the order of steps and overlap are tried on one device of each stage.
#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "compiler/ir/node_annotation.h"
#include "compiler/program_passes.h"
#include "compiler/schedule/overlap.h"
#include "compiler/shard/cut_rows.h"
#include "formats/plan/cost_model.h"

namespace rondo::program_passes {
namespace {

constexpr int64_t kMostChunks = 8;
constexpr double kLeastGain = 0.005;         // of the run
constexpr int64_t kMostTriedNodes = 50'000;  // of one device's graph

// What a program is with its collectives cut in one way.
struct Trial {
  int64_t chunks = 1;
  int64_t cut = 0;               // collectives
  double end = 0, exposed = 0;   // microseconds, by estimate
  int64_t arena = 0, limit = 0;  // bytes
  int64_t uncut_arena = 0;       // bytes, before anything was moved

  // By a profile's times, if it has those of all kernels, and otherwise by the table: times of one machine
  // are not compared with those of another.
  bool is_measured = false;
  double end_by_table = 0;

  bool EndsBefore(const Trial& other) const {
    const bool measured = is_measured && other.is_measured;
    return (measured ? end : end_by_table) < (measured ? other.end : other.end_by_table) * (1 - kLeastGain);
  }
  bool FitsIn() const { return arena <= limit; }
  std::string Text() const {
    char text[200];
    std::snprintf(text, sizeof text,
                  "exposed %.1f us of a run of %.1f us by estimate, arena %lld bytes, at most %lld", exposed,
                  end, static_cast<long long>(arena), static_cast<long long>(limit));
    const std::string what =
        chunks == 1 ? "whole: " : std::to_string(cut) + " in " + std::to_string(chunks) + " chunks: ";
    return what + text;
  }
};

std::string Microseconds(double time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f us", time);
  return text;
}

// Why nothing is cut, if the best way to cut is `trial`.
std::string WhyWhole(const Trial& uncut, const Trial& trial) {
  if (uncut.exposed <= uncut.end * kLeastGain) return "next to nothing is exposed";
  if (trial.cut == 0) return "there are no rows that chunks divide";
  const std::string chunks = "with " + std::to_string(trial.chunks) + " chunks the ";
  if (!trial.FitsIn())
    return chunks + "arena would take " + std::to_string(trial.arena) + " bytes, and may take " +
           std::to_string(trial.limit);
  return chunks + "run would take " + Microseconds(trial.end) + ", whole it takes " + Microseconds(uncut.end);
}

class Chooser {
 public:
  Chooser(Compilation* compilation, std::vector<ProgramInWork*> devices)
      : compilation_(compilation), devices_(std::move(devices)) {
    // Devices of a stage do the same.
    const size_t ranks = std::max(compilation->options.tensor_parallel, 1u);
    for (size_t d = 0; d < devices_.size(); d += ranks) stages_.push_back(devices_[d]);
  }

  // More chunks are tried as long as the run ends earlier for them. What was tried, and what was taken.
  Result<std::string> Choose() {
    const int64_t given = compilation_->options.chunks;
    RONDO_ASSIGN_OR_RETURN(const Trial uncut, Try(1, 0));
    std::string text = uncut.Text(), why;
    Trial best = uncut, trial;
    if (given > 0 || uncut.exposed > uncut.end * kLeastGain) {
      for (int64_t chunks = given > 0 ? given : 2; chunks <= std::max(given, kMostChunks); chunks *= 2) {
        RONDO_ASSIGN_OR_RETURN(trial, Try(chunks, uncut.uncut_arena));
        if (trial.cut == 0) break;
        text += "\n" + trial.Text();
        const bool better = trial.EndsBefore(best) && trial.FitsIn();
        if (better || given > 0) best = trial;
        if (!better || given > 0) break;
      }
    }
    if (best.chunks == 1) why = WhyWhole(uncut, trial);
    RONDO_RETURN_IF_ERROR(Take(best.chunks, uncut.uncut_arena, why));
    return text + "\n" + (why.empty() ? std::to_string(best.chunks) + " chunks" : "none is cut: " + why);
  }

 private:
  // On one device of each stage, one behind the other.
  Result<Trial> Try(int64_t chunks, int64_t uncut_arena) {
    Trial trial;
    trial.chunks = chunks;
    trial.uncut_arena = uncut_arena;
    trial.is_measured = compilation_->options.profile.times != nullptr;
    for (const ProgramInWork* stage : stages_) {
      ProgramInWork tried = *stage;
      if (chunks > 1) {
        if (int64_t{tried.graph.size()} * chunks > kMostTriedNodes) continue;
        RONDO_ASSIGN_OR_RETURN(const shard::CutCollectives cut, shard::CutRows(&tried.graph, chunks));
        trial.cut += std::count(cut.cut.begin(), cut.cut.end(), true);
      }
      RONDO_RETURN_IF_ERROR(LowerOnTrial(compilation_, &tried));
      LoweredProgram* lowered = &tried.planned.lowered;
      OverlapOptions options = OverlapOptionsFor(*compilation_, devices_.size());
      LoweredProgram by_table = *lowered;
      for (const LoweredOp& op : lowered->ops)
        trial.is_measured &= op.kind != LoweredKind::kKernel || options.costs.IsMeasured(op.kernel);
      const OverlapReport report = OverlapOnDevices({{0, lowered, 0, uncut_arena}}, options)[0];
      for (const OverlapNote& note : report.collectives) trial.exposed += note.exposed_after;
      trial.end += report.end_after;
      if (std::exchange(options.costs.measured, nullptr) == nullptr) {
        trial.end_by_table += report.end_after;
      } else {
        trial.end_by_table += OverlapOnDevices({{0, &by_table, 0, uncut_arena}}, options)[0].end_after;
      }
      trial.arena = std::max(trial.arena, report.arena_after);
      trial.limit = std::max(trial.limit, report.arena_limit);
      if (chunks == 1) trial.uncut_arena = std::max(trial.uncut_arena, report.arena_before);
    }
    return trial;
  }

  // Cuts all devices' graphs, and says of each collective that is whole why.
  Status Take(int64_t chunks, int64_t uncut_arena, const std::string& why) {
    for (ProgramInWork* device : devices_) {
      if (chunks > 1) {
        RONDO_RETURN_IF_ERROR(shard::CutRows(&device->graph, chunks).status());
        device->uncut_arena = uncut_arena;
      }
      for (ir::NodeId id : shard::CollectivesOf(device->graph)) {
        auto& said = device->graph.node(id).annotations;
        if (said.count(kChunkKey) != 0) continue;
        said[kWholeKey] =
            why.empty() ? "it has no rows that " + std::to_string(chunks) + " chunks divide" : why;
      }
    }
    return Status::Ok();
  }

  Compilation* compilation_;
  const std::vector<ProgramInWork*> devices_;
  std::vector<ProgramInWork*> stages_;
};

bool HasCollectives(const ir::Graph& graph) { return !shard::CollectivesOf(graph).empty(); }

}  // namespace

// All devices of a program are cut alike.
Status ChunkCollectives(Compilation* compilation, ProgramInWork*, std::string* text) {
  const CompileOptions& options = compilation->options;
  if (options.chunks == 1) return Status::Ok();
  std::set<std::string> done;
  for (const ProgramInWork& first : compilation->programs) {
    const std::string& name = first.source.program;
    if (!done.insert(name).second || !HasCollectives(first.graph)) continue;
    std::vector<ProgramInWork*> devices;
    for (ProgramInWork& program : compilation->programs) {
      if (program.source.program == name) devices.push_back(&program);
    }
    if (devices.size() < 2 || options.weights == Weights::kGather || options.tensor_parallel < 2) continue;
    RONDO_ASSIGN_OR_RETURN(const std::string chosen, Chooser(compilation, devices).Choose());
    *text += (text->empty() ? "" : "\n") + name + ": " + chosen;
  }
  return Status::Ok();
}

}  // namespace rondo::program_passes
