#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/plan/reader.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/report.h"
#include "tools/weights/new_weights.h"

namespace rondo::tools {
namespace {

// "int4 codes"; "" for weights that are not packed.
std::string PackingText(const LiveWeight& weight) {
  if (weight.packing.type == PackedType::kNone) return "";
  return std::string(Name(weight.packing.type)) + (weight.scales ? " scales" : " codes");
}

class WeightsCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Group("Input")
        .Positional(
            "WHAT", &words_, 2, 3,
            "list PLAN, or replace PLAN FILE: a .safetensors file with some of the plan's weights, or an "
            "ONNX model with all of them")
        .Suggest({"list", "replace"})
        .Text("-o,--output", &output_, "of replace: the plan to write; default: PLAN itself", "PLAN");
    out_.Declare(options);
  }

  int Run() override {
    if (words_[0] == "list" && words_.size() == 2) return List();
    if (words_[0] == "replace" && words_.size() == 3) return Replace();
    return out_.Misuse("weights", "it is either list PLAN or replace PLAN FILE");
  }

 private:
  int List() {
    Arena arena;
    Result<PlanFile> plan = LoadPlanFile(words_[1].c_str(), {}, arena);
    if (!plan.ok()) return out_.Fail("weights", plan.status());
    Section section;
    section.title = "Weights";
    section.table.head = {"weight", "type", "bytes", "", "source nodes"};
    size_t live = 0;
    out_.object()["weights"] = nlohmann::ordered_json::array();
    for (uint32_t b = 0; b < plan->data.buffers.size(); ++b) {
      const Buffer& buffer = plan->data.buffers[b];
      if (buffer.kind != BufferKind::kConstant) continue;
      const LiveWeight weight = LiveWeightOf(plan->data, b);
      const std::string name(weight.name);
      live += name.empty() ? 0 : 1;
      const std::string shown = name.empty() ? std::string(buffer.name) : name;
      section.table.rows.push_back({shown, TypeText(buffer), std::to_string(buffer.bytes),
                                    name.empty() ? "fixed" : PackingText(weight),
                                    SourceText(plan->data, buffer.source)});
      out_.object()["weights"].push_back({{"name", shown},
                                          {"type", TypeText(buffer)},
                                          {"bytes", buffer.bytes},
                                          {"source", SourceText(plan->data, buffer.source)},
                                          {"packing", Name(weight.packing.type)},
                                          {"replaceable", !name.empty()}});
    }
    out_.Print(section);
    out_.Line("%zu of %zu can be replaced%s", live, section.table.rows.size(),
              live > 0 ? "" : ": compile the model with --live-weights");
    return out_.Finish(0);
  }

  int Replace() {
    Result<WeightFile> file = ReadWeightFile(words_[2]);
    if (!file.ok()) return out_.Fail("weights", file.status());
    const std::string& output = output_.empty() ? words_[1] : output_;
    size_t replaced = 0;
    if (const Status status = ReplaceInFile(words_[1], *file, output, &replaced); !status.ok())
      return out_.Fail("weights", status.At("%s", words_[2].c_str()));
    out_.Line("%s: %zu weights of %s", output.c_str(), replaced, words_[2].c_str());
    out_.object() = {{"plan", output}, {"file", words_[2]}, {"replaced", replaced}};
    return out_.Finish(0);
  }

  std::vector<std::string> words_;
  std::string output_;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeWeightsCommand() { return std::make_unique<WeightsCommand>(); }

}  // namespace rondo::tools
