#include "compiler/variants.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/memory/lifetimes.h"
#include "compiler/program_passes.h"
#include "compiler/shard/cut_rows.h"

namespace rondo {

std::optional<Variant> ParseVariants(std::string_view text) {
  if (text == "fastest") return Variant::kFastest;
  if (text == "fastest,smallest") return Variant::kSmallest;
  return std::nullopt;
}

std::string NameOfVariant(const std::string& program, Variant variant) {
  return program + (variant == Variant::kSmallest ? " (smallest)" : " (fastest)");
}

namespace program_passes {
namespace {

using ir::NodeId;

constexpr int kMostRounds = 4;             // regions that are cut
constexpr int64_t kMostChunks = 16;        // of each
constexpr size_t kMostSeeds = 4;           // nodes tried as the beginning of a region
constexpr int64_t kMostTriedNodes = 6000;  // of a graph, chunks included
// A cut, or twice as many chunks, must lower the peak by such a part of it: each makes the run longer.
constexpr int64_t kLeastGain = 16;

// Finds the cuts of one device's graph. Each is tried by lowering the graph.
class Cutting {
 public:
  Cutting(Compilation* compilation, ProgramInWork* program) : compilation_(compilation), program_(program) {}

  // Cuts the graph as far as that lowers the peak. Returns a text of what was done.
  Result<std::string> Run() {
    program_->graph.RemoveDead();
    program_->graph.Compact();
    RONDO_ASSIGN_OR_RETURN(Trial best, Try(program_->graph));
    std::string text = Bytes(best.peak);
    for (int round = 0; round < kMostRounds; ++round) {
      RONDO_ASSIGN_OR_RETURN(Trial cut, CutOnce(best));
      if (cut.peak >= best.peak) break;
      text += ", with rows in " + std::to_string(cut.chunks) + " chunks " + Bytes(cut.peak);
      best = std::move(cut);
    }
    program_->graph = std::move(best.graph);
    return text;
  }

 private:
  struct Trial {
    ir::Graph graph;
    int64_t peak = 0;           // the most live bytes of the arena
    int64_t chunks = 1;         // of the last cut
    std::vector<NodeId> seeds;  // nodes of the graph where a cut may lower the peak, the most promising first
  };

  static std::string Bytes(int64_t bytes) { return "a peak of " + std::to_string(bytes) + " bytes"; }

  // The best graph with one more region cut, or `from`.
  Result<Trial> CutOnce(const Trial& from) {
    Trial best = from;
    NodeId seed = ir::kNoNode;
    for (int64_t chunks = 2; chunks <= kMostChunks; chunks *= 2) {
      const std::vector<NodeId> seeds = seed == ir::kNoNode ? from.seeds : std::vector<NodeId>{seed};
      bool better = false;
      for (NodeId at : seeds) {
        ir::Graph graph = from.graph;
        RONDO_ASSIGN_OR_RETURN(const int64_t nodes, shard::CutRowsAround(&graph, at, chunks));
        if (nodes == 0 || graph.size() > kMostTriedNodes) continue;
        RONDO_ASSIGN_OR_RETURN(Trial trial, Try(std::move(graph)));
        if (trial.peak > best.peak - best.peak / kLeastGain) continue;
        best = std::move(trial);
        best.chunks = chunks;
        seed = at;
        better = true;
      }
      if (!better) break;
    }
    return best;
  }

  Result<Trial> Try(ir::Graph graph) {
    ProgramInWork tried = *program_;
    tried.graph = graph;
    RONDO_RETURN_IF_ERROR(LowerOnTrial(compilation_, &tried));
    Trial trial;
    trial.peak = tried.schedule.peak_after;
    trial.seeds = SeedsOf(graph, tried.planned.lowered);
    trial.graph = std::move(graph);
    return trial;
  }

  // The nodes whose steps touch the largest values that live at the peak.
  static std::vector<NodeId> SeedsOf(const ir::Graph& graph, const LoweredProgram& program) {
    const std::vector<Life> lives = Lifetimes(program);
    std::vector<int64_t> live(program.ops.size(), 0);
    for (size_t v = 0; v < lives.size(); ++v) {
      if (!lives[v].used() || !InArena(program.values[v].kind)) continue;
      for (int s = lives[v].first; s <= lives[v].last && s < static_cast<int>(live.size()); ++s)
        live[static_cast<size_t>(s)] += program.values[v].bytes;
    }
    if (live.empty()) return {};
    const auto peak = static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
    std::vector<std::pair<int64_t, NodeId>> found;  // negative bytes, node
    for (const LoweredOp& op : program.ops) {
      int64_t bytes = 0;
      for (const LoweredBinding& param : op.params) {
        const auto v = static_cast<size_t>(param.value);
        if (InArena(program.values[v].kind) && lives[v].first <= peak && peak <= lives[v].last)
          bytes += program.values[v].bytes;
      }
      if (bytes == 0 || op.loop >= 0) continue;
      for (NodeId id : op.nodes) {
        if (id < graph.size() && IsLarge(graph, id)) found.emplace_back(-bytes, id);
      }
    }
    std::sort(found.begin(), found.end());
    std::vector<NodeId> seeds;
    for (const auto& [bytes, id] : found) {
      if (seeds.size() < kMostSeeds) seeds.push_back(id);
    }
    return seeds;
  }

  // Whether the node is one of those that a kernel is made around.
  static bool IsLarge(const ir::Graph& graph, NodeId id) {
    const ir::Op op = graph.node(id).op;
    return op == ir::Op::kMatMul || op == ir::Op::kConv || op == ir::Op::kPool || op == ir::Op::kAttention ||
           op == ir::Op::kReduce;
  }

  Compilation* compilation_;
  ProgramInWork* program_;
};

// The largest arena of a program's devices.
int64_t ArenaOf(const std::vector<ProgramInWork>& programs, const std::string& name) {
  int64_t most = 0;
  for (const ProgramInWork& program : programs) {
    if (program.source.program == name) most = std::max(most, program.planned.memory.arena_bytes);
  }
  return most;
}

}  // namespace

Status AddVariants(Compilation* compilation, ProgramInWork*, std::string* text) {
  const Variant variant = compilation->options.variant;
  if (variant == Variant::kFastest) return Status::Ok();
  std::vector<ProgramInWork>& programs = compilation->programs;
  const size_t count = programs.size();
  for (size_t p = 0; p < count; ++p) {
    ProgramInWork made = programs[p];
    made.variant = variant;
    made.variant_of = made.source.program;
    made.source.program = NameOfVariant(made.variant_of, variant);
    made.graph.name = made.source.program;
    RONDO_ASSIGN_OR_RETURN(const std::string cut, Cutting(compilation, &made).Run());
    *text += (text->empty() ? "" : "\n") + NameOf(compilation->options, made) + ": " + cut;
    programs.push_back(std::move(made));
  }
  return Status::Ok();
}

Status KeepVariants(Compilation* compilation, ProgramInWork*, std::string* text) {
  std::vector<ProgramInWork>& programs = compilation->programs;
  std::map<std::string, bool> kept;  // by name of the variant
  for (const ProgramInWork& program : programs) {
    const std::string& name = program.source.program;
    if (program.variant_of.empty() || kept.count(name) != 0) continue;
    const int64_t arena = ArenaOf(programs, name), of = ArenaOf(programs, program.variant_of);
    kept[name] = arena < of;
    *text += (text->empty() ? "" : "\n") + name + ": an arena of " + std::to_string(arena) + " bytes; " +
             program.variant_of + " has " + std::to_string(of) + (arena < of ? "" : ", so it is dropped");
  }
  programs.erase(std::remove_if(programs.begin(), programs.end(),
                                [&](const ProgramInWork& program) {
                                  const auto found = kept.find(program.source.program);
                                  return found != kept.end() && !found->second;
                                }),
                 programs.end());
  return Status::Ok();
}

}  // namespace program_passes
}  // namespace rondo
