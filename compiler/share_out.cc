// The passes that shard a whole model over devices: its work and weights (--tp, --pp), or its weights alone
// (--weights gather).
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/program_passes.h"
#include "compiler/shard/costs.h"
#include "compiler/shard/on_every_device.h"
#include "compiler/shard/shard_graph.h"
#include "compiler/shard/stages.h"

namespace rondo::program_passes {
namespace {

// Adds `device`'s part of a program to `programs`.
void AddShare(const ProgramInWork& whole, ir::Graph graph, uint32_t device,
              std::vector<ProgramInWork>* programs) {
  programs->emplace_back();
  ProgramInWork& share = programs->back();
  share.source = whole.source;
  share.device = device;
  share.sharded = true;
  share.graph = std::move(graph);
  share.values = whole.values;
  share.fates = whole.fates;
  share.bound = whole.bound;
  share.asserted = whole.asserted;
  share.asserted_of_constants = whole.asserted_of_constants;
  share.sources_of = whole.sources_of;
  share.contracting = whole.contracting;
}

// The number of a device: its stage and its rank there.
struct DeviceNumber {
  uint32_t stage = 0, rank = 0;
  uint32_t ranks = 1, stages = 1;  // of each stage; in all
  uint32_t device() const { return stage * ranks + rank; }
};

// The devices of a stage, which share its weights.
WeightSharing SharingOf(const DeviceNumber& number) {
  WeightSharing sharing = {number.ranks, number.rank, {}};
  for (uint32_t r = 0; r < number.ranks && number.stages > 1; ++r)
    sharing.group.push_back(number.stage * number.ranks + r);
  return sharing;
}

// Device `rank`'s share of the model's heads, without the padding; it may be empty. They are the first of the
// device's own heads.
void ShareOfPadded(const shard::PaddedState& state, const Shape& local, uint32_t rank, StateShare* share) {
  const int64_t own = local[state.dim], all = state.from * state.inner, first = std::min(all, own * rank);
  const int64_t count = std::min(own, all - first);
  share->share = ir::Slice(share->share, state.dim, std::min(first, all - 1), 1, count);
  share->held = ir::Slice(ir::DenseView(local), state.dim, 0, 1, count);
}

// The device's shares of the program's states. `graph` is what the device runs. A state's share is cut, as
// `sharded` says, from the stage's `rows`, or from the whole state if `rows` has none.
std::vector<StateShare> SharesOf(const ProgramInWork& program, const ir::Graph& graph,
                                 const std::map<std::string, ir::View>& rows,
                                 const shard::ShardedGraph& sharded, const DeviceNumber& number) {
  std::vector<StateShare> shares;
  for (const ir::StatePair& pair : graph.states) {
    StateShare share;
    share.program = program.source.program;
    share.input = graph.inputs[static_cast<size_t>(pair.input)].name;
    share.output = graph.outputs[static_cast<size_t>(pair.output)].name;
    share.device = number.device();
    for (const ir::GraphInput& input : program.graph.inputs) {
      if (input.name == share.input) share.whole = program.graph.node(input.node).shape;
    }
    const auto held = rows.find(share.input);
    share.share = held == rows.end() ? ir::DenseView(share.whole) : held->second;
    const auto sharding = sharded.states.find(share.input);
    const auto padded =
        std::find_if(sharded.padded.begin(), sharded.padded.end(),
                     [&](const shard::PaddedState& state) { return state.input == share.input; });
    if (padded != sharded.padded.end()) {
      ShareOfPadded(*padded, graph.node(graph.inputs[static_cast<size_t>(pair.input)].node).shape,
                    number.rank, &share);
    } else if (sharding != sharded.states.end()) {
      share.share = ir::Compose(
          share.share, shard::ShareView(share.share.shape(), sharding->second, number.ranks, number.rank));
    }
    if (padded == sharded.padded.end()) share.held = ir::DenseView(share.share.shape());
    shares.push_back(std::move(share));
  }
  return shares;
}

// Sharing out merges equal constants of different regions, and a merged constant lies in no region.
Status RefuseRegions(const ProgramInWork& program) {
  if (program.sources_in.empty()) return Status::Ok();
  return Status::Error(
      Code::kUnsupported,
      "program \"%s\": region \"%s\" cannot be kept in a model that is shared out: compile it for "
      "one device, or annotate the nodes without a region",
      program.source.program.c_str(), program.sources_in.begin()->first.c_str());
}

void AddText(const std::string& more, std::string* text) { *text += (text->empty() ? "" : "\n") + more; }

// Whether programs with the same state hold shares of equal shape on each device.
bool StatesAgree(const std::vector<ProgramInWork>& programs) {
  std::map<std::pair<std::string, uint32_t>, Shape> known;  // by name and device
  for (const ProgramInWork& program : programs) {
    for (const ir::StatePair& pair : program.graph.states) {
      const ir::GraphInput& input = program.graph.inputs[static_cast<size_t>(pair.input)];
      const Shape& shape = program.graph.node(input.node).shape;
      if (!(known.try_emplace({input.name, program.device}, shape).first->second == shape)) return false;
    }
  }
  return true;
}

// Replaces each program by one program per device: cuts it into stages, then shards every stage. Fills
// `programs` and `all_shares`, which are empty before.
Status ShareOut(Compilation* compilation, bool pad_states, bool by_demand,
                std::vector<ProgramInWork>* programs, std::vector<StateShare>* all_shares,
                std::string* text) {
  const uint32_t devices = std::max(compilation->options.tensor_parallel, 1u);
  const uint32_t stages = std::max(compilation->options.pipeline_parallel, 1u);
  const bool gather = compilation->options.weights == Weights::kGather;
  shard::StagePlaces places;
  places.by_demand = by_demand;
  std::vector<shard::StateShardings> states(stages);
  std::vector<shard::WeightShardings> weights(stages);
  if (gather) *text = "every device does all of the work, and gathers weights as it comes to them";
  for (ProgramInWork& program : compilation->programs) {
    const std::string& name = program.source.program;
    RONDO_RETURN_IF_ERROR(shard::RefuseCollectives(program.graph).At("program \"%s\"", name.c_str()));
    RONDO_RETURN_IF_ERROR(RefuseRegions(program));
    shard::StagedGraph staged;
    if (stages > 1) {
      RONDO_RETURN_IF_ERROR(shard::CutIntoStages(program.graph, static_cast<int>(stages),
                                                 compilation->options.targets.deciding().is_host(), &places,
                                                 &staged, &program.hints)
                                .At("program \"%s\"", name.c_str()));
      AddText(name + ": " + staged.text, text);
    } else {
      staged.stages.push_back(program.graph);
      staged.rows.emplace_back();
    }
    for (const std::string& hint : program.hints.not_used) AddText(name + ": not followed: " + hint, text);
    for (uint32_t s = 0; s < stages; ++s) {
      shard::ShardedGraph sharded;
      if (compilation->sampled) KeepSamplingWhole(staged.stages[s], &states[s]);
      if (gather) {
        shard::CopiedGraph copied;
        RONDO_RETURN_IF_ERROR(
            shard::OnEveryDevice(std::move(staged.stages[s]), devices, {s, stages}, &copied));
        sharded.ranks = std::move(copied.ranks);
        if (!copied.text.empty()) AddText(name + ": " + copied.text, text);
      } else if (devices > 1) {
        RONDO_RETURN_IF_ERROR(shard::ShardGraph(std::move(staged.stages[s]), devices, &states[s], &sharded,
                                                {s, stages}, &program.hints, &weights[s], pad_states)
                                  .At("program \"%s\"", name.c_str()));
        AddText(name + (stages > 1 ? ", stage " + std::to_string(s) : "") + ": " + sharded.text, text);
      } else {
        sharded.ranks.push_back(std::move(staged.stages[s]));
      }
      for (uint32_t r = 0; r < devices; ++r) {
        const DeviceNumber number = {s, r, devices, stages};
        const std::vector<StateShare> shares =
            SharesOf(program, sharded.ranks[r], staged.rows[s], sharded, number);
        all_shares->insert(all_shares->end(), shares.begin(), shares.end());
        AddShare(program, std::move(sharded.ranks[r]), number.device(), programs);
        if (!gather) continue;
        programs->back().sharing = SharingOf(number);
        // New values of live weights are cut like the old ones, each by itself.
        if (!compilation->options.live_weights) programs->back().sharing.together = shard::CombineLimits();
      }
    }
  }
  return Status::Ok();
}

// The result of sharing out.
struct SharedOut {
  std::vector<ProgramInWork> programs;
  std::vector<StateShare> shares;
  std::string text;
};

// Bytes of weights and states that each device holds.
std::map<uint32_t, int64_t> LoadsOf(const SharedOut& out) {
  std::map<uint32_t, int64_t> loads;
  std::set<std::pair<uint32_t, const ir::ConstantData*>> weights;
  std::set<std::pair<uint32_t, std::string>> states;
  for (const ProgramInWork& program : out.programs) {
    const ir::Graph& graph = program.graph;
    for (ir::NodeId id = 0; id < graph.size(); ++id) {
      if (!graph.IsConstant(id)) continue;
      if (weights.emplace(program.device, graph.node(id).As<ir::ConstantAttrs>().data.get()).second)
        loads[program.device] += shard::BytesOf(graph.node(id));
    }
    for (const ir::StatePair& pair : graph.states) {
      const ir::GraphInput& input = graph.inputs[static_cast<size_t>(pair.input)];
      if (states.emplace(program.device, input.name).second)
        loads[program.device] += shard::BytesOf(graph.node(input.node));
    }
  }
  return loads;
}

int64_t GreatestLoad(const SharedOut& out) {
  int64_t greatest = 0;
  for (const auto& [device, bytes] : LoadsOf(out)) greatest = std::max(greatest, bytes);
  return greatest;
}

// Whether a device holds more than 1.5 times an equal share.
bool IsLopsided(const SharedOut& out, int64_t devices) {
  int64_t all = 0;
  for (const auto& [device, bytes] : LoadsOf(out)) all += bytes;
  return 2 * devices * GreatestLoad(out) > 3 * all;
}

// States get padded heads either in all programs that have them or in none.
Result<SharedOut> ShareOutInOrder(Compilation* compilation, bool by_demand) {
  for (bool pad_states = compilation->options.pipeline_parallel <= 1;; pad_states = false) {
    SharedOut out;
    RONDO_RETURN_IF_ERROR(
        ShareOut(compilation, pad_states, by_demand, &out.programs, &out.shares, &out.text));
    if (!pad_states || StatesAgree(out.programs)) return out;
  }
}

}  // namespace

Status Shard(Compilation* compilation, ProgramInWork*, std::string* text) {
  const uint32_t devices = std::max(compilation->options.tensor_parallel, 1u),
                 stages = std::max(compilation->options.pipeline_parallel, 1u);
  if (devices * stages == 1) {
    *text = "one device runs what the model says";
    return Status::Ok();
  }
  // Stages are first cut in the model's order of nodes. If that fails or leaves nearly everything in one
  // stage, the order by demand is tried.
  Result<SharedOut> out = ShareOutInOrder(compilation, false);
  if (stages > 1 && (!out.ok() || IsLopsided(*out, devices * stages))) {
    Result<SharedOut> other = ShareOutInOrder(compilation, true);
    if (other.ok() && (!out.ok() || GreatestLoad(*other) < GreatestLoad(*out))) out = std::move(other);
  }
  if (!out.ok()) return out.status();
  *text = std::move(out->text);
  compilation->programs = std::move(out->programs);
  compilation->report.state_shares = std::move(out->shares);
  return Status::Ok();
}

Status GatherAhead(Compilation* compilation, ProgramInWork*, std::string* text) {
  if (compilation->options.weights != Weights::kGather) return Status::Ok();
  std::set<std::string> told;  // devices that say the same say it once
  std::map<uint32_t, std::vector<ProgramInWork*>> by_device;
  for (ProgramInWork& program : compilation->programs) by_device[program.device].push_back(&program);
  for (const auto& [device, programs] : by_device) {
    std::vector<WeightSharing*> sharing;
    std::vector<const LoweredProgram*> lowered;
    for (ProgramInWork* program : programs) {
      sharing.push_back(&program->sharing);
      lowered.push_back(&program->planned.lowered);
    }
    GatherAlike(sharing, lowered);
    for (ProgramInWork* program : programs) {
      program->gathered = GatherWeights(program->sharing, &program->planned.lowered);
      if (told.insert(program->source.program + ": " + program->gathered.text).second)
        AddText("program " + NameOf(compilation->options, *program) + ": " + program->gathered.text, text);
    }
  }
  return Status::Ok();
}

}  // namespace rondo::program_passes
