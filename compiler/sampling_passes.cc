// What --sample asks of the pipeline: programs that draw tokens, alike on all devices.
#include "compiler/program_passes.h"

namespace rondo::program_passes {

// The token of a pipeline is drawn by its last stage, and read by its first: it is no state of either.
Status AppendSampling(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options;
  options.sample_logits = compilation->options.sample_logits;
  options.sample_tokens = compilation->options.sample_tokens;
  options.tokens_stay = compilation->options.pipeline_parallel <= 1;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::AppendSampling(&program->graph, options));
  compilation->sampled = compilation->sampled || result.changes > 0;
  *text = std::move(result.text);
  return Status::Ok();
}

void KeepSamplingWhole(const ir::Graph& graph, shard::StateForms* states) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = graph.inputs[i].name;
    if (name == "last_tokens" || name == "sampling" || name == "draws")
      states->emplace(shard::StateKey(graph, i), shard::kWhole);
  }
}

Status LogitsWereFound(const Compilation& compilation) {
  const std::string& logits = compilation.options.sample_logits;
  if (logits.empty() || compilation.sampled) return Status::Ok();
  return Status::Error(Code::kInvalidArgument, "--sample: no model has an output \"%s\"", logits.c_str());
}

}  // namespace rondo::program_passes
