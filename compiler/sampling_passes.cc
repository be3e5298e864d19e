// The passes behind --sample: programs draw tokens, the same on all devices.
#include <algorithm>

#include "compiler/given_ports.h"
#include "compiler/ir/port_names.h"
#include "compiler/program_passes.h"

namespace rondo::program_passes {
namespace {

template <typename Ports>
std::vector<std::string> PortNames(const Ports& ports) {
  std::vector<std::string> names;
  for (const auto& port : ports) names.push_back(port.name);
  return names;
}

// Resolves `text`, LOGITS or LOGITS:TOKENS, in a program that may have only some of the names.
Status PartSampled(const std::string& text, const ir::Graph& graph, passes::PassOptions* options) {
  const std::vector<std::string> outputs = PortNames(graph.outputs);
  const auto is_output = [&](const std::string& name) {
    return std::find(outputs.begin(), outputs.end(), name) != outputs.end();
  };
  RONDO_ASSIGN_OR_RETURN(const std::optional<NamePair> both,
                         PartNames("--sample", text, outputs, PortNames(graph.inputs)));
  options->sample_logits = WithoutEscapes(text);
  if (is_output(options->sample_logits)) {
    if (!both) return Status::Ok();
    return Status::Error(
        Code::kInvalidArgument,
        "--sample %s could be the output \"%s\", or \"%s\" and the input \"%s\": write every "
        "':' that belongs to a name as \"\\:\"",
        text.c_str(), text.c_str(), both->first.c_str(), both->second.c_str());
  }
  for (const NamePair& pair : both ? std::vector<NamePair>{*both} : PairsIn(text)) {
    if (!is_output(pair.first)) continue;
    std::tie(options->sample_logits, options->sample_tokens) = pair;
    break;
  }
  return Status::Ok();
}

}  // namespace

// In a pipeline the last stage draws the token and the first reads it: it is a state of neither.
Status AppendSampling(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options;
  options.sample_logits = compilation->options.sample_logits;
  options.sample_tokens = compilation->options.sample_tokens;
  const std::string& text_given = compilation->options.sample_text;
  if (!text_given.empty()) RONDO_RETURN_IF_ERROR(PartSampled(text_given, program->graph, &options));
  options.tokens_stay = compilation->options.pipeline_parallel <= 1;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::AppendSampling(&program->graph, options));
  compilation->sampled = compilation->sampled || result.changes > 0;
  *text = std::move(result.text);
  return Status::Ok();
}

Status TokenLoop(Compilation*, ProgramInWork* program, std::string* text) {
  passes::PassOptions options;
  options.token_rounds = program->source.token_rounds;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::TokenLoop(&program->graph, options));
  *text = std::move(result.text);
  return Status::Ok();
}

void KeepSamplingWhole(const ir::Graph& graph, shard::StateShardings* states) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = graph.inputs[i].name;
    if (name == "last_tokens" || name == "sampling" || name == "draws" || name == "text_length")
      states->emplace(shard::StateKey(graph, i), shard::kWhole);
  }
}

Status LogitsWereFound(const Compilation& compilation) {
  const CompileOptions& options = compilation.options;
  const std::string& logits = options.sample_text.empty() ? options.sample_logits : options.sample_text;
  if (logits.empty() || compilation.sampled) return Status::Ok();
  std::vector<std::string> outputs;
  for (const ProgramInWork& program : compilation.programs) {
    for (const ir::GraphOutput& output : program.graph.outputs) outputs.push_back(output.name);
  }
  return Status::Error(Code::kInvalidArgument, "--sample: no model has an output \"%s\"; near are %s",
                       logits.c_str(), ir::NearNames(std::move(outputs), logits).c_str());
}

}  // namespace rondo::program_passes
