#include "formats/plan/encode.h"

#include <string_view>
#include <vector>

#include "formats/plan/decode.h"
#include "formats/plan/format.h"
#include "formats/plan/plan_generated.h"

namespace rondo {
namespace {

namespace fb = ::flatbuffers;

// Builds the flatbuffer from the leaves up. Empty vectors and texts are left out.
class Encoder {
 public:
  void Finish(const PlanData& plan) { fbs::FinishPlanBuffer(builder_, One(plan)); }
  std::vector<uint8_t> bytes() const {
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

 private:
  template <typename T>
  using Offset = fb::Offset<T>;

  fb::Offset<fb::String> Text(std::string_view text) {
    return text.empty() ? 0 : builder_.CreateString(text.data(), text.size());
  }
  Offset<fb::Vector<fb::Offset<fb::String>>> Texts(Span<const std::string_view> in) {
    if (in.empty()) return 0;
    std::vector<fb::Offset<fb::String>> out;
    for (std::string_view text : in) out.push_back(builder_.CreateString(text.data(), text.size()));
    return builder_.CreateVector(out);
  }
  template <typename F, typename T>
  Offset<fb::Vector<F>> Numbers(Span<const T> in) {
    static_assert(sizeof(F) == sizeof(T));
    return in.empty() ? 0 : builder_.CreateVector(reinterpret_cast<const F*>(in.data()), in.size());
  }
  template <typename F, typename T>
  Offset<fb::Vector<const F*>> Structs(Span<const T> in) {
    if (in.empty()) return 0;
    std::vector<F> out;
    out.reserve(in.size());
    for (const T& one : in) out.push_back(Plain(one));
    return builder_.CreateVectorOfStructs(out);
  }
  template <typename F, typename T>
  Offset<fb::Vector<Offset<F>>> Tables(Span<const T> in) {
    if (in.empty()) return 0;
    std::vector<Offset<F>> out;
    out.reserve(in.size());
    for (const T& one : in) out.push_back(One(one));
    return builder_.CreateVector(out);
  }
  Offset<fb::Vector<const fbs::TapeInst*>> Instructions(Tape in) { return Structs<fbs::TapeInst>(in); }

  template <typename E>
  static uint8_t Byte(E value) {
    return static_cast<uint8_t>(value);
  }

  static fbs::TapeInst Plain(const TapeInst& in) {
    return {Byte(in.op), Byte(in.type), in.arg, in.a, in.b, in.c, static_cast<uint64_t>(in.imm.i)};
  }
  static fbs::Indirect Plain(const Indirect& in) {
    return {in.operand, in.wrap, in.fault, in.stride, in.extent};
  }
  static fbs::Binding Plain(const Binding& in) { return {in.buffer, in.offset}; }
  static fbs::Loop Plain(const Loop& in) { return {in.first_step, in.num_steps, in.trips}; }
  static fbs::DeviceBytes Plain(const DeviceBytes& in) {
    return {in.weights, in.arena, in.state, in.workspace, in.communicator};
  }

  static fbs::MatmulMatrix Plain(const MatmulMatrix& in) {
    return {in.param, in.offset, Byte(in.dtype), in.outer_stride, in.inner_stride, in.batch_stride};
  }
  static fbs::LibraryMatmul Plain(const LibraryMatmul& in) {
    return {
        Plain(in.lhs), Plain(in.rhs), Plain(in.out), Plain(in.addend),  Plain(in.bias),     in.batches,  in.m,
        in.n,          in.k,          in.tf32,       Byte(in.epilogue), in.workspace_bytes, in.algorithm};
  }
  static fbs::TensorMap Plain(const TensorMap& in) {
    return {in.param,
            in.offset,
            Byte(in.dtype),
            in.rank,
            fb::span<const uint64_t, kMaxTensorMapRank>(in.extents),
            fb::span<const uint64_t, kMaxTensorMapRank - 1>(in.strides),
            fb::span<const uint32_t, kMaxTensorMapRank>(in.box),
            in.swizzle};
  }

  Offset<fbs::Guard> One(const Guard& in) {
    return fbs::CreateGuard(builder_, in.stride, in.offset, in.extent, Numbers<int64_t>(in.strides));
  }
  Offset<fbs::Operand> One(const Operand& in) {
    auto strides = Numbers<int64_t>(in.strides);
    auto indirects = Structs<fbs::Indirect>(in.indirects);
    auto guards = Tables<fbs::Guard>(in.guards);
    return fbs::CreateOperand(builder_, in.param, Byte(in.dtype), Byte(in.mode), in.absent, in.offset,
                              strides, indirects, guards);
  }
  Offset<fbs::Stage> One(const Stage& in) {
    return fbs::CreateStage(builder_, in.per_row, Instructions(in.tape));
  }
  Offset<fbs::Part> One(const Part& in) {
    auto loops = Numbers<int64_t>(in.loops);
    auto operands = Tables<fbs::Operand>(in.operands);
    auto rhs = Numbers<uint16_t>(in.rhs);
    auto prologue = Instructions(in.prologue);
    auto body = Instructions(in.body);
    auto stages = Tables<fbs::Stage>(in.stages);
    auto epilogue = Instructions(in.epilogue);
    Offset<fb::Vector<uint16_t>> scales, zeros;
    if (!in.scales.empty()) scales = Numbers<uint16_t>(in.scales);
    if (!in.zeros.empty()) zeros = Numbers<uint16_t>(in.zeros);
    return fbs::CreatePart(builder_, Byte(in.skeleton), in.sequential, Byte(in.combine), in.nan_to_zero,
                           in.outer, in.m, in.n, in.reduced, in.features, in.lhs, in.keys, in.values, in.mask,
                           in.limit, in.scale, in.softcap, Byte(in.acc_type), loops, operands, rhs, prologue,
                           body, stages, in.scalars, in.kept, epilogue, in.tf32, Byte(in.packed.type),
                           Byte(in.packed.dtype), in.packed.block, in.packed.zero, scales, zeros);
  }
  Offset<fbs::Kernel> One(const Kernel& in) {
    auto name = Text(in.name);
    auto label = Text(in.label);
    auto parts = Tables<fbs::Part>(in.parts);
    return fbs::CreateKernel(builder_, name, label, in.num_params, parts, in.workspace_param,
                             in.workspace_bytes);
  }
  Offset<fbs::Buffer> One(const Buffer& in) {
    auto name = Text(in.name);
    auto shape = Numbers<int64_t>(Span<const int64_t>(in.shape.dims, static_cast<size_t>(in.shape.rank)));
    const bool runs = in.weight == WeightSource::kSynthetic && in.synthetic_run != 0;
    return fbs::CreateBuffer(builder_, name, Byte(in.kind), Byte(in.dtype), shape, in.bytes, in.device,
                             in.program, in.offset, in.alignment, in.first_step, in.last_step, in.aliases,
                             in.source, runs ? kSyntheticRuns : Byte(in.weight), in.file_offset,
                             in.synthetic_key, in.synthetic_scale, in.synthetic_run, in.synthetic_step);
  }
  Offset<fbs::Step> One(const Step& in) {
    auto bindings = Structs<fbs::Binding>(in.bindings);
    auto waits = Numbers<uint32_t>(in.waits);
    auto after = Numbers<uint32_t>(in.after);
    std::vector<int64_t> moves;  // up to the last binding that moves
    for (size_t b = 0; b < in.bindings.size(); ++b) {
      if (in.bindings[b].stride == 0) continue;
      moves.resize(b + 1);
      moves[b] = in.bindings[b].stride;
    }
    auto strides = Numbers<int64_t>(Span<const int64_t>(moves.data(), moves.size()));
    return fbs::CreateStep(builder_, Byte(in.kind), in.device, in.stream, in.kernel, in.sync_point, in.bytes,
                           bindings, waits, in.records, after, in.source, in.custom, strides);
  }
  Offset<fbs::Partition> One(const Partition& in) {
    auto detail = Text(in.detail);
    return fbs::CreatePartition(builder_, in.device, in.first_step, in.num_steps, Byte(in.reason), detail);
  }
  Offset<fbs::SyncPoint> One(const SyncPoint& in) {
    auto participants = Numbers<uint32_t>(in.participants);
    return fbs::CreateSyncPoint(builder_, Byte(in.op), Byte(in.dtype), in.bytes, in.communicator,
                                participants, in.source);
  }
  Offset<fbs::Port> One(const Port& in) {
    auto name = Text(in.name);
    auto replicas = Numbers<uint32_t>(in.replicas);
    return fbs::CreatePort(builder_, name, in.buffer, in.is_state, replicas);
  }
  Offset<fbs::Program> One(const Program& in) {
    auto name = Text(in.name);
    auto inputs = Tables<fbs::Port>(in.inputs);
    auto outputs = Tables<fbs::Port>(in.outputs);
    auto steps = Tables<fbs::Step>(in.steps);
    auto partitions = Tables<fbs::Partition>(in.partitions);
    auto sync_points = Tables<fbs::SyncPoint>(in.sync_points);
    auto certificates = Numbers<uint64_t>(in.certificates);
    auto loops = Structs<fbs::Loop>(in.loops);
    return fbs::CreateProgram(builder_, name, inputs, outputs, steps, partitions, sync_points, certificates,
                              in.num_streams, in.num_events, in.arena_lower_bound, in.arena_bytes, loops);
  }
  Offset<fbs::KernelBinary> One(const KernelBinary& in) {
    auto entry = Text(in.entry);
    const fbs::LibraryMatmul matmul = in.matmul == nullptr ? fbs::LibraryMatmul() : Plain(*in.matmul);
    auto tensor_maps = Structs<fbs::TensorMap>(in.tensor_maps);
    auto relies = Numbers<uint32_t>(in.relies);
    auto choice = Text(in.choice);
    return fbs::CreateKernelBinary(builder_, entry, in.grid, in.shared, in.waits, Byte(in.kind),
                                   in.matmul == nullptr ? nullptr : &matmul, in.code, in.block, tensor_maps,
                                   relies, choice, in.text_digest, in.digest);
  }
  Offset<fbs::CodeModule> One(const CodeModule& in) {
    auto architecture = Text(in.architecture);
    auto binaries = Tables<fbs::KernelBinary>(in.binaries);
    std::vector<fbs::CodeRange> ranges;
    for (Span<const uint8_t> code : in.codes) {
      ranges.push_back({code_bytes_, code.size()});
      code_bytes_ = NextCode(code_bytes_ + code.size());
    }
    auto codes = ranges.empty() ? 0 : builder_.CreateVectorOfStructs(ranges);
    auto alternatives = Tables<fbs::KernelAlternative>(in.alternatives);
    auto compiler = Text(in.compiler);
    return fbs::CreateCodeModule(builder_, architecture, in.block, binaries, codes, alternatives, compiler);
  }
  Offset<fbs::KernelAlternative> One(const KernelAlternative& in) {
    auto choice = Text(in.choice);
    auto binary = One(in.binary);
    return fbs::CreateKernelAlternative(builder_, in.kernel, choice, binary);
  }
  Offset<fbs::CustomAttribute> One(const CustomAttribute& in) {
    auto name = Text(in.name);
    auto ints = Numbers<int64_t>(in.ints);
    auto floats = Numbers<float>(in.floats);
    auto texts = Texts(in.texts);
    auto shape = Numbers<int64_t>(Span<const int64_t>(in.shape.dims, static_cast<size_t>(in.shape.rank)));
    auto data = Numbers<uint8_t>(in.data);
    return fbs::CreateCustomAttribute(builder_, name, Byte(in.kind), ints, floats, texts, Byte(in.dtype),
                                      shape, data);
  }
  Offset<fbs::CustomArgument> One(const CustomArgument& in) {
    auto shape = Numbers<int64_t>(Span<const int64_t>(in.shape.dims, static_cast<size_t>(in.shape.rank)));
    return fbs::CreateCustomArgument(builder_, Byte(in.dtype), shape, Byte(in.mode), in.alias, in.absent);
  }
  Offset<fbs::CustomOp> One(const CustomOp& in) {
    auto domain = Text(in.domain);
    auto name = Text(in.name);
    auto library = Text(in.library);
    auto reason = Text(in.reason);
    auto arguments = Tables<fbs::CustomArgument>(in.arguments);
    auto attributes = Tables<fbs::CustomAttribute>(in.attributes);
    return fbs::CreateCustomOp(builder_, domain, name, in.version, library, in.graph_safe, reason,
                               in.num_inputs, arguments, attributes);
  }
  Offset<fbs::Plan> One(const PlanData& in) {
    auto producer = Text(in.producer);
    auto devices = Structs<fbs::DeviceBytes>(in.requirements.devices);
    auto target = Text(in.requirements.target);
    auto sources = Texts(in.sources);
    auto buffers = Tables<fbs::Buffer>(in.buffers);
    auto kernels = Tables<fbs::Kernel>(in.kernels);
    auto programs = Tables<fbs::Program>(in.programs);
    auto weights_file = Text(in.weights_file);
    auto modules = Tables<fbs::CodeModule>(in.modules);
    auto custom_ops = Tables<fbs::CustomOp>(in.custom_ops);
    return fbs::CreatePlan(builder_, producer, devices, target, in.requirements.least_driver_version, sources,
                           buffers, kernels, programs, weights_file, in.weights_bytes, modules, custom_ops,
                           in.requirements.scratch, in.requirements.work);
  }

  fb::FlatBufferBuilder builder_{1 << 20};
  uint64_t code_bytes_ = 0;  // of the machine code section, given out so far
};

// Roughly the bytes that the plan's parts of unbounded size take: kept under the section's limit, the
// builder cannot run past what a flatbuffer can address.
uint64_t Estimate(const PlanData& plan) {
  uint64_t bytes = plan.buffers.size() * 200;
  for (std::string_view text : plan.sources) bytes += text.size() + 12;
  for (const CodeModule& module : plan.modules) {
    bytes += 16 * module.codes.size() + 512 * (module.binaries.size() + module.alternatives.size());
    for (const KernelBinary& binary : module.binaries)
      bytes += (binary.tensor_maps.size() + binary.relies.size()) * sizeof(TensorMap);
    for (const KernelAlternative& other : module.alternatives)
      bytes += other.binary.tensor_maps.size() * sizeof(TensorMap);
  }
  for (const Buffer& buffer : plan.buffers) bytes += buffer.name.size();
  for (const CustomOp& op : plan.custom_ops) {
    bytes += 128 + op.domain.size() + op.name.size() + op.library.size() + op.reason.size();
    bytes += op.arguments.size() * 128;
    for (const CustomAttribute& a : op.attributes) {
      bytes += 160 + a.name.size() + a.ints.size() * 8 + a.floats.size() * 4 + a.data.size();
      for (std::string_view text : a.texts) bytes += text.size() + 12;
    }
  }
  for (const Kernel& kernel : plan.kernels) {
    for (const Part& part : kernel.parts) {
      bytes += 256 + (part.prologue.size() + part.body.size() + part.epilogue.size()) * sizeof(TapeInst);
      for (const Stage& stage : part.stages) bytes += 64 + stage.tape.size() * sizeof(TapeInst);
      for (const Operand& operand : part.operands) {
        bytes +=
            128 + (1 + operand.guards.size()) * (part.loops.size() * 8 + 64) + operand.indirects.size() * 24;
      }
    }
  }
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      bytes += 128 + step.bindings.size() * 24 + (step.waits.size() + step.after.size()) * 4;
    }
  }
  return bytes;
}

}  // namespace

Status EncodePlan(const PlanData& plan, std::vector<uint8_t>* out) {
  if (uint64_t bytes = Estimate(plan); bytes > kMaxFlatbufferBytes / 2) {
    return Status::Error(
        Code::kInvalidArgument, "plan: a description of about %llu bytes exceeds the %llu of its section",
        static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(kMaxFlatbufferBytes / 2));
  }
  Encoder encoder;
  encoder.Finish(plan);
  *out = encoder.bytes();
  return Status::Ok();
}

}  // namespace rondo
