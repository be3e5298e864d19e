#include "tests/fuzz/plan_seeds.h"

#include <cstring>
#include <string_view>

#include "compiler/import/import.h"
#include "compiler/pipeline.h"
#include "formats/onnx/reader.h"
#include "formats/plan/writer.h"
#include "tests/collectives/mesh_plan.h"
#include "tests/plan/call_plan.h"
#include "tests/plan/loop_plan.h"
#include "tests/plan/matmul_plan.h"
#include "tests/plan/plan_maker.h"
#include "tests/plan/sample_plan.h"

namespace rondo::fuzz {
namespace {

// As many nodes as a tiny model can need. A damaged model may ask for a million rounds of a loop.
constexpr int64_t kMaxNodes = 4096;
// The time of some passes grows with the square of the graph, so long unrolled graphs (a recurrent operator
// over hundreds of steps) are not compiled here.
constexpr int64_t kMaxGraph = 4096;

Status RunPasses(Compilation* compilation) {
  for (const PipelineEntry& entry : Pipeline()) {
    if (std::string_view(entry.name) == "import") continue;
    std::string text;
    ProgramInWork* program = entry.once() ? nullptr : &compilation->programs[0];
    RONDO_RETURN_IF_ERROR(RunPass(entry, compilation, program, &text).At("%s", entry.name));
  }
  return Status::Ok();
}

Bytes SampleBytes(const Sample& sample) {
  Bytes bytes;
  const Status status = WritePlanBytes(
      sample.data,
      [&](uint32_t buffer, uint64_t first, uint64_t count, uint8_t* out) {
        return FillSample(sample.data, buffer, first, count, out);
      },
      &bytes);
  if (!status.ok()) Broken("a plan made by hand: %s", status.message());
  return bytes;
}

// The bytes of a plan without weights.
Bytes PlainBytes(PlanData plan) {
  plan.weights_bytes = 0;
  Bytes bytes;
  if (!WritePlanBytes(plan, {}, &bytes).ok()) Broken("a plan made by hand cannot be written");
  return bytes;
}

// The sample without the features that no driver here has.
Bytes RunnableSample() {
  Sample sample = MakeSample();
  sample.data.requirements.least_driver_version = 0;
  return SampleBytes(sample);
}

// Two devices, each with two communicators, two streams and two partitions.
Bytes MeshBytes() {
  MeshPlan mesh(2);
  MakeLayers(&mesh, 2, 3, /*split=*/true);
  Bytes bytes;
  if (!WritePlanBytes(mesh.data, {}, &bytes).ok()) Broken("a plan of two devices cannot be written");
  return bytes;
}

// A row reduction with the largest possible number of kept rows, over a single element of memory.
Bytes KeptRowsBytes(int64_t rows, int64_t length) {
  Maker m;
  Part p;
  p.skeleton = Skeleton::kReduction;
  p.outer = 1;
  p.reduced = 2;
  p.kept = kMaxSlots;
  p.scalars = 1;
  p.sequential = true;
  p.loops = List<int64_t>(m.arena, {rows, length, 2});
  p.operands = List<Operand>(
      m.arena, {Access(m.arena, 0, Mode::kRead, {0, 0, 0}), Access(m.arena, 1, Mode::kWrite, {1, 0, 0})});
  std::vector<TapeInst> keep = {Load(0)};
  for (uint16_t slot = 0; slot < kMaxSlots; ++slot) keep.push_back(Slot(TapeOp::kKeep, slot, 0));
  keep.push_back(Slot(TapeOp::kReduceSum, 0, 0));
  Stage each, row;
  each.tape = ListOf(m.arena, keep);
  row.per_row = true;
  row.tape = List<TapeInst>(m.arena, {Slot(TapeOp::kScalar, 0), Store(0, 1)});
  p.stages = List<Stage>(m.arena, {each, row});
  m.Copy(m.kIn, m.kOut);
  m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
  m.arena_bytes = 1 << 12;
  return PlainBytes(m.Make());
}

// A loop that writes the same elements `rounds` times.
Bytes RoundsBytes(int64_t rounds) {
  Maker m;
  Part p = Elementwise(m.arena);
  p.sequential = true;
  p.outer = 2;
  p.loops = List<int64_t>(m.arena, {rounds, p.loops[0]});
  p.operands = List<Operand>(
      m.arena, {Access(m.arena, 0, Mode::kRead, {0, 1}), Access(m.arena, 1, Mode::kWrite, {0, 1})});
  m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
  m.arena_bytes = 1 << 12;
  return PlainBytes(m.Make());
}

// A concatenation of three values, read through windows that extend beyond it.
Bytes WindowsBytes() {
  Maker m;
  const uint32_t a = m.AddBuffer("a", BufferKind::kTemporary, 96, 1024);
  for (int64_t piece = 0; piece < 3; ++piece) m.Copy(m.kIn, a, 32, 0, 32 * piece);
  Guard guard;
  guard.stride = 1;
  guard.offset = -16;
  guard.extent = 96;
  guard.strides = List<int64_t>(m.arena, {2});
  Part p = Elementwise(m.arena, 0);
  Operand from = Access(m.arena, 0, Mode::kRead, {0});
  from.guards = List<Guard>(m.arena, {guard});
  p.operands = List<Operand>(m.arena, {from, p.operands[1]});
  m.Launch(m.AddKernel(p, 2), {{a, 0}, {m.kOut, 0}});
  m.arena_bytes = 1 << 12;
  return PlainBytes(m.Make());
}

}  // namespace

Result<Bytes> CompileBytes(Span<const uint8_t> model) {
  RONDO_ASSIGN_OR_RETURN(auto parsed, onnx::Model::Parse(model, "no/such/folder"));
  CompileOptions options;
  Compilation compilation(options);
  compilation.programs.emplace_back();
  ProgramInWork& program = compilation.programs[0];
  program.source.program = "main";
  ImportOptions import;
  import.symbols["N"] = 2;
  import.max_nodes = kMaxNodes;
  RONDO_ASSIGN_OR_RETURN(program.graph, ImportModel(parsed, import, nullptr));
  program.graph.name = "main";
  if (program.graph.size() > kMaxGraph) {
    return Status::Error(Code::kAborted, "%lld nodes are more than %lld",
                         static_cast<long long>(program.graph.size()), static_cast<long long>(kMaxGraph));
  }
  RONDO_RETURN_IF_ERROR(RunPasses(&compilation));
  const EmittedPlan& emitted = compilation.emitted;
  const auto fill = [&](uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out) {
    std::memcpy(out, emitted.constant_bytes[buffer].data() + first, bytes);
    return Status::Ok();
  };
  Bytes out;
  RONDO_RETURN_IF_ERROR(WritePlanBytes(emitted.plan, fill, &out));
  return out;
}

Bytes EndlessPlanBytes() { return RoundsBytes(int64_t{1} << 46); }

std::vector<Seed> MakePlanSeeds() {
  std::vector<Seed> seeds;
  for (const Seed& model : MakeModelSeeds()) {
    Result<Bytes> plan = CompileBytes({model.bytes.data(), model.bytes.size()});
    if (!plan.ok()) Broken("seed %s: %s", model.name.c_str(), plan.status().message());
    seeds.push_back({model.name.substr(0, model.name.rfind('.')) + ".plan", plan.Take()});
  }
  seeds.push_back({"sample.plan", RunnableSample()});
  seeds.push_back({"mesh.plan", MeshBytes()});
  seeds.push_back({"calls.plan", SampleBytes(MakeCallSample())});
  seeds.push_back({"loop.plan", SampleBytes(MakeLoopSample())});
  seeds.push_back({"product.plan", SampleBytes(MakeProductSample())});
  seeds.push_back({"alternatives.plan", SampleBytes(MakeSampleWithAlternatives())});
  seeds.push_back({"maps.plan", SampleBytes(MakeMapSample())});
  seeds.push_back({"kept_rows.plan", KeptRowsBytes(8, 16)});
  seeds.push_back({"windows.plan", WindowsBytes()});
  seeds.push_back({"rounds.plan", RoundsBytes(4)});
  return seeds;
}

}  // namespace rondo::fuzz
