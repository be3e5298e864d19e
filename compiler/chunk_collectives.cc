// The pass that cuts collectives, and the row-by-row work around them, into chunks (shard/cut_rows.h). Each
// collective gets the number of chunks with which the run is estimated to end first. A bound shows for most
// collectives that no cut can pay. The others are cut on trial: fusion, scheduling and overlap run on one
// device of each stage.
#include <algorithm>
#include <cstdio>
#include <map>
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
// Least gain, as a share of the run. With the table's estimate of how much collectives slow compute, runs in
// two chunks were measured up to 7 % longer than estimated (tools/bench/results/overlap.md).
constexpr double kLeastGain = 0.02, kLeastGainByTable = 0.07;
constexpr int64_t kMostTriedNodes = 12'000;  // nodes of one device's graph

using Counts = std::vector<int64_t>;  // chunks by collective of the whole graph; 1: not cut

// A program with its collectives cut in one way. Times are estimates in microseconds.
struct Trial {
  Counts counts;
  double end = 0, exposed = 0;
  std::vector<double> costs;     // by collective: its waits, and how much it slows the compute beside it
  int64_t arena = 0, limit = 0;  // bytes

  // `end` is by a profile if it has the times of all kernels, otherwise by the table. Times by a profile are
  // not compared with times by the table.
  bool is_measured = false;
  double end_by_table = 0;

  // Whether the run is shorter by at least the share `gain`.
  bool EndsBefore(const Trial& other, double gain) const {
    const bool measured = is_measured && other.is_measured;
    return (measured ? end : end_by_table) < (measured ? other.end : other.end_by_table) * (1 - gain);
  }
  bool FitsIn() const { return arena <= limit; }
  // "whole", "16 in 2 chunks, 2 whole"
  std::string WayText() const {
    std::string text;
    for (int64_t chunks : std::set<int64_t>(counts.rbegin(), counts.rend())) {
      const auto number = std::count(counts.begin(), counts.end(), chunks);
      const std::string how = chunks == 1 ? " whole" : " in " + std::to_string(chunks) + " chunks";
      text += (text.empty() ? "" : ", ") + std::to_string(number) + how;
    }
    return text;
  }
  std::string Text() const {
    char text[200];
    std::snprintf(text, sizeof text,
                  ": exposed %.1f us of a run of %.1f us by estimate, arena %lld bytes, at most %lld",
                  exposed, end, static_cast<long long>(arena), static_cast<long long>(limit));
    return WayText() + text;
  }
};

std::string Microseconds(double time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f us", time);
  return text;
}

// The reason why collective `c` stays whole although `trial` cuts it.
std::string WhyNotTaken(const Trial& whole, const Trial& trial, size_t c, double least_gain) {
  const std::string chunks = "in " + std::to_string(trial.counts[c]) + " chunks ";
  if (!trial.FitsIn())
    return chunks + "the arena would take " + std::to_string(trial.arena) + " bytes, and may take " +
           std::to_string(trial.limit);
  const bool run = !trial.EndsBefore(whole, least_gain);
  if (run && trial.end < whole.end) {
    return chunks + "the run would take " + Microseconds(trial.end) + " of " + Microseconds(whole.end) +
           ", too small a gain for an estimate";
  }
  return chunks + (run ? "the run would take " : "it would cost ") +
         Microseconds(run ? trial.end : trial.costs[c]) + (run ? ", whole it takes " : ", whole it costs ") +
         Microseconds(run ? whole.end : whole.costs[c]);
}

// Cuts each collective into as many chunks as `counts` says. A collective without enough rows stays whole,
// and `counts` is set to 1. Returns, by collective of the cut graph, its number in the whole graph.
Result<std::vector<size_t>> CutAs(ir::Graph* graph, Counts* counts) {
  std::vector<size_t> origins;
  for (size_t c = 0; c < counts->size(); ++c) origins.push_back(c);
  for (int64_t chunks : std::set<int64_t>(counts->begin(), counts->end())) {
    if (chunks == 1) continue;
    std::vector<bool> leave;
    for (size_t origin : origins) leave.push_back((*counts)[origin] != chunks);
    RONDO_ASSIGN_OR_RETURN(const shard::CutCollectives result, shard::CutRows(graph, chunks, leave));
    std::vector<size_t> now;
    for (size_t i = 0; i < origins.size(); ++i) {
      if (!leave[i] && !result.cut[i]) (*counts)[origins[i]] = 1;
      now.insert(now.end(), result.cut[i] ? static_cast<size_t>(chunks) : 1, origins[i]);
    }
    origins = std::move(now);
  }
  return origins;
}

// Chooses for the collectives of one stage, whose devices all do the same.
class Chooser {
 public:
  // `of`: the number of devices of the program.
  Chooser(Compilation* compilation, std::vector<ProgramInWork*> stage, size_t of)
      : compilation_(compilation),
        stage_(std::move(stage)),
        options_(OverlapOptionsFor(*compilation, of)),
        collectives_(shard::CollectivesOf(stage_[0]->graph)),
        why_(collectives_.size()) {}

  // Returns a text of the trials and the choice.
  Result<std::string> Choose() {
    const int64_t given = compilation_->options.chunks;
    Trial taken;
    if (given == 0) {
      RONDO_ASSIGN_OR_RETURN(taken, Search());
    } else {
      why_.assign(why_.size(), NoRows(given));
      RONDO_RETURN_IF_ERROR(Try(Counts(collectives_.size(), 1)).status());
      RONDO_ASSIGN_OR_RETURN(taken, Try(Counts(collectives_.size(), given)));
    }
    RONDO_RETURN_IF_ERROR(Take(taken));
    return "taken: " + taken.WayText() + text_;
  }

 private:
  // The time of all `chunks` chunks of collective `c`, one after another, with nothing beside them.
  double TimeOf(size_t c, int64_t chunks) const {
    const ir::Graph& graph = stage_[0]->graph;
    const ir::Node& node = graph.node(collectives_[c]);
    const auto& attrs = node.As<ir::CollectiveAttrs>();
    int64_t elements = node.shape.elements();
    for (ir::NodeId input : node.inputs) elements = std::min(elements, graph.node(input).shape.elements());
    const int64_t bytes = elements * ByteSize(node.dtype) / chunks;
    return static_cast<double>(chunks) * options_.costs.CollectiveTime(attrs.op, bytes, attrs.group.size());
  }
  std::vector<double> TimesAlone() const {
    std::vector<double> times;
    for (size_t c = 0; c < collectives_.size(); ++c) times.push_back(TimeOf(c, 1));
    return times;
  }

  // Cuts into `chunks` the collectives whose lower bound is below `costs`; the bound is how much all of a
  // collective slows the compute beside it. Notes the reason for the others, and adds to `gain` the most that
  // the cuts can save.
  Counts Candidates(int64_t chunks, const std::vector<double>& costs, double* gain) {
    Counts counts(collectives_.size(), 1);
    for (size_t c = 0; c < counts.size(); ++c) {
      const double time = TimeOf(c, chunks), least = time * options_.costs.TakenFromCompute();
      if (least < costs[c]) {
        counts[c] = chunks;
        *gain += costs[c] - least;
      } else if (why_[c].empty()) {
        why_[c] = std::to_string(chunks) + " chunks would take " + Microseconds(time) +
                  " and slow compute beside them by " + Microseconds(least) + "; whole it costs " +
                  Microseconds(costs[c]);
      }
    }
    return counts;
  }

  bool HasMeasuredTaken() const {
    const auto& measured = options_.costs.measured;
    return measured != nullptr && measured->taken;
  }
  // The table does not cover virtual devices, which share cores with their collectives.
  bool KnowsWhatIsTaken() const { return compilation_->options.targets.any_gpu() || HasMeasuredTaken(); }
  double LeastGain() const { return HasMeasuredTaken() ? kLeastGain : kLeastGainByTable; }

  // Doubles the number of chunks as long as the run gets shorter.
  Result<Trial> Search() {
    const int64_t nodes = stage_[0]->graph.size();
    double gain = 0;
    Trial whole;
    whole.counts.assign(collectives_.size(), 1);
    whole.costs = TimesAlone();
    if (!KnowsWhatIsTaken()) {
      SayOfOthers("what compute loses beside collectives of a host is known from a profile only");
      return whole;
    }
    if (Candidates(2, whole.costs, &gain) == whole.counts) return whole;
    if (nodes * 2 > kMostTriedNodes) {
      SayOfOthers("chunks of " + std::to_string(nodes) + " nodes are not tried, to save time");
      return whole;
    }
    RONDO_ASSIGN_OR_RETURN(whole, Try(whole.counts));
    Trial best = whole;
    for (int64_t chunks = 2; chunks <= kMostChunks && nodes * chunks <= kMostTriedNodes; chunks *= 2) {
      gain = 0;
      const Counts counts = Candidates(chunks, whole.costs, &gain);
      if (gain <= whole.end * LeastGain()) {
        SayOfOthers("all that chunks might save is " + Microseconds(gain) + " of a run of " +
                    Microseconds(whole.end));
        break;
      }
      RONDO_ASSIGN_OR_RETURN(Trial trial, Try(counts));
      for (size_t c = 0; c < counts.size(); ++c) {
        if (counts[c] == 1 || !why_[c].empty()) continue;
        why_[c] = trial.counts[c] == 1 ? NoRows(chunks) : WhyNotTaken(whole, trial, c, LeastGain());
      }
      RONDO_RETURN_IF_ERROR(WithoutThoseThatLose(best, &trial));
      if (!trial.EndsBefore(best, LeastGain()) || !trial.FitsIn()) break;
      best = std::move(trial);
    }
    return best;
  }

  // Collectives that cost more in `trial` than in `before` return to their count in `before`, if the run then
  // ends earlier.
  Status WithoutThoseThatLose(const Trial& before, Trial* trial) {
    Counts counts = trial->counts;
    for (size_t c = 0; c < counts.size(); ++c) {
      if (trial->costs[c] >= before.costs[c]) counts[c] = before.counts[c];
    }
    if (counts == trial->counts || counts == before.counts) return Status::Ok();
    RONDO_ASSIGN_OR_RETURN(Trial fewer, Try(std::move(counts)));
    if (fewer.FitsIn() && (fewer.EndsBefore(*trial, 0) || !trial->FitsIn())) *trial = std::move(fewer);
    return Status::Ok();
  }

  void SayOfOthers(const std::string& why) {
    for (std::string& said : why_) {
      if (said.empty()) said = why;
    }
  }
  static std::string NoRows(int64_t chunks) {
    return "it has no rows that " + std::to_string(chunks) + " chunks divide";
  }

  Result<Trial> Try(Counts counts) {
    Trial trial;
    ProgramInWork tried = *stage_[0];
    RONDO_ASSIGN_OR_RETURN(const std::vector<size_t> origins, CutAs(&tried.graph, &counts));
    trial.counts = std::move(counts);
    RONDO_RETURN_IF_ERROR(LowerOnTrial(compilation_, &tried));
    LoweredProgram* lowered = &tried.planned.lowered;
    LoweredProgram by_table = *lowered;
    OverlapOptions options = options_;
    trial.is_measured = options.costs.measured != nullptr;
    for (const LoweredOp& op : lowered->ops)
      trial.is_measured &= op.kind != LoweredKind::kKernel || options.costs.IsMeasured(op.kernel);
    const OverlapReport report = OverlapOnDevices({{0, lowered, 0, uncut_arena_}}, options)[0];
    for (const OverlapNote& note : report.collectives) trial.exposed += note.exposed_after;
    // Loop bodies may contain more collectives.
    const bool all = report.collectives.size() == origins.size();
    trial.costs = all ? std::vector<double>(collectives_.size(), 0) : TimesAlone();
    for (size_t i = 0; all && i < origins.size(); ++i) {
      const OverlapNote& note = report.collectives[i];
      trial.costs[origins[i]] += note.exposed_after + options.costs.TakenFromCompute() * note.beside_after;
    }
    trial.end = trial.end_by_table = report.end_after;
    if (const auto measured = options.costs.measured; measured != nullptr) {
      options.costs.measured =
          std::make_shared<const MeasuredTimes>(MeasuredTimes{measured->profile, {}, {}, measured->taken});
      trial.end_by_table = OverlapOnDevices({{0, &by_table, 0, uncut_arena_}}, options)[0].end_after;
    }
    trial.arena = report.arena_after;
    trial.limit = report.arena_limit;
    if (uncut_arena_ == 0) uncut_arena_ = report.arena_before;
    text_ += "\n" + trial.Text();
    return trial;
  }

  // Cuts the graphs of all devices, and notes for each whole collective why it is whole.
  Status Take(const Trial& taken) {
    const bool cut = std::any_of(taken.counts.begin(), taken.counts.end(), [](int64_t n) { return n > 1; });
    for (ProgramInWork* device : stage_) {
      Counts counts = taken.counts;
      RONDO_ASSIGN_OR_RETURN(const std::vector<size_t> origins, CutAs(&device->graph, &counts));
      if (cut) device->uncut_arena = uncut_arena_;
      const std::vector<ir::NodeId> now = shard::CollectivesOf(device->graph);
      for (size_t i = 0; i < now.size(); ++i) {
        auto& said = device->graph.node(now[i]).annotations;
        if (said.count(kChunkKey) == 0) said[kWholeKey] = why_[origins[i]];
      }
    }
    return Status::Ok();
  }

  Compilation* compilation_;
  const std::vector<ProgramInWork*> stage_;
  const OverlapOptions options_;
  const std::vector<ir::NodeId> collectives_;
  std::vector<std::string> why_;  // by collective: the reason if it stays whole
  int64_t uncut_arena_ = 0;       // bytes; 0 if nothing was tried
  std::string text_;
};

}  // namespace

// All devices of a stage get the same cuts.
Status ChunkCollectives(Compilation* compilation, ProgramInWork*, std::string* text) {
  const CompileOptions& options = compilation->options;
  const size_t ranks = options.tensor_parallel;
  if (options.chunks == 1 || options.weights == Weights::kGather || ranks < 2) return Status::Ok();
  std::map<std::string, std::vector<ProgramInWork*>> programs;
  for (ProgramInWork& program : compilation->programs) programs[program.source.program].push_back(&program);
  for (const auto& [name, devices] : programs) {
    for (size_t first = 0; first < devices.size(); first += ranks) {
      std::vector<ProgramInWork*> stage(
          devices.begin() + static_cast<ptrdiff_t>(first),
          devices.begin() + static_cast<ptrdiff_t>(std::min(first + ranks, devices.size())));
      for (ProgramInWork* device : stage) {
        device->graph.RemoveDead();
        device->graph.Compact();
      }
      if (shard::CollectivesOf(stage[0]->graph).empty()) continue;
      RONDO_ASSIGN_OR_RETURN(const std::string chosen, Chooser(compilation, stage, devices.size()).Choose());
      *text += (text->empty() ? "" : "\n") + NameOf(options, *stage[0]) + ": " + chosen;
    }
  }
  return Status::Ok();
}

}  // namespace rondo::program_passes
