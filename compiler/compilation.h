// Compilation: the state of one call of Compile in the pipeline.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/codegen/emit_plan.h"
#include "compiler/compile.h"
#include "compiler/fusion/fuse.h"
#include "compiler/fusion/lowered.h"
#include "compiler/import/import.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/gather_weights.h"
#include "compiler/schedule/least_memory.h"
#include "formats/plan/node_fate.h"

namespace rondo {

// One program on one device, on its way from a model to steps. Passes fill in the fields for later passes.
struct ProgramInWork {
  ModelSource source;
  uint32_t device = 0;
  Variant variant = Variant::kFastest;
  std::string variant_of;       // the program's name, if this is a variant of one
  bool sharded = false;         // the graph is one device's part of a program split by `shard`
  ir::Graph graph;              // from `import` to `fuse`
  std::vector<NodePair> apart;  // of the graph, from `weigh_fusions` on: FuseOptions::apart
  std::string fusions;      // also from `weigh_fusions` on: what is known about the memory of other fusions
  PlannedProgram planned;   // from `fuse` to `emit`
  int64_t uncut_arena = 0;  // bytes of the arena without chunks, if the graph is cut into chunks; otherwise 0
  ScheduleReport schedule;
  WeightSharing sharing;           // with options.weights kGather, from `shard` to `gather_weights`
  GatheredWeights gathered;        // the same, from `gather_weights` on
  std::vector<NamedValue> values;  // of the model, from `import` on
  std::map<std::string, plan::NodeFate> fates;  // of its nodes (node_fates.h)
  DeviceHints hints;                            // of the model, from `import` on
  FixedCaches caches;                           // with options.cache_length
  // Of the model, from `import` on: nodes that annotations bind (bound_nodes.h), and the source nodes by
  // owner, and by the name of their region.
  std::vector<BoundNode> bound;
  std::vector<NamedValue> asserted;         // by the number of the assertion (ir::IsAssertion)
  std::set<int64_t> asserted_of_constants;  // of these: became constants, which are finite
  std::map<int, std::set<std::string>> sources_of;
  std::map<std::string, std::set<std::string>> sources_in;
  // The source nodes that are matmuls, convolutions or attention, as imported.
  std::set<std::string> contracting;
  std::vector<std::string> frozen;  // inputs bound to their values in options.values_at_hand
  // Entries of options.states and state_texts of which the model has at least one name.
  std::vector<StateName> states;
  // Inputs and outputs that are states because another program begins or reads them.
  std::vector<std::pair<std::string, std::string>> shared_caches;
};

// Lives on the stack of Compile; single-threaded.
struct Compilation {
  explicit Compilation(const CompileOptions& o) : options(o) {}
  const CompileOptions& options;
  std::vector<ProgramInWork> programs;
  // Names in options.shapes, options.bound_inputs, options.break_before, options.states (as texts, with
  // options.state_texts), options.donations and options.bounds that exist in some program.
  std::vector<std::string> shapes_found, bound_found, breaks_found, states_found, donations_found,
      bounds_found;
  bool sampled = false;         // some program draws tokens
  std::vector<bool> annotated;  // by options.annotations: some program has such a node
  EmittedPlan emitted;          // from `emit` on
  EmitReport emit_report;
  CompileReport report;
};

inline bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The name of a device's program in reports: "main", "main@1".
std::string NameOf(const CompileOptions& options, const ProgramInWork& program);

}  // namespace rondo
