// Caches that one program begins and others read: keys and values of an encoder's output, which a decoder's
// first step computes, and caches of a decoder whose first step is a separate model without a past.
//
// A port named as a past ("past_key_values.0.encoder.key") is the output named as its present
// ("present.0.encoder.key") of another program. Each program gets the port that it lacks. A reader passes its
// input on unchanged; the program that begins a cache writes all of it, or its first rows. PairState then
// makes states of them.
#include <algorithm>

#include "compiler/import/cached_attention.h"
#include "compiler/ir/port_names.h"
#include "compiler/program_passes.h"

namespace rondo::program_passes {
namespace {

using ir::Graph;
using ir::NodeId;

// The index of the output named as the present of the past `input`; -1: none.
int PresentOf(const Graph& graph, const std::string& input) {
  if (input.rfind("past", 0) != 0) return -1;
  for (const std::string& name : ir::StateOutputNames(input)) {
    if (const int at = name.empty() || name == input ? -1 : ir::FindPort(graph.outputs, name); at >= 0)
      return at;
  }
  return -1;
}

// The one axis along which a run's rows are fewer than the cache's; -1 if there is none, or if other dims
// differ.
int AxisOfRows(const Shape& cache, const Shape& rows) {
  int axis = -1, differ = 0;
  for (int d = 0; d < cache.rank && cache.rank == rows.rank; ++d) {
    if (cache[d] == rows[d]) continue;
    ++differ;
    if (rows[d] < cache[d]) axis = d;
  }
  return differ == 1 ? axis : -1;
}

// Makes `from` compute output `present` into the cache that another program reads as its input `past`.
bool Begin(ProgramInWork* from, int present, const ir::GraphInput& past, const ir::Node& cache) {
  Graph& g = from->graph;
  ir::GraphOutput& output = g.outputs[static_cast<size_t>(present)];
  const ir::Node& rows = g.node(output.node);
  const int axis = AxisOfRows(cache.shape, rows.shape);
  if (rows.dtype != cache.dtype || !IsFloat(rows.dtype) || (axis < 0 && !(rows.shape == cache.shape)))
    return false;
  int at = ir::FindPort(g.inputs, past.name);
  if (at >= 0 && !(g.node(g.inputs[static_cast<size_t>(at)].node).shape == cache.shape)) return false;
  ir::Builder b(&g);
  b.SetSources(rows.sources);
  if (at < 0) {
    b.Input(past.name, cache.dtype, cache.shape);
    at = static_cast<int>(g.inputs.size()) - 1;
  }
  if (axis >= 0) {
    const NodeId whole = g.inputs[static_cast<size_t>(at)].node;
    importer::BeginWithOutput(b, whole, static_cast<size_t>(present), axis);
  }
  from->shared_caches.emplace_back(past.name, g.outputs[static_cast<size_t>(present)].name);
  return true;
}

bool IsPaired(const ProgramInWork& program, const std::string& input) {
  return std::any_of(program.shared_caches.begin(), program.shared_caches.end(),
                     [&](const auto& pair) { return pair.first == input; });
}

// Whether the program's output `present` is its input `past` unchanged.
bool HandsOn(const Graph& graph, int present, const std::string& past) {
  const int own = ir::FindPort(graph.inputs, past);
  return present >= 0 && own >= 0 &&
         graph.outputs[static_cast<size_t>(present)].node == graph.inputs[static_cast<size_t>(own)].node;
}

// Whether `from` computes a cache that `reader` reads and either does not write or passes on unchanged, as a
// decoder does with an encoder's keys and values.
bool HaveEncoder(const ProgramInWork& from, const ProgramInWork& reader) {
  return std::any_of(reader.graph.inputs.begin(), reader.graph.inputs.end(), [&](const ir::GraphInput& past) {
    const int begun = PresentOf(from.graph, past.name), kept = PresentOf(reader.graph, past.name);
    return begun >= 0 && !HandsOn(from.graph, begun, past.name) &&
           (kept < 0 || HandsOn(reader.graph, kept, past.name));
  });
}

// Whether `from` has no past for any of the caches that `reader` writes and keeps. Then `from` is a first
// step in a separate model, as Optimum's decoder_model.onnx beside decoder_with_past_model.onnx.
bool BeginsAll(const ProgramInWork& from, const ProgramInWork& reader) {
  const std::vector<std::string>& caches = reader.caches.inputs;
  return !caches.empty() && std::all_of(caches.begin(), caches.end(), [&](const std::string& past) {
    return ir::FindPort(from.graph.inputs, past) < 0 && PresentOf(from.graph, past) >= 0;
  });
}

// Shares the caches of `reader` that `from` begins. A program that has both ports itself begins only those
// that it does not read.
int Share(ProgramInWork* from, ProgramInWork* reader) {
  int shared = 0;
  for (size_t i = 0; i < reader->graph.inputs.size(); ++i) {
    const ir::GraphInput past = reader->graph.inputs[i];
    const int present = PresentOf(from->graph, past.name);
    if (present < 0) continue;
    const int own = ir::FindPort(from->graph.inputs, past.name);
    if (own >= 0 && !from->graph.UsersOf(from->graph.inputs[static_cast<size_t>(own)].node).empty()) continue;
    const ir::Node& cache = reader->graph.node(past.node);
    const int theirs = PresentOf(reader->graph, past.name);
    if (theirs >= 0) {
      const ir::Node& now = reader->graph.node(reader->graph.outputs[static_cast<size_t>(theirs)].node);
      if (now.dtype != cache.dtype || !(now.shape == cache.shape)) continue;
    }
    if (!IsPaired(*from, past.name)) {
      if (!Begin(from, present, past, cache)) continue;
      ++shared;
    }
    if (IsPaired(*reader, past.name)) continue;
    std::string name = from->graph.outputs[static_cast<size_t>(present)].name;
    if (theirs >= 0) {
      name = reader->graph.outputs[static_cast<size_t>(theirs)].name;
    } else {
      reader->graph.outputs.push_back({name, past.node});
    }
    reader->shared_caches.emplace_back(past.name, name);
  }
  return shared;
}

}  // namespace

Status ShareCaches(Compilation* compilation, ProgramInWork*, std::string* text) {
  int shared = 0;
  for (ProgramInWork& from : compilation->programs) {
    for (ProgramInWork& reader : compilation->programs) {
      const bool pair = &from != &reader && from.device == reader.device && compilation->options.auto_state;
      if (pair && (HaveEncoder(from, reader) || BeginsAll(from, reader))) shared += Share(&from, &reader);
    }
  }
  *text = std::to_string(shared) + (shared == 1 ? " cache is" : " caches are") + " begun by another program";
  return Status::Ok();
}

}  // namespace rondo::program_passes
