#include "tools/rondo/compile_report.h"

#include <algorithm>
#include <string_view>

#include "compiler/pipeline.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

void PrintRemarks(const CompileReport& report, bool shared_out, bool verbose, CommandOutput* out) {
  constexpr std::string_view kEveryDevice = "on every device: ";
  for (const PassReport& pass : report.passes) {
    const bool imported = pass.pass == "import", gathered = pass.pass == "gather_weights";
    if (!imported && ((pass.pass != "shard" && !gathered) || !shared_out)) continue;
    size_t at = imported ? pass.text.find('\n') : 0;
    if (at != std::string::npos && imported) ++at;
    std::string largest;  // the first one, as they are sorted
    size_t whole = 0;
    while (at < pass.text.size()) {
      const size_t end = std::min(pass.text.find('\n', at), pass.text.size());
      const std::string program = imported ? "program " + pass.program + ": " : "";
      const std::string line = pass.text.substr(at, end - at);
      at = end + 1;
      if (!verbose && line.rfind(kEveryDevice, 0) == 0) {
        if (whole++ == 0) largest = line.substr(kEveryDevice.size());
        continue;
      }
      out->Line("%s%s", program.c_str(), line.c_str());
    }
    if (whole == 1) out->Line("%s%s", std::string(kEveryDevice).c_str(), largest.c_str());
    if (whole > 1)
      out->Line("%s%zu weights and states; the largest: %s; -v names all", std::string(kEveryDevice).c_str(),
                whole, largest.c_str());
  }
}

void PrintSummary(const CompileReport& report, const std::string& path, CommandOutput* out) {
  const std::string synthetic =
      report.synthetic_bytes > 0 ? " and " + BytesText(report.synthetic_bytes) + " synthetic" : "";
  out->Line("%s: %u kernels, weights %s%s, state %s, compiled in %.2f s", path.c_str(), report.kernels,
            BytesText(report.weights_bytes).c_str(), synthetic.c_str(), BytesText(report.state_bytes).c_str(),
            report.seconds);
  for (const ProgramReport& program : report.programs) {
    out->Line("program %s: %u steps in %zu partition%s, arena %s%s%s", program.program.c_str(), program.steps,
              program.partitions.size(), program.partitions.size() == 1 ? "" : "s",
              ArenaText(program.arena_bytes, program.arena_lower_bound).c_str(),
              program.fusions.empty() ? "" : "; ", program.fusions.c_str());
    for (size_t i = 0; i + 1 < program.partitions.size(); ++i) {
      const PartitionReport& partition = program.partitions[i];
      out->Line("  partition %zu ends after step %u, %s: %s", i,
                partition.first_step + partition.num_steps - 1, Name(partition.reason),
                partition.detail.c_str());
    }
  }
  constexpr size_t kMostWarnings = 5;
  const size_t slow = report.slow_kernels.size(), told = std::min(slow, kMostWarnings);
  for (size_t i = 0; i < told; ++i)
    out->Line("warning: %s", Printable(report.slow_kernels[i].Text()).c_str());
  if (told < slow)
    out->Line("warning: %zu more kernels use less than 2 %% of the GPU; --json names all", slow - told);
}

Json CompileReportJson(const CompileReport& report, const std::string& path) {
  Json json = {{"plan", path},
               {"kernels", report.kernels},
               {"weights_bytes", report.weights_bytes},
               {"synthetic_bytes", report.synthetic_bytes},
               {"state_bytes", report.state_bytes},
               {"arena_bytes", report.arena_bytes},
               {"seconds", report.seconds},
               {"estimates", report.estimates},
               {"slow_kernels", Json::array()},
               {"programs", Json::array()},
               {"passes", Json::array()}};
  for (const ProgramReport& program : report.programs) {
    Json partitions = Json::array();
    for (const PartitionReport& partition : program.partitions) {
      partitions.push_back({{"first_step", partition.first_step},
                            {"num_steps", partition.num_steps},
                            {"reason", Name(partition.reason)},
                            {"detail", partition.detail}});
    }
    json["programs"].push_back({{"name", program.program},
                                {"steps", program.steps},
                                {"peak_before", program.peak_before},
                                {"peak_after", program.peak_after},
                                {"peak_least", program.peak_least},
                                {"arena_bytes", program.arena_bytes},
                                {"run_us", {program.overlap.end_before, program.overlap.end_after}},
                                {"arena_lower_bound", program.arena_lower_bound},
                                {"fusions", program.fusions},
                                {"partitions", partitions}});
  }
  for (const SlowKernel& slow : report.slow_kernels) {
    json["slow_kernels"].push_back({{"kernel", slow.kernel},
                                    {"source", slow.source},
                                    {"estimated_us", slow.estimated},
                                    {"least_us", slow.least}});
  }
  for (const PassReport& pass : report.passes) {
    json["passes"].push_back(
        {{"program", pass.program}, {"pass", pass.pass}, {"seconds", pass.seconds}, {"text", pass.text}});
  }
  return json;
}

int ListPasses(CommandOutput* out) {
  Section section;
  section.title = "Passes, in order";
  section.table.head = {"pass", "optional", "for", "holds after it", "what it promises"};
  const auto targets = [](const PipelineEntry& entry) { return entry.targets == For::kGpus ? "GPUs" : ""; };
  for (const PipelineEntry& entry : Pipeline()) {
    section.table.rows.push_back(
        {entry.name, entry.skippable() ? "yes" : "", targets(entry), NamesOf(entry.holds), entry.does});
    out->object()["passes"].push_back({{"pass", entry.name},
                                       {"optional", entry.skippable()},
                                       {"for", targets(entry)},
                                       {"holds", NamesOf(entry.holds)},
                                       {"does", entry.does}});
  }
  Section holds;
  holds.title = "What holds after a pass, and is checked after it";
  holds.table.head = {"name", "with --check-passes only", "what it says"};
  for (const Invariant& invariant : AllInvariants()) {
    holds.table.rows.push_back({invariant.name, invariant.always ? "" : "yes", invariant.says});
    out->object()["holds"].push_back(
        {{"name", invariant.name}, {"always_checked", invariant.always}, {"says", invariant.says}});
  }
  out->Print({"The compiler's pipeline (compiler/pipeline.cc)", {section, holds}});
  return out->Finish(0);
}

}  // namespace rondo::tools
