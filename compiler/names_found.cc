// Names in the options that no program has are errors.
#include <algorithm>
#include <set>

#include "compiler/given_ports.h"
#include "compiler/ir/port_names.h"
#include "compiler/model_shapes.h"
#include "compiler/program_passes.h"

namespace rondo::program_passes {
namespace {

std::vector<std::string> NamesOf(const std::set<std::string>& names) { return {names.begin(), names.end()}; }

Status UnknownShape(const std::set<std::string>& known, const std::string& name) {
  return Status::Error(
      Code::kInvalidArgument,
      "shape \"%s\": no model has an input or a symbolic dimension of that name; nearest: %s", name.c_str(),
      ir::NearNames(NamesOf(known), name).c_str());
}

Status StatesWereFound(const Compilation& compilation) {
  std::vector<std::string> texts = compilation.options.state_texts;
  for (const StateName& state : compilation.options.states) texts.push_back(state.input + ":" + state.output);
  for (const std::string& text : texts) {
    if (Contains(compilation.states_found, text)) continue;
    std::vector<std::string> inputs, outputs;
    for (const ProgramInWork& program : compilation.programs) {
      for (const auto& input : program.graph.inputs) inputs.push_back(input.name);
      for (const auto& output : program.graph.outputs) outputs.push_back(output.name);
    }
    return Status::Error(Code::kInvalidArgument,
                         "--state %s: no model has an input and an output of these names: %s", text.c_str(),
                         NearPairs(text, inputs, outputs).c_str());
  }
  return Status::Ok();
}

}  // namespace

Status WithUnknownShape(const Compilation& compilation, const Status& status) {
  if (status.code() != Code::kInvalidArgument) return status;
  std::set<std::string> known;
  for (const ProgramInWork& program : compilation.programs) {
    const auto model = onnx::Model::Open(ModelPathOn(program.source.path, program.device));
    if (!model.ok()) return status;
    known.merge(ShapeNames(**model));
  }
  for (const auto& [name, dims] : compilation.options.shapes) {
    if (known.count(name) == 0) return UnknownShape(known, name);
  }
  return status;
}

Status ImportNamesWereFound(const Compilation& compilation) {
  for (size_t i = 0; i < compilation.annotated.size(); ++i) {
    const NodeAnnotation& annotation = compilation.options.annotations[i];
    if (compilation.annotated[i] || NamesRegions(annotation.node)) continue;
    return Status::Error(Code::kInvalidArgument,
                         "annotation %s: %s is of node \"%s\", but no model has a node of that name",
                         annotation.key.c_str(), annotation.value.c_str(), annotation.node.c_str());
  }
  for (const auto& [name, dims] : compilation.options.shapes) {
    if (Contains(compilation.shapes_found, name)) continue;
    return WithUnknownShape(compilation, Status::Error(Code::kInvalidArgument, "%s", name.c_str()));
  }
  for (const auto& [name, value] : compilation.options.bound_inputs) {
    if (Contains(compilation.bound_found, name)) continue;
    return Status::Error(Code::kInvalidArgument, "bind \"%s\": no model has an input of that name",
                         name.c_str());
  }
  for (const auto& [name, bound] : compilation.options.bounds) {
    if (Contains(compilation.bounds_found, name)) continue;
    return Status::Error(Code::kInvalidArgument,
                         "--bound %s=%lld: no model has a node of this name, or with an output of it, whose "
                         "length or rounds data decide",
                         name.c_str(), static_cast<long long>(bound));
  }
  for (const std::string& name : compilation.options.position_masks) {
    const auto has = [&](const ProgramInWork& program) {
      return ir::FindPort(program.graph.inputs, name) >= 0;
    };
    if (name == "none" || std::any_of(compilation.programs.begin(), compilation.programs.end(), has))
      continue;
    return Status::Error(Code::kInvalidArgument, "position mask \"%s\": no model has an input of that name",
                         name.c_str());
  }
  RONDO_RETURN_IF_ERROR(StatesWereFound(compilation));
  const auto fixed = [](const ProgramInWork& program) { return !program.caches.inputs.empty(); };
  const std::vector<ProgramInWork>& programs = compilation.programs;
  if (compilation.options.cache_length > 0 && std::none_of(programs.begin(), programs.end(), fixed)) {
    const auto tries = std::find_if(programs.begin(), programs.end(), [](const ProgramInWork& program) {
      return !program.caches.states_to_try.empty();
    });
    const std::string states =
        tries == programs.end() ? "" : "; here, perhaps, " + tries->caches.states_to_try;
    return Status::Error(
        Code::kInvalidArgument,
        "--cache-length %lld: no model has a cache that is known to grow: an input and an output of 3 or "
        "more "
        "dimensions that differ in one, named as past_key and present_key are, or given by --state "
        "INPUT:OUTPUT%s",
        static_cast<long long>(compilation.options.cache_length), states.c_str());
  }
  return Status::Ok();
}

Status DonationsWereFound(const Compilation& compilation) {
  for (const std::string& name : compilation.options.donations) {
    if (Contains(compilation.donations_found, name)) continue;
    return Status::Error(Code::kInvalidArgument, "donated input \"%s\": no model has an input of this name",
                         name.c_str());
  }
  return Status::Ok();
}

Status BreaksWereFound(const Compilation& compilation) {
  for (const std::string& node : compilation.options.break_before) {
    if (Contains(compilation.breaks_found, node)) continue;
    return Status::Error(
        Code::kInvalidArgument,
        "a break was asked for before node \"%s\", but no step comes from a node of that name", node.c_str());
  }
  return Status::Ok();
}

}  // namespace rondo::program_passes
