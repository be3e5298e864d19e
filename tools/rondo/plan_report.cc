#include "tools/rondo/plan_report.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/custom_op.h"
#include "formats/machine_code/architecture.h"
#include "formats/plan/assertion_note.h"
#include "formats/plan/copies.h"
#include "formats/plan/device_memory.h"
#include "formats/plan/part_name.h"
#include "formats/plan/plan_timeline.h"
#include "formats/plan/region_note.h"
#include "formats/plan/traffic.h"
#include "runtime/verify/expectation.h"
#include "tools/rondo/bucket_section.h"
#include "tools/rondo/estimates.h"
#include "tools/rondo/gathered_weights.h"
#include "tools/rondo/overlap_section.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {
namespace {

std::string Number(uint64_t value) { return std::to_string(value); }

// A GPU's memory for the plan, part by part.
std::string GivenText(size_t device, const DeviceMemory& given) {
  std::string parts = Printf("weights %s, a session %s, graphs %s, code %s", BytesText(given.weights).c_str(),
                             BytesText(given.session).c_str(), BytesText(given.graphs).c_str(),
                             BytesText(given.code).c_str());
  if (given.library != 0) parts += ", cuBLASLt " + BytesText(given.library);
  if (given.communicator != 0) parts += ", communicators " + BytesText(given.communicator);
  return Printf(
      "device %zu: a GPU gives about %s for the first session (%s), %s for each more, %s for eight, beside "
      "what "
      "CUDA itself takes in every process",
      device, BytesText(given.first_session).c_str(), parts.c_str(), BytesText(given.each_session).c_str(),
      BytesText(BytesOfSessions(given, 8)).c_str());
}

Section RequirementsOf(const PlanFile& file) {
  const PlanData& plan = file.data;
  Section section;
  section.title = "Requirements";
  std::string line = Printf("target %s, devices: %zu", std::string(plan.requirements.target).c_str(),
                            plan.requirements.devices.size());
  if (plan.requirements.least_driver_version != 0) {
    line += Printf(", least driver version %u", plan.requirements.least_driver_version);
  }
  section.lines.push_back(line);
  if (plan.requirements.work != 0) {
    section.lines.push_back(Printf(
        "a run takes at most %.3g tape instructions and accesses; on the host driver each thread has %s "
        "of scratch at most",
        static_cast<double>(plan.requirements.work), BytesText(plan.requirements.scratch).c_str()));
  }
  section.table.head = {"device", "weights", "arena", "state", "workspace", "communicator"};
  for (size_t d = 0; d < plan.requirements.devices.size(); ++d) {
    const DeviceBytes& bytes = plan.requirements.devices[d];
    section.table.rows.push_back({Number(d), BytesText(bytes.weights), BytesText(bytes.arena),
                                  BytesText(bytes.state), BytesText(bytes.workspace),
                                  BytesText(bytes.communicator)});
    const DeviceMemory given = EstimateDeviceMemory(plan, static_cast<uint32_t>(d));
    if (given.first_session == 0) continue;
    section.lines.push_back(GivenText(d, given));
  }
  return section;
}

// The owner of a port's memory, and with whom it is shared.
std::string MemoryText(const PlanData& plan, const Program& program, const Port& port) {
  const Buffer& buffer = plan.buffers[port.buffer];
  const std::string name(buffer.name);
  if (port.is_state) return "state \"" + name + "\", kept between runs";
  if (buffer.kind == BufferKind::kUpdatedInput) {
    for (const Port& output : program.outputs) {
      if (&output == &port) return "that of donated input \"" + name + "\", updated in place";
      if (output.buffer == port.buffer)
        return "donated: output \"" + std::string(output.name) + "\" is it, updated in place";
    }
    return "donated: it is written";
  }
  if (buffer.aliases != kNone && IsInput(plan.buffers[buffer.aliases].kind))
    return "that of donated input \"" + std::string(plan.buffers[buffer.aliases].name) + "\"";
  if (buffer.kind != BufferKind::kInput) return Name(buffer.kind);
  for (const Buffer& other : plan.buffers) {
    if (other.aliases == port.buffer)
      return "donated: " + std::string(Name(other.kind)) + " \"" + std::string(other.name) +
             "\" takes it over";
  }
  return WhyKept(plan, program, port.name).empty() ? Name(buffer.kind) : "donated, and kept as it is";
}

Section Ports(const PlanData& plan, const Program& program) {
  Section section;
  section.title = Printf("Program %s: inputs and outputs", std::string(program.name).c_str());
  section.table.head = {"", "name", "type", "bytes", "memory"};
  const auto add = [&](const char* direction, Span<const Port> ports) {
    for (const Port& port : ports) {
      const Buffer& buffer = plan.buffers[port.buffer];
      section.table.rows.push_back({direction, std::string(port.name), TypeText(buffer), Number(buffer.bytes),
                                    MemoryText(plan, program, port)});
    }
  };
  for (const Port& port : program.inputs) {
    const std::string_view kept = WhyKept(plan, program, port.name);
    if (!kept.empty())
      section.lines.push_back("nothing lies in donated input \"" + std::string(port.name) +
                              "\": " + std::string(kept));
  }
  add("in", program.inputs);
  add("out", program.outputs);
  return section;
}

Section Partitions(const PlanData& plan, const Program& program) {
  Section section;
  section.title =
      Printf("Program %s: %zu steps in %zu partition%s", std::string(program.name).c_str(),
             program.steps.size(), program.partitions.size(), program.partitions.size() == 1 ? "" : "s");
  section.lines.push_back("arena " + ArenaText(program.arena_bytes, program.arena_lower_bound));
  Traffic sum;
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    const Traffic traffic = RunTraffic(plan, program, s);
    sum.read += traffic.read;
    sum.written += traffic.written;
    sum.operations += traffic.operations;
  }
  section.lines.push_back(Printf("a run reads at most %s and writes %s; %.3g operations in matmuls",
                                 BytesText(sum.read).c_str(), BytesText(sum.written).c_str(),
                                 static_cast<double>(sum.operations)));
  for (const Loop& loop : program.loops) {
    section.lines.push_back(
        Printf("steps %u to %u are taken %u times", loop.first_step, loop.end() - 1, loop.trips));
  }
  section.table.head = {"partition", "device", "steps", "ends because of", ""};
  for (size_t i = 0; i < program.partitions.size(); ++i) {
    const Partition& partition = program.partitions[i];
    section.table.rows.push_back({Number(i), Number(partition.device),
                                  Printf("%u to %u", partition.first_step,
                                         partition.first_step + std::max(partition.num_steps, 1u) - 1),
                                  Name(partition.reason), std::string(partition.detail)});
  }
  return section;
}

// "all 4", "0 to 2" for a send, "0, 1".
std::string DevicesText(const PlanData& plan, const SyncPoint& point) {
  const size_t count = point.participants.size();
  if (point.op == CollectiveOp::kSend && count == 2)
    return Printf("%u to %u", point.participants[0], point.participants[1]);
  if (count == plan.requirements.devices.size()) return Printf("all %zu", count);
  std::string text;
  for (uint32_t device : point.participants) text += (text.empty() ? "" : ", ") + std::to_string(device);
  return text;
}

Section SyncPoints(const PlanData& plan, const Program& program) {
  Section section;
  section.title = Printf("Program %s: sync points", std::string(program.name).c_str());
  section.table.head = {"number", "op", "dtype", "bytes", "group", "devices", "reason"};
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    const SyncPoint& point = program.sync_points[i];
    section.table.rows.push_back({Number(i), Name(point.op), Name(point.dtype), Number(point.bytes),
                                  Number(point.communicator), DevicesText(plan, point),
                                  SourceText(plan, point.source)});
  }
  return section;
}

// Steps that only move bytes; empty if the plan has none.
Section Copies(const PlanData& plan, uint32_t index) {
  const Program& program = plan.programs[index];
  Section section;
  uint64_t sum = 0;
  section.table.head = {"step", "bytes", "why", "source nodes"};
  for (const CopyingStep& copy : CopyingSteps(plan, index)) {
    sum += copy.bytes;
    section.table.rows.push_back({Number(copy.step), Number(copy.bytes),
                                  std::string(WhyCopied(plan, program, copy.step)),
                                  SourceText(plan, program.steps[copy.step].source)});
  }
  section.title =
      Printf("Program %s: copies, %s a run", std::string(program.name).c_str(), BytesText(sum).c_str());
  return section;
}

Section Regions(const PlanData& plan, const Program& program) {
  Section section;
  section.title = Printf("Program %s: regions", std::string(program.name).c_str());
  section.table.head = {"region", "place", "device", "steps", "kernels", "first used here"};
  std::map<std::string, std::set<uint32_t>> used;  // by region
  for (const RegionNote& note : RegionsOf(plan, program)) {
    std::set<uint32_t>& before = used[note.region];
    std::set<uint32_t> kernels, own;
    for (uint32_t s = note.first_step; s <= note.last_step; ++s) {
      const uint32_t kernel = program.steps[s].kernel;
      if (kernel == kNone) continue;
      kernels.insert(kernel);
      if (before.count(kernel) == 0) own.insert(kernel);
    }
    before.insert(own.begin(), own.end());
    section.table.rows.push_back(
        {note.region, Number(note.place), Number(program.steps[note.first_step].device),
         Printf("%u to %u", note.first_step, note.last_step), Number(kernels.size()), Number(own.size())});
  }
  return section;
}

Section Assertions(const PlanData& plan, const Program& program) {
  Section section;
  section.title = Printf("Program %s: assertions", std::string(program.name).c_str());
  section.table.head = {"step", "device", "finite", "source node"};
  for (const AssertionNote& note : AssertionsOf(plan, program))
    section.table.rows.push_back(
        {Number(note.step), Number(program.steps[note.step].device), note.value, note.node});
  return section;
}

Section Kernels(const PlanData& plan) {
  Section section;
  section.title = Printf("Kernels: %zu", plan.kernels.size());
  section.lines.push_back(
      "bytes are distinct ones, of the first launch; reads through indices are upper bounds");
  section.table.head = {"kernel", "skeleton", "label", "launches", "read", "written", "source nodes"};
  std::vector<uint32_t> counts;
  const std::vector<const Step*> uses = FirstUses(plan, &counts);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    const Traffic traffic = uses[k] == nullptr ? Traffic() : StepTraffic(plan, *uses[k]);
    section.table.rows.push_back({std::string(kernel.name), SkeletonText(kernel), std::string(kernel.label),
                                  Number(counts[k]), Number(traffic.read), Number(traffic.written),
                                  uses[k] == nullptr ? "" : SourceText(plan, uses[k]->source)});
  }
  return section;
}

Section Steps(const PlanData& plan, const Program& program) {
  Section section;
  section.title = Printf("Program %s: steps", std::string(program.name).c_str());
  section.table.head = {"step", "device", "stream", "what", "buffers", "read", "written", "source nodes"};
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const std::string what = StepText(plan, step) + ConditionsText(plan, step);
    std::string buffers;
    for (const Binding& binding : step.bindings) {
      if (binding.buffer == kNone) continue;
      const Buffer& buffer = plan.buffers[binding.buffer];
      if (!buffers.empty()) buffers += ", ";
      buffers += Printf("#%u", binding.buffer);
      if (!buffer.name.empty()) buffers.append(" ").append(buffer.name);
      if (binding.offset != 0) buffers += Printf("+%llu", static_cast<unsigned long long>(binding.offset));
      if (binding.stride != 0) buffers += Printf("%+lld a round", static_cast<long long>(binding.stride));
    }
    const Traffic traffic = StepTraffic(plan, step);
    section.table.rows.push_back({Number(i), Number(step.device), Number(step.stream), what, buffers,
                                  Number(traffic.read), Number(traffic.written),
                                  SourceText(plan, step.source)});
  }
  return section;
}

std::string AttributeText(const CustomAttribute& a) {
  std::string text(a.name);
  text += "=";
  const char* separator = "";
  for (int64_t value : a.ints) text += separator + std::to_string(value), separator = ",";
  for (float value : a.floats) text += separator + Printf("%g", static_cast<double>(value)), separator = ",";
  for (std::string_view value : a.texts)
    text += separator + ("\"" + std::string(value) + "\""), separator = ",";
  char shape[256];
  if (a.kind == AttributeKind::kTensor)
    text += Name(a.dtype) + std::string(Format(a.shape, shape, sizeof(shape)));
  return text;
}

std::string ArgumentText(const CustomOp& op, size_t i) {
  const CustomArgument& a = op.arguments[i];
  if (a.absent) return "absent";
  if (op.IsWorkspace(i))
    return Printf("workspace of %llu bytes", static_cast<unsigned long long>(BytesOf(a)));
  char shape[256];
  std::string text = Name(a.dtype) + std::string(Format(a.shape, shape, sizeof(shape)));
  if (a.mode == Mode::kReadWrite) text += " changed";
  if (a.alias != kNone)
    text += Printf(a.mode == Mode::kRead ? " is input %u" : " new version of input %u", a.alias);
  return text;
}

// One line per module, with its GPUs.
Section MachineCode(const PlanData& plan) {
  Section section;
  section.title = "Machine code";
  for (const CodeModule& module : plan.modules) {
    uint64_t bytes = 0;
    for (const Span<const uint8_t>& code : module.codes) bytes += code.size();
    section.lines.push_back(Printable(std::string(module.architecture)) + ": " +
                            Printf("%zu codes, %s; ", module.codes.size(), BytesText(bytes).c_str()) +
                            RunsOnText(module));
  }
  if (plan.modules.size() > 1) {
    section.lines.push_back(
        "kernels are fused for the first GPU of the target; a GPU runs the machine code made for most of it");
  }
  return section;
}

// The kernels of all modules that a library computes.
Section LibraryMatmuls(const PlanData& plan) {
  Section section;
  section.title = "Matmuls by a library";
  section.table.head = {"kernel", "architecture", "matmul"};
  for (const CodeModule& module : plan.modules) {
    for (size_t k = 0; k < module.binaries.size(); ++k) {
      if (module.binaries[k].matmul == nullptr) continue;
      section.table.rows.push_back({std::string(plan.kernels[k].name), std::string(module.architecture),
                                    MatmulText(*module.binaries[k].matmul)});
    }
  }
  return section;
}

// Alternatives of kernels for `rondo tune`, one line per kernel.
Section Alternatives(const PlanData& plan) {
  Section section;
  section.title = "Alternatives that rondo tune can measure";
  section.table.head = {"kernel", "architecture", "candidates"};
  for (const CodeModule& module : plan.modules) {
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      std::string choices;
      for (const KernelAlternative& alternative : module.alternatives) {
        if (alternative.kernel != k) continue;
        choices += (choices.empty() ? "" : ", ") + Printable(std::string(alternative.choice));
      }
      if (choices.empty()) continue;
      section.table.rows.push_back(
          {std::string(plan.kernels[k].name), std::string(module.architecture), choices});
    }
  }
  return section;
}

Section CustomOps(const PlanData& plan) {
  Section section;
  section.title = Printf("Custom ops: %zu", plan.custom_ops.size());
  section.table.head = {"op",      "version",    "library",    "inputs",
                        "outputs", "attributes", "in a graph", "source nodes"};
  for (uint32_t i = 0; i < plan.custom_ops.size(); ++i) {
    const CustomOp& op = plan.custom_ops[i];
    std::string inputs, outputs, attributes;
    for (size_t k = 0; k < op.arguments.size(); ++k) {
      std::string& list = k < op.num_inputs ? inputs : outputs;
      list += (list.empty() ? "" : "; ") + ArgumentText(op, k);
    }
    for (const CustomAttribute& a : op.attributes)
      attributes += (attributes.empty() ? "" : " ") + AttributeText(a);
    section.table.rows.push_back(
        {CustomOpText(op), Number(op.version), std::string(op.library), inputs, outputs, attributes,
         op.graph_safe ? "yes" : "no: " + std::string(op.reason), std::string(SourceOfCall(plan, i))});
  }
  return section;
}

Section Buffers(const PlanData& plan) {
  Section section;
  section.title = Printf("Buffers: %zu", plan.buffers.size());
  section.table.head = {"buffer", "kind",  "program",  "device", "type",        "bytes",
                        "offset", "lives", "in place", "name",   "source nodes"};
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    std::string lives;
    if (LivesInArena(buffer.kind)) {
      lives = buffer.first_step > buffer.last_step ? "never"
                                                   : Printf("%u to %u", buffer.first_step, buffer.last_step);
    }
    section.table.rows.push_back(
        {Number(b), Name(buffer.kind),
         buffer.program == kNone ? "" : std::string(plan.programs[buffer.program].name),
         Number(buffer.device), TypeText(buffer), Number(buffer.bytes), Number(buffer.offset), lives,
         buffer.aliases == kNone ? "" : Printf("of #%u", buffer.aliases), std::string(buffer.name),
         SourceText(plan, buffer.source)});
  }
  return section;
}

// What a session chooses among; empty if the plan has no variants.
Section Variants(const PlanData& plan) {
  Section section;
  section.title = "Variants: a session takes the first of each program that fits into memory";
  section.table.head = {"program", "variant", "arena bytes",
                        EstimatesAreTimes(plan) ? "µs by estimate" : "cost by estimate"};
  for (uint32_t p = 0; p < CountPrograms(plan) && CountPrograms(plan) < plan.programs.size(); ++p) {
    for (uint32_t v = p; v < plan.programs.size(); ++v) {
      const Program& variant = plan.programs[v];
      if (v != p && variant.variant_of != p) continue;
      section.table.rows.push_back({std::string(plan.programs[p].name), std::string(variant.name),
                                    Number(variant.arena_bytes),
                                    Printf("%.1f", TimelineOf(plan, variant).end)});
    }
  }
  return section;
}

}  // namespace

Report MakePlanReport(const PlanFile& file, const std::string& path, const InspectOptions& options) {
  const PlanData& plan = file.data;
  Report report;
  report.title =
      Printf("%s: %s, made by %s, contents %016llx", path.c_str(), BytesText(file.file_bytes).c_str(),
             std::string(plan.producer).c_str(), static_cast<unsigned long long>(file.contents_hash));
  report.sections.push_back(RequirementsOf(file));
  if (!plan.modules.empty()) report.sections.push_back(MachineCode(plan));
  if (const Result<std::vector<BucketFamily>> families = FamiliesOf(plan); families.ok()) {
    for (const BucketFamily& family : *families) report.sections.push_back(BucketSection(plan, family));
  }
  if (Section variants = Variants(plan); !variants.table.rows.empty())
    report.sections.push_back(std::move(variants));
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    const Program& program = plan.programs[p];
    report.sections.push_back(Ports(plan, program));
    report.sections.push_back(Partitions(plan, program));
    if (Section copies = Copies(plan, p); !copies.table.rows.empty())
      report.sections.push_back(std::move(copies));
    if (Section regions = Regions(plan, program); !regions.table.rows.empty())
      report.sections.push_back(std::move(regions));
    if (Section assertions = Assertions(plan, program); !assertions.table.rows.empty())
      report.sections.push_back(std::move(assertions));
    if (!program.sync_points.empty()) report.sections.push_back(SyncPoints(plan, program));
    if (Section gathers = GatherSection(plan, program); !gathers.table.rows.empty())
      report.sections.push_back(std::move(gathers));
    if (const std::vector<OverlapNote> notes = OverlapsOf(plan, program); !notes.empty()) {
      report.sections.push_back(OverlapSection(std::string(program.name), notes));
      report.sections.push_back(BesideSection(plan, program));
    }
    report.sections.push_back(EstimateSection(plan, program, options.measured.get()));
  }
  report.sections.push_back(Kernels(plan));
  if (Section matmuls = LibraryMatmuls(plan); !matmuls.table.rows.empty())
    report.sections.push_back(std::move(matmuls));
  if (Section alternatives = Alternatives(plan); !alternatives.table.rows.empty())
    report.sections.push_back(std::move(alternatives));
  if (!plan.custom_ops.empty()) report.sections.push_back(CustomOps(plan));
  for (const Program& program : plan.programs) {
    if (options.steps) report.sections.push_back(Steps(plan, program));
  }
  if (options.buffers) report.sections.push_back(Buffers(plan));
  return report;
}

}  // namespace rondo::tools
