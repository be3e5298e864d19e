#include "tools/rondo/plan_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "formats/plan/plan_timeline.h"
#include "formats/plan/traffic.h"
#include "tools/rondo/estimates.h"
#include "tools/rondo/plan_report.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

// Makes all strings printable, because the page shows them unchanged.
Json PrintableStrings(Json json) {
  if (json.is_string()) return Printable(json.get_ref<const std::string&>());
  if (json.is_structured()) {
    for (auto& one : json) one = PrintableStrings(std::move(one));
  }
  return json;
}

// The buffers that a step reads and writes, each once.
struct Touched {
  std::vector<uint32_t> reads, writes;

  void Add(uint32_t buffer, Mode mode) {
    if (buffer == kNone) return;
    const auto add = [&](std::vector<uint32_t>* list) {
      if (std::find(list->begin(), list->end(), buffer) == list->end()) list->push_back(buffer);
    };
    if (mode != Mode::kWrite) add(&reads);
    if (mode != Mode::kRead) add(&writes);
  }
};

Touched TouchedBy(const PlanData& plan, const Step& step) {
  Touched touched;
  const auto bound = [&](size_t i) { return i < step.bindings.size() ? step.bindings[i].buffer : kNone; };
  switch (step.kind) {
    case StepKind::kLaunch:
      for (const Part& part : plan.kernels[step.kernel].parts) {
        for (const Operand& operand : part.operands) touched.Add(bound(operand.param), operand.mode);
      }
      break;
    case StepKind::kCustom:
      for (size_t i = 0; i < step.bindings.size(); ++i)
        touched.Add(bound(i), plan.custom_ops[step.custom].arguments[i].mode);
      break;
    case StepKind::kCopy:
    case StepKind::kCollectiveStart:
      touched.Add(bound(0), Mode::kRead);
      touched.Add(bound(1), Mode::kWrite);
      break;
    case StepKind::kCollectiveWait: break;
  }
  return touched;
}

// Microseconds with the fewest useful digits.
double Rounded(double us) { return std::round(us * 1000) / 1000; }

Json StepJson(const PlanData& plan, const Step& step, double begin, double end) {
  const Touched touched = TouchedBy(plan, step);
  const Traffic traffic = StepTraffic(plan, step);
  return {{"kind", Name(step.kind)},
          {"what", StepText(plan, step)},
          {"label", step.kernel == kNone ? "" : std::string(plan.kernels[step.kernel].label)},
          {"device", step.device},
          {"stream", step.stream},
          {"read", traffic.read},
          {"written", traffic.written},
          {"reads", touched.reads},
          {"writes", touched.writes},
          {"begin", Rounded(begin)},
          {"end", Rounded(end)},
          {"source", SourceText(plan, step.source)}};
}

// The collectives of each device. `before` is null if the compiler noted no exposed time.
Json FlightsJson(const PlanData& plan, const Program& program, const ProgramTimeline& timeline) {
  const std::vector<OverlapNote> notes = OverlapsOf(plan, program);
  Json flights = Json::array();
  for (const PlannedCollective& c : timeline.collectives) {
    const SyncPoint& point = program.sync_points[c.sync_point];
    const auto note = std::find_if(notes.begin(), notes.end(), [&](const OverlapNote& n) {
      return n.sync_point == c.sync_point &&
             std::find(n.devices.begin(), n.devices.end(), c.device) != n.devices.end();
    });
    flights.push_back({{"device", c.device},
                       {"point", c.sync_point},
                       {"what", Printf("%s of %s", Name(point.op), BytesText(point.bytes).c_str())},
                       {"arrive", Rounded(c.times.arrive)},
                       {"begin", Rounded(c.times.begin)},
                       {"end", Rounded(c.times.end)},
                       {"beside", Rounded(c.times.beside)},
                       {"exposed", Rounded(c.times.exposed)},
                       {"before", note == notes.end() ? Json() : Json(note->exposed_before)},
                       {"limit", note == notes.end() ? "" : note->limit},
                       {"source", SourceText(plan, point.source)}});
  }
  return flights;
}

Json ProgramJson(const PlanData& plan, const Program& program) {
  Json steps = Json::array(), partitions = Json::array(), loops = Json::array();
  const ProgramTimeline timeline = TimelineOf(plan, program);
  for (size_t s = 0; s < program.steps.size(); ++s)
    steps.push_back(StepJson(plan, program.steps[s], timeline.begins[s], timeline.ends[s]));
  for (const Partition& p : program.partitions) {
    partitions.push_back({{"device", p.device},
                          {"first", p.first_step},
                          {"steps", p.num_steps},
                          {"reason", Name(p.reason)},
                          {"detail", std::string(p.detail)}});
  }
  for (const Loop& loop : program.loops)
    loops.push_back({{"first", loop.first_step}, {"steps", loop.num_steps}, {"trips", loop.trips}});
  return {{"name", std::string(program.name)},
          {"arena", program.arena_bytes},
          {"bound", program.arena_lower_bound},
          {"steps", steps},
          {"partitions", partitions},
          {"loops", loops},
          {"end", Rounded(timeline.end)},
          {"timed", EstimatesAreTimes(plan)},
          {"flights", FlightsJson(plan, program, timeline)}};
}

// `first` > `last`: never in an arena. `program` and `alias` -1: none.
Json BufferJson(const PlanData& plan, const Buffer& buffer) {
  const bool in_arena = LivesInArena(buffer.kind);
  return {{"name", std::string(buffer.name)},
          {"kind", Name(buffer.kind)},
          {"type", TypeText(buffer)},
          {"bytes", buffer.bytes},
          {"offset", buffer.offset},
          {"alignment", std::max<uint64_t>(1, buffer.alignment)},
          {"device", buffer.device},
          {"program", buffer.program == kNone ? int64_t{-1} : int64_t{buffer.program}},
          {"first", in_arena ? buffer.first_step : 1},
          {"last", in_arena ? buffer.last_step : 0},
          {"alias", buffer.aliases == kNone ? int64_t{-1} : int64_t{buffer.aliases}},
          {"source", SourceText(plan, buffer.source)}};
}

// The data for the script, escaped so that names cannot close the element.
std::string DataText(const PlanData& plan) {
  Json json = {{"devices", Json::array()}, {"programs", Json::array()}, {"buffers", Json::array()}};
  for (const DeviceBytes& bytes : plan.requirements.devices) json["devices"].push_back(bytes.arena);
  for (const Program& program : plan.programs) json["programs"].push_back(ProgramJson(plan, program));
  for (const Buffer& buffer : plan.buffers) json["buffers"].push_back(BufferJson(plan, buffer));
  const std::string text =
      JsonText(PrintableStrings(std::move(json)).dump(-1, ' ', false, Json::error_handler_t::replace));
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string PlanPage(const PlanFile& file, const std::string& path) {
  const Report report = MakePlanReport(file, path, {});
  std::string page = std::string(kPageBegins) + "<html lang=en><meta charset=utf-8>\n<title>" +
                     Escaped(report.title) + "</title>\n<style>";
  page.append(kPageTexts.style).append("</style>\n<h1>" + Escaped(report.title) + "</h1>\n");
  page.append(kPageTexts.body).append("<section id=tables>\n");
  for (const Section& section : report.sections) page += ToHtml(section);
  page += "</section>\n<script type=\"application/json\" id=\"plan\">" + DataText(file.data) + "</script>\n";
  return page.append("<script>").append(kPageTexts.script).append("</script>\n</html>\n");
}

}  // namespace rondo::tools
