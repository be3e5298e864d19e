#include <nlohmann/json.hpp>

#include "core/custom_op.h"
#include "formats/machine_code/architecture.h"
#include "formats/plan/assertion_note.h"
#include "formats/plan/copies.h"
#include "formats/plan/device_memory.h"
#include "formats/plan/plan_timeline.h"
#include "formats/plan/region_note.h"
#include "formats/plan/traffic.h"
#include "runtime/verify/expectation.h"
#include "tools/rondo/bucket_section.h"
#include "tools/rondo/estimates.h"
#include "tools/rondo/gathered_weights.h"
#include "tools/rondo/overlap_section.h"
#include "tools/rondo/plan_report.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

Json Dims(const Shape& shape) {
  Json dims = Json::array();
  for (int64_t d : shape) dims.push_back(d);
  return dims;
}

Json BufferJson(const PlanData& plan, uint32_t index) {
  const Buffer& buffer = plan.buffers[index];
  Json json = {{"buffer", index},
               {"name", std::string(buffer.name)},
               {"kind", Name(buffer.kind)},
               {"dtype", Name(buffer.dtype)},
               {"shape", Dims(buffer.shape)},
               {"bytes", buffer.bytes},
               {"device", buffer.device},
               {"offset", buffer.offset},
               {"alignment", buffer.alignment}};
  if (buffer.program != kNone) json["program"] = std::string(plan.programs[buffer.program].name);
  if (LivesInArena(buffer.kind)) {
    json["first_step"] = buffer.first_step;
    json["last_step"] = buffer.last_step;
  }
  if (buffer.aliases != kNone) json["aliases"] = buffer.aliases;
  if (buffer.kind == BufferKind::kConstant) json["synthetic"] = buffer.weight == WeightSource::kSynthetic;
  if (buffer.source != kNone) json["source"] = SourceText(plan, buffer.source);
  return json;
}

Json PortsJson(const PlanData& plan, const Program& program, Span<const Port> ports) {
  Json list = Json::array();
  for (const Port& port : ports) {
    const Buffer& buffer = plan.buffers[port.buffer];
    list.push_back({{"name", std::string(port.name)},
                    {"buffer", port.buffer},
                    {"dtype", Name(buffer.dtype)},
                    {"shape", Dims(buffer.shape)},
                    {"bytes", buffer.bytes},
                    {"state", port.is_state}});
    if (const std::string_view kept = WhyKept(plan, program, port.name); !kept.empty())
      list.back()["kept_because"] = std::string(kept);
  }
  return list;
}

// The conditions of each part of the step's kernel; null if the part always runs.
Json ConditionsJson(const PlanData& plan, const Step& step) {
  Json parts = Json::array();
  bool any = false;
  for (const Part& part : plan.kernels[step.kernel].parts) {
    Json conditions = Json::array();
    for (const uint16_t when : part.when) {
      const Operand& operand = part.operands[when & ~kUnless];
      const Binding& binding = step.bindings[operand.param];
      conditions.push_back({{"buffer", binding.buffer},
                            {"offset", binding.offset + static_cast<uint64_t>(operand.offset)},
                            {"holds", (when & kUnless) == 0}});
      any = true;
    }
    parts.push_back(conditions);
  }
  return any ? parts : Json();
}

Json StepJson(const PlanData& plan, const Step& step) {
  Json bindings = Json::array();
  for (const Binding& binding : step.bindings) {
    if (binding.buffer == kNone) {
      bindings.push_back(nullptr);
    } else {
      bindings.push_back({{"buffer", binding.buffer}, {"offset", binding.offset}});
      if (binding.stride != 0) bindings.back()["stride"] = binding.stride;
    }
  }
  const Traffic traffic = StepTraffic(plan, step);
  Json json = {{"kind", Name(step.kind)},         {"device", step.device},
               {"stream", step.stream},           {"bindings", bindings},
               {"bytes_read", traffic.read},      {"bytes_written", traffic.written},
               {"operations", traffic.operations}};
  if (step.kernel != kNone) {
    json["kernel"] = std::string(plan.kernels[step.kernel].name);
    if (const Json conditions = ConditionsJson(plan, step); !conditions.is_null()) json["when"] = conditions;
  }
  if (step.custom != kNone) json["custom_op"] = step.custom;
  if (step.sync_point != kNone) json["sync_point"] = step.sync_point;
  json["waits"] = Json::array();
  for (uint32_t event : step.waits) json["waits"].push_back(event);
  if (step.records != kNone) json["records"] = step.records;
  json["after"] = Json::array();
  for (uint32_t other : step.after) json["after"].push_back(other);
  json["source"] = SourceText(plan, step.source);
  return json;
}

// Microseconds if they are times of a known machine, otherwise shares of a run.
Json EstimatesJson(const PlanData& plan, const Program& program) {
  const bool times = EstimatesAreTimes(plan);
  const double run = std::max(TimelineOf(plan, program).end, 1e-9);
  Json estimates = Json::array();
  for (const Estimate& estimate : EstimatesOf(plan, program, nullptr)) {
    estimates.push_back(
        {{"what", estimate.what},
         {"launches", estimate.launches},
         {times ? "us" : "part_of_run", times ? estimate.microseconds : estimate.microseconds / run},
         {"from", estimate.from_profile ? "profile" : "table"},
         {"source", estimate.source}});
  }
  return estimates;
}

Json BucketsJson(const PlanData& plan, const BucketFamily& family) {
  Json json = {{"name", family.name()}, {"lengths", family.lengths()}, {"buckets", Json::array()}};
  for (const BucketLine& line : BucketLinesOf(plan, family)) {
    json["buckets"].push_back({{"program", line.program},
                               {"rooms", line.rooms},
                               {"arena_bytes", line.arena_bytes},
                               {"estimated_us", line.microseconds},
                               {"most_padding", line.most_padding},
                               {"mean_padding", line.mean_padding}});
  }
  return json;
}

Json ProgramJson(const PlanData& plan, uint32_t index) {
  const Program& program = plan.programs[index];
  Json partitions = Json::array(), steps = Json::array(), points = Json::array(), loops = Json::array();
  Json copies = Json::array();
  for (const CopyingStep& copy : CopyingSteps(plan, index)) {
    copies.push_back({{"step", copy.step},
                      {"bytes", copy.bytes},
                      {"why", std::string(WhyCopied(plan, program, copy.step))}});
  }
  Json regions = Json::array();
  for (const RegionNote& note : RegionsOf(plan, program)) {
    regions.push_back({{"region", note.region},
                       {"place", note.place},
                       {"device", program.steps[note.first_step].device},
                       {"first_step", note.first_step},
                       {"last_step", note.last_step}});
  }
  Json assertions = Json::array();
  for (const AssertionNote& note : AssertionsOf(plan, program))
    assertions.push_back({{"step", note.step}, {"finite", note.value}, {"node", note.node}});
  for (const Partition& partition : program.partitions) {
    partitions.push_back({{"device", partition.device},
                          {"first_step", partition.first_step},
                          {"num_steps", partition.num_steps},
                          {"reason", Name(partition.reason)},
                          {"detail", std::string(partition.detail)}});
  }
  for (const Step& step : program.steps) steps.push_back(StepJson(plan, step));
  for (const Loop& loop : program.loops) {
    loops.push_back({{"first_step", loop.first_step}, {"num_steps", loop.num_steps}, {"trips", loop.trips}});
  }
  for (const SyncPoint& point : program.sync_points) {
    Json devices = Json::array();
    for (uint32_t device : point.participants) devices.push_back(device);
    points.push_back({{"op", static_cast<int>(point.op)},
                      {"dtype", Name(point.dtype)},
                      {"bytes", point.bytes},
                      {"communicator", point.communicator},
                      {"participants", devices},
                      {"source", SourceText(plan, point.source)}});
  }
  Json overlaps = Json::array();
  for (const OverlapNote& note : OverlapsOf(plan, program)) {
    overlaps.push_back({{"sync_point", note.sync_point},
                        {"devices", note.devices},
                        {"us", note.time},
                        {"late_us", note.late},
                        {"beside_us", {note.beside_before, note.beside_after}},
                        {"exposed_us", {note.exposed_before, note.exposed_after}},
                        {"raised", note.raised},
                        {"sunk", note.sunk},
                        {"moved", note.moved},
                        {"chunk", note.chunk},
                        {"chunks", note.chunks},
                        {"stopped_by", note.limit}});
  }
  Json beside = Json::array();
  for (const BesideCollective& collective : StepsBeside(plan, program)) {
    Json steps = Json::array();
    for (const SharedStep& step : collective.steps)
      steps.push_back({{"step", step.step}, {"us", step.microseconds}});
    beside.push_back(
        {{"sync_point", collective.sync_point}, {"device", collective.device}, {"steps", steps}});
  }
  Json gathers = Json::array();
  for (const DeviceGathers& device : GathersOf(plan, program)) {
    gathers.push_back({{"device", device.device},
                       {"held_bytes", device.held},
                       {"gathers", device.gathers},
                       {"gathered_bytes", device.bytes},
                       {"at_once_bytes", device.at_once},
                       {"peak_bytes", device.peak()}});
  }
  const std::string variant_of(program.variant_of == kNone ? "" : plan.programs[program.variant_of].name);
  return {{"name", std::string(program.name)},
          {"variant_of", variant_of.empty() ? Json() : Json(variant_of)},
          {"inputs", PortsJson(plan, program, program.inputs)},
          {"outputs", PortsJson(plan, program, program.outputs)},
          {"arena_bytes", program.arena_bytes},
          {"arena_lower_bound", program.arena_lower_bound},
          {"arena_percent_of_bound", PercentOfBound(program.arena_bytes, program.arena_lower_bound)},
          {"streams", program.num_streams},
          {"events", program.num_events},
          {"partitions", partitions},
          {"regions", regions},
          {"assertions", assertions},
          {"sync_points", points},
          {"overlaps", overlaps},
          {"beside_collectives", beside},
          {"estimated_us", EstimatesAreTimes(plan) ? Json(TimelineOf(plan, program).end) : Json()},
          {"estimates", EstimatesJson(plan, program)},
          {"gathered_weights", gathers},
          {"loops", loops},
          {"copies", copies},
          {"steps", steps}};
}

Json MatrixJson(const MatmulMatrix& m) {
  if (m.param == kNoParam) return nullptr;
  return {{"parameter", m.param},
          {"offset", m.offset},
          {"dtype", Name(m.dtype)},
          {"strides", {m.batch_stride, m.outer_stride, m.inner_stride}}};
}

Json MatmulJson(const CodeModule& module, const LibraryMatmul& p) {
  constexpr const char* kEpilogues[] = {"none", "relu", "gelu_tanh"};
  Json json = {{"library", "cublasLt"},
               {"architecture", std::string(module.architecture)},
               {"batches", p.batches},
               {"m", p.m},
               {"n", p.n},
               {"k", p.k},
               {"tf32", p.tf32},
               {"epilogue", kEpilogues[static_cast<int>(p.epilogue)]},
               {"workspace_bytes", p.workspace_bytes},
               {"lhs", MatrixJson(p.lhs)},
               {"rhs", MatrixJson(p.rhs)},
               {"out", MatrixJson(p.out)},
               {"addend", MatrixJson(p.addend)},
               {"bias", MatrixJson(p.bias)}};
  if (p.algorithm != kNone) json["algorithm"] = p.algorithm + 1;
  return json;
}

Json KernelsJson(const PlanData& plan) {
  std::vector<uint32_t> counts;
  const std::vector<const Step*> uses = FirstUses(plan, &counts);
  Json list = Json::array();
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const Traffic traffic = uses[k] == nullptr ? Traffic() : StepTraffic(plan, *uses[k]);
    list.push_back({{"name", std::string(plan.kernels[k].name)},
                    {"skeleton", SkeletonText(plan.kernels[k])},
                    {"label", std::string(plan.kernels[k].label)},
                    {"launches", counts[k]},
                    {"bytes_read", traffic.read},
                    {"bytes_written", traffic.written},
                    {"operations", traffic.operations},
                    {"source", uses[k] == nullptr ? std::string() : SourceText(plan, uses[k]->source)}});
    if (plan.kernels[k].workspace_bytes > 0) list.back()["workspace_bytes"] = plan.kernels[k].workspace_bytes;
    for (const CodeModule& module : plan.modules) {
      if (module.binaries[k].matmul != nullptr)
        list.back()["matmuls"].push_back(MatmulJson(module, *module.binaries[k].matmul));
      for (const KernelAlternative& alternative : module.alternatives) {
        if (alternative.kernel == k) list.back()["alternatives"].push_back(std::string(alternative.choice));
      }
    }
  }
  return list;
}

Json AttributeJson(const CustomAttribute& a) {
  Json json = {{"name", std::string(a.name)}};
  Json values = Json::array();
  for (int64_t value : a.ints) values.push_back(value);
  for (float value : a.floats) values.push_back(value);
  for (std::string_view value : a.texts) values.push_back(std::string(value));
  const bool one = a.kind <= AttributeKind::kString;
  if (a.kind != AttributeKind::kTensor) {
    json["value"] = one ? values[0] : values;
    return json;
  }
  json["dtype"] = Name(a.dtype);
  json["shape"] = Dims(a.shape);
  json["bytes"] = a.data.size();
  return json;
}

Json CustomOpsJson(const PlanData& plan) {
  constexpr const char* kModes[] = {"read", "write", "change"};
  Json list = Json::array();
  for (uint32_t i = 0; i < plan.custom_ops.size(); ++i) {
    const CustomOp& op = plan.custom_ops[i];
    Json arguments = Json::array(), attributes = Json::array();
    for (size_t k = 0; k < op.arguments.size(); ++k) {
      const CustomArgument& a = op.arguments[k];
      Json json = nullptr;
      if (!a.absent)
        json = {{"dtype", Name(a.dtype)},
                {"shape", Dims(a.shape)},
                {"mode", op.IsWorkspace(k) ? "workspace" : kModes[static_cast<int>(a.mode)]}};
      if (a.alias != kNone) json["aliases_input"] = a.alias;
      arguments.push_back(std::move(json));
    }
    for (const CustomAttribute& a : op.attributes) attributes.push_back(AttributeJson(a));
    list.push_back({{"domain", std::string(op.domain)},
                    {"name", std::string(op.name)},
                    {"version", op.version},
                    {"library", std::string(op.library)},
                    {"graph_safe", op.graph_safe},
                    {"reason", std::string(op.reason)},
                    {"inputs", op.num_inputs},
                    {"arguments", arguments},
                    {"attributes", attributes},
                    {"source", std::string(SourceOfCall(plan, i))}});
  }
  return list;
}

}  // namespace

std::string PlanToJson(const PlanFile& file, const std::string& path) {
  const PlanData& plan = file.data;
  Json devices = Json::array();
  for (const DeviceBytes& bytes : plan.requirements.devices) {
    const DeviceMemory given = EstimateDeviceMemory(plan, static_cast<uint32_t>(devices.size()));
    devices.push_back({{"weights", bytes.weights},
                       {"arena", bytes.arena},
                       {"state", bytes.state},
                       {"workspace", bytes.workspace},
                       {"communicator", bytes.communicator},
                       {"code", given.code},
                       {"graphs", given.graphs},
                       {"first_session", given.first_session},
                       {"each_session", given.each_session},
                       {"library", given.library},
                       {"eight_sessions", BytesOfSessions(given, 8)}});
  }
  Json json = {{"plan", path},
               {"producer", std::string(plan.producer)},
               {"file_bytes", file.file_bytes},
               {"contents_hash", Printf("%016llx", static_cast<unsigned long long>(file.contents_hash))},
               {"requirements",
                {{"target", std::string(plan.requirements.target)},
                 {"least_driver_version", plan.requirements.least_driver_version},
                 {"scratch_per_thread", plan.requirements.scratch},
                 {"work", plan.requirements.work},
                 {"devices", devices}}},
               {"weights_bytes", plan.weights_bytes},
               {"weights_file", std::string(plan.weights_file)}};
  json["estimates"] = OriginsOf(CostModelOf(plan), plan).Text();
  if (const Result<std::vector<BucketFamily>> families = FamiliesOf(plan); families.ok()) {
    for (const BucketFamily& family : *families) json["buckets"].push_back(BucketsJson(plan, family));
  }
  json["programs"] = Json::array();
  for (uint32_t p = 0; p < plan.programs.size(); ++p) json["programs"].push_back(ProgramJson(plan, p));
  json["machine_code"] = Json::array();
  for (const CodeModule& module : plan.modules) {
    json["machine_code"].push_back({{"architecture", std::string(module.architecture)},
                                    {"compiler", std::string(module.compiler)},
                                    {"codes", module.codes.size()},
                                    {"runs", RunsOnText(module)}});
  }
  json["kernels"] = KernelsJson(plan);
  json["custom_ops"] = CustomOpsJson(plan);
  json["buffers"] = Json::array();
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) json["buffers"].push_back(BufferJson(plan, b));
  return JsonText(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace rondo::tools
