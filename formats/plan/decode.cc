#include "formats/plan/decode.h"

#include <cinttypes>
#include <cstring>
#include <type_traits>

#include "formats/plan/counted_texts.h"
#include "formats/plan/format.h"

namespace rondo {
namespace {

namespace fb = ::flatbuffers;

constexpr uint64_t kBudgetFactor = 16;
constexpr uint64_t kBudgetBase = 64 << 10;
constexpr int kMaxTableDepth = 16;

// Copies one flatbuffer into an arena. Objects of a flatbuffer may be shared, so what they decode to
// can be far larger than they are: every allocation is charged to a budget first. After a failure
// all calls give empty results and `status` keeps the first reason.
class Decoder {
 public:
  Decoder(Arena& arena, uint64_t section_bytes, Span<const uint8_t> code)
      : arena_(arena),
        budget_(kBudgetBase + section_bytes * kBudgetFactor),
        section_bytes_(section_bytes),
        code_(code) {}

  PlanData Decode(const fbs::Plan& in);
  const Status& status() const { return status_; }

 private:
  bool Charge(uint64_t bytes) {
    if (!status_.ok()) return false;
    if (bytes > budget_) {
      status_ = Status::Error(Code::kCorrupt,
                              "plan: what the flatbuffers section of %" PRIu64
                              " bytes decodes to is more than %" PRIu64 " times its size",
                              section_bytes_, kBudgetFactor);
      return false;
    }
    budget_ -= bytes;
    return true;
  }

  template <typename T>
  Span<T> New(uint64_t count) {
    if (!Charge(count * sizeof(T))) return {};
    Span<T> out = arena_.New<T>(count);
    if (out.data() == nullptr) OutOfMemory(count * sizeof(T));
    return out;
  }

  void OutOfMemory(uint64_t bytes) {
    status_ =
        Status::Error(Code::kOutOfMemory, "plan: no memory for %" PRIu64 " bytes of its description", bytes);
  }

  std::string_view Text(const fb::String* in) {
    if (in == nullptr || !Charge(in->size() + 1)) return "";
    std::string_view out = arena_.CopyText({in->c_str(), in->size()});
    if (out.data() == nullptr) OutOfMemory(in->size() + 1);
    return out;
  }

  // Room for `count` entries of `bytes` each; null after a failure.
  [[gnu::noinline]] uint8_t* Room(uint64_t count, uint64_t bytes) {
    if (!Charge(count * bytes)) return nullptr;
    void* room = arena_.Allocate(count * bytes, alignof(uint64_t));
    if (room == nullptr) OutOfMemory(count * bytes);
    return static_cast<uint8_t*>(room);
  }

  // A vector of numbers.
  template <typename T, typename F>
  Span<const T> Numbers(const fb::Vector<F>* in) {
    static_assert(sizeof(T) == sizeof(F));
    const T* numbers =
        in == nullptr ? nullptr : reinterpret_cast<const T*>(Copy(in->Data(), in->size(), sizeof(T)));
    return {numbers, numbers == nullptr ? 0 : in->size()};
  }
  [[gnu::noinline]] uint8_t* Copy(const uint8_t* from, uint32_t count, uint32_t bytes) {
    uint8_t* to = count == 0 ? nullptr : Room(count, bytes);
    if (to != nullptr) std::memcpy(to, from, uint64_t{count} * bytes);
    return to;
  }

  // The extents of what is called WHAT "name".
  Shape Extents(const fb::Vector<int64_t>* in, const char* what, std::string_view name) {
    Shape out;
    if (in == nullptr) return out;
    if (in->size() > kMaxRank) {
      if (status_.ok()) {
        status_ = Status::Error(Code::kCorrupt, "%s \"%s\": rank %u exceeds the greatest rank, %d", what,
                                name.data(), in->size(), kMaxRank);
      }
      return out;
    }
    out.rank = static_cast<int>(in->size());
    std::memcpy(out.dims, in->Data(), in->size() * sizeof(int64_t));
    return out;
  }

  [[gnu::noinline]] bool Aligned(const void* data, size_t alignment) {
    const bool aligned = reinterpret_cast<uintptr_t>(data) % alignment == 0;
    if (!aligned && status_.ok())
      status_ = Status::Error(Code::kCorrupt, "plan: a vector of its flatbuffer is not aligned");
    return aligned;
  }

  // A vector of tables or structs, each decoded by its overload of One. The flatbuffers verifier checks
  // where a vector's length lies, but not that the structs after it are aligned.
  template <typename T, typename F>
  Span<const T> All(const fb::Vector<F>* in) {
    static_assert(alignof(T) <= alignof(uint64_t) && std::is_trivially_destructible_v<T>);
    using Entry = std::remove_const_t<std::remove_pointer_t<typename fb::Vector<F>::return_type>>;
    if (in == nullptr || in->size() == 0) return {};
    const OneFunction one = [](Decoder& decoder, const uint8_t* from, void* to) {
      decoder.One(*reinterpret_cast<const Entry*>(from), *new (to) T());
    };
    const void* out =
        Entries(in->Data(), in->size(), std::is_pointer_v<F> ? sizeof(Entry) : 0, sizeof(T), one);
    return {static_cast<const T*>(out), out == nullptr ? 0 : in->size()};
  }
  using OneFunction = void (*)(Decoder& decoder, const uint8_t* from, void* to);
  // `entry`: bytes of each struct; 0: they are references to tables.
  [[gnu::noinline]] void* Entries(const uint8_t* data, uint32_t count, size_t entry, size_t bytes,
                                  OneFunction one) {
    if (entry != 0 && !Aligned(data, alignof(uint64_t))) return nullptr;
    uint8_t* out = Room(count, bytes);
    for (uint32_t i = 0; i < count && status_.ok(); ++i) {
      const uint8_t* from = data + i * (entry == 0 ? sizeof(fb::uoffset_t) : entry);
      if (entry == 0) from += fb::ReadScalar<fb::uoffset_t>(from);
      one(*this, from, out + i * bytes);
    }
    return status_.ok() ? out : nullptr;
  }

  void One(const fbs::TapeInst& in, TapeInst& out);
  void One(const fbs::Indirect& in, Indirect& out);
  void One(const fbs::Binding& in, Binding& out);
  void One(const fbs::Loop& in, Loop& out) {
    const uint64_t trips = in.trips();
    out = {in.first_step(), in.num_steps(), trips > kNone ? 0 : static_cast<uint32_t>(trips)};
  }
  void One(const fbs::DeviceBytes& in, DeviceBytes& out);
  void One(const fbs::Guard& in, Guard& out);
  void One(const fbs::Operand& in, Operand& out);
  void One(const fbs::Stage& in, Stage& out);
  void One(const fbs::Part& in, Part& out);
  void One(const fbs::Kernel& in, Kernel& out);
  void One(const fbs::Buffer& in, Buffer& out);
  void One(const fbs::Step& in, Step& out);
  void One(const fbs::Partition& in, Partition& out);
  void One(const fbs::SyncPoint& in, SyncPoint& out);
  void One(const fbs::Port& in, Port& out);
  void One(const fbs::Program& in, Program& out);
  void One(const fbs::TensorMap& in, TensorMap& out);
  void One(const fbs::KernelBinary& in, KernelBinary& out);
  void One(const fbs::KernelAlternative& in, KernelAlternative& out);
  void One(const fbs::CodeModule& in, CodeModule& out);
  void One(const fbs::CustomAttribute& in, CustomAttribute& out);
  void One(const fbs::CustomArgument& in, CustomArgument& out);
  void One(const fbs::CustomOp& in, CustomOp& out);
  void One(const fb::String& in, std::string_view& out) { out = Text(&in); }

  Arena& arena_;
  uint64_t budget_;
  uint64_t section_bytes_;
  Span<const uint8_t> code_;
  Status status_;
};

void Decoder::One(const fbs::TapeInst& in, TapeInst& out) {
  out.op = static_cast<TapeOp>(in.op());
  out.type = static_cast<TapeType>(in.type());
  out.arg = in.arg();
  out.a = in.a();
  out.b = in.b();
  out.c = in.c();
  out.imm.i = static_cast<int64_t>(in.imm());
}

void Decoder::One(const fbs::Indirect& in, Indirect& out) {
  out = {in.operand(), in.wrap(), in.fault(), in.stride(), in.extent()};
}

void Decoder::One(const fbs::Binding& in, Binding& out) { out = {in.buffer(), in.offset(), 0}; }

void Decoder::One(const fbs::DeviceBytes& in, DeviceBytes& out) {
  out = {in.weights(), in.arena(), in.state(), in.workspace(), in.communicator()};
}

void Decoder::One(const fbs::Guard& in, Guard& out) {
  out = {in.stride(), in.offset(), in.extent(), Numbers<int64_t>(in.strides())};
}

void Decoder::One(const fbs::Operand& in, Operand& out) {
  out.param = in.param();
  out.dtype = static_cast<DType>(in.dtype());
  out.mode = static_cast<Mode>(in.mode());
  out.absent = in.absent();
  out.offset = in.offset();
  out.strides = Numbers<int64_t>(in.strides());
  out.indirects = All<Indirect>(in.indirects());
  out.guards = All<Guard>(in.guards());
}

void Decoder::One(const fbs::Stage& in, Stage& out) {
  out.per_row = in.per_row();
  out.tape = All<TapeInst>(in.tape());
}

void Decoder::One(const fbs::Part& in, Part& out) {
  out.skeleton = static_cast<Skeleton>(in.skeleton());
  out.sequential = in.sequential();
  out.combine = static_cast<Combine>(in.combine());
  out.nan_to_zero = in.nan_to_zero();
  out.outer = in.outer();
  out.m = in.m();
  out.n = in.n();
  out.reduced = in.reduced();
  out.features = in.features();
  out.lhs = in.lhs();
  out.keys = in.keys();
  out.values = in.values();
  out.mask = in.mask();
  out.limit = in.limit();
  out.scale = in.scale();
  out.softcap = in.softcap();
  out.acc_type = static_cast<TapeType>(in.acc_type());
  out.loops = Numbers<int64_t>(in.loops());
  out.operands = All<Operand>(in.operands());
  out.rhs = Numbers<uint16_t>(in.rhs());
  out.prologue = All<TapeInst>(in.prologue());
  out.body = All<TapeInst>(in.body());
  out.stages = All<Stage>(in.stages());
  out.scalars = in.scalars();
  out.kept = in.kept();
  out.tf32 = in.tf32();
  out.epilogue = All<TapeInst>(in.epilogue());
  out.packed.type = static_cast<PackedType>(in.packed_type());
  out.packed.dtype = static_cast<DType>(in.packed_dtype());
  out.packed.block = in.packed_block();
  out.packed.zero = in.packed_zero();
  out.scales = Numbers<uint16_t>(in.scales());
  out.zeros = Numbers<uint16_t>(in.zeros());
}

void Decoder::One(const fbs::Kernel& in, Kernel& out) {
  out.name = Text(in.name());
  out.label = Text(in.label());
  out.num_params = in.num_params();
  out.parts = All<Part>(in.parts());
  out.workspace_param = in.workspace_param();
  out.workspace_bytes = in.workspace_bytes();
}

void Decoder::One(const fbs::Buffer& in, Buffer& out) {
  out.name = Text(in.name());
  out.kind = static_cast<BufferKind>(in.kind());
  out.dtype = static_cast<DType>(in.dtype());
  out.shape = Extents(in.shape(), "buffer", out.name);
  out.bytes = in.bytes();
  out.device = in.device();
  out.program = in.program();
  out.offset = in.offset();
  out.alignment = in.alignment();
  out.first_step = in.first_step();
  out.last_step = in.last_step();
  out.aliases = in.aliases();
  out.source = in.source();
  out.weight =
      in.weight() == kSyntheticRuns ? WeightSource::kSynthetic : static_cast<WeightSource>(in.weight());
  out.file_offset = in.file_offset();
  out.synthetic_key = in.synthetic_key();
  out.synthetic_scale = in.synthetic_scale();
  out.synthetic_run = in.synthetic_run();
  out.synthetic_step = in.synthetic_step();
}

void Decoder::One(const fbs::Step& in, Step& out) {
  out.kind = static_cast<StepKind>(in.kind());
  out.device = in.device();
  out.stream = in.stream();
  out.kernel = in.kernel();
  out.sync_point = in.sync_point();
  out.bytes = in.bytes();
  // Strides, where some binding has one; what is missing at their end is 0.
  const Span<const Binding> bindings = All<Binding>(in.bindings());
  const Span<const int64_t> strides = Numbers<int64_t>(in.strides());
  out.bindings = bindings;
  for (size_t b = 0; b < bindings.size() && b < strides.size(); ++b)
    const_cast<Binding&>(bindings[b]).stride = strides[b];
  out.waits = Numbers<uint32_t>(in.waits());
  out.records = in.records();
  out.after = Numbers<uint32_t>(in.after());
  out.source = in.source();
  out.custom = in.custom();
}

void Decoder::One(const fbs::Partition& in, Partition& out) {
  out.device = in.device();
  out.first_step = in.first_step();
  out.num_steps = in.num_steps();
  out.reason = static_cast<BreakReason>(in.reason());
  out.detail = Text(in.detail());
}

void Decoder::One(const fbs::SyncPoint& in, SyncPoint& out) {
  out.op = static_cast<CollectiveOp>(in.op());
  out.dtype = static_cast<DType>(in.dtype());
  out.bytes = in.bytes();
  out.communicator = in.communicator();
  out.participants = Numbers<uint32_t>(in.participants());
  out.source = in.source();
}

void Decoder::One(const fbs::Port& in, Port& out) {
  out.name = Text(in.name());
  out.buffer = in.buffer();
  out.is_state = in.is_state();
  out.replicas = Numbers<uint32_t>(in.replicas());
}

void Decoder::One(const fbs::Program& in, Program& out) {
  out.name = Text(in.name());
  out.inputs = All<Port>(in.inputs());
  out.outputs = All<Port>(in.outputs());
  out.steps = All<Step>(in.steps());
  out.partitions = All<Partition>(in.partitions());
  out.sync_points = All<SyncPoint>(in.sync_points());
  out.certificates = Numbers<uint64_t>(in.certificates());
  out.num_streams = in.num_streams();
  out.num_events = in.num_events();
  out.arena_lower_bound = in.arena_lower_bound();
  out.arena_bytes = in.arena_bytes();
  out.loops = All<Loop>(in.loops());
}

void Decoder::One(const fbs::TensorMap& in, TensorMap& out) {
  static_assert(sizeof(in) == sizeof(out));
  std::memcpy(static_cast<void*>(&out), &in, sizeof(out));
}

void Decoder::One(const fbs::KernelBinary& in, KernelBinary& out) {
  out.entry = Text(in.entry());
  out.grid = in.grid();
  out.shared = in.shared();
  out.waits = in.waits();
  out.kind = static_cast<BinaryKind>(in.kind());
  out.code = in.code();
  out.block = in.block();
  out.tensor_maps = All<TensorMap>(in.tensor_maps());
  out.relies = Numbers<uint32_t>(in.relies());
  out.choice = Text(in.choice());
  out.text_digest = in.text_digest();
  out.digest = in.digest();
  if (in.matmul() == nullptr) return;
  const Span<LibraryMatmul> matmul = New<LibraryMatmul>(1);
  if (matmul.empty()) return;
  static_assert(sizeof(LibraryMatmul) == sizeof(fbs::LibraryMatmul));
  std::memcpy(static_cast<void*>(matmul.data()), in.matmul(), sizeof(LibraryMatmul));
  matmul[0].tf32 = in.matmul()->tf32();  // a byte of the file is any byte
  out.matmul = matmul.data();
}

void Decoder::One(const fbs::KernelAlternative& in, KernelAlternative& out) {
  out.kernel = in.kernel();
  out.choice = Text(in.choice());
  if (in.binary() != nullptr) One(*in.binary(), out.binary);
}

void Decoder::One(const fbs::CodeModule& in, CodeModule& out) {
  out.architecture = Text(in.architecture());
  out.block = in.block();
  out.binaries = All<KernelBinary>(in.binaries());
  out.alternatives = All<KernelAlternative>(in.alternatives());
  out.compiler = Text(in.compiler());
  if (in.codes() == nullptr) return;
  Span<Span<const uint8_t>> codes = New<Span<const uint8_t>>(in.codes()->size());
  for (uint32_t c = 0; c < codes.size(); ++c) {
    const fbs::CodeRange& range = *in.codes()->Get(c);
    if (range.offset() > code_.size() || range.bytes() > code_.size() - range.offset()) {
      status_ = Status::Error(Code::kCorrupt,
                              "plan: code %u is at byte %" PRIu64 " with %" PRIu64
                              " bytes, outside the machine code section's %zu",
                              c, range.offset(), range.bytes(), code_.size());
      return;
    }
    codes[c] = {code_.data() + range.offset(), range.bytes()};
  }
  out.codes = codes;
}

void Decoder::One(const fbs::CustomAttribute& in, CustomAttribute& out) {
  out.name = Text(in.name());
  out.kind = static_cast<AttributeKind>(in.kind());
  out.ints = Numbers<int64_t>(in.ints());
  out.floats = Numbers<float>(in.floats());
  out.texts = All<std::string_view>(in.texts());
  out.dtype = static_cast<DType>(in.dtype());
  out.shape = Extents(in.shape(), "attribute", out.name);
  out.data = Numbers<uint8_t>(in.data());
}

void Decoder::One(const fbs::CustomArgument& in, CustomArgument& out) {
  out.dtype = static_cast<DType>(in.dtype());
  out.shape = Extents(in.shape(), "argument", "");
  out.mode = static_cast<Mode>(in.mode());
  out.alias = in.alias();
  out.absent = in.absent();
}

void Decoder::One(const fbs::CustomOp& in, CustomOp& out) {
  out.domain = Text(in.domain());
  out.name = Text(in.name());
  out.version = in.version();
  out.library = Text(in.library());
  out.graph_safe = in.graph_safe();
  out.reason = Text(in.reason());
  out.num_inputs = in.num_inputs();
  out.arguments = All<CustomArgument>(in.arguments());
  out.attributes = All<CustomAttribute>(in.attributes());
}

PlanData Decoder::Decode(const fbs::Plan& in) {
  PlanData out;
  out.producer = Text(in.producer());
  out.requirements.devices = All<DeviceBytes>(in.devices());
  out.requirements.target = Text(in.target());
  out.requirements.least_driver_version = in.least_driver_version();
  out.requirements.scratch = in.scratch();
  out.requirements.work = in.work();
  out.sources = All<std::string_view>(in.sources());
  out.buffers = All<Buffer>(in.buffers());
  out.kernels = All<Kernel>(in.kernels());
  out.programs = All<Program>(in.programs());
  out.weights_file = Text(in.weights_file());
  out.weights_bytes = in.weights_bytes();
  out.modules = All<CodeModule>(in.modules());
  out.custom_ops = All<CustomOp>(in.custom_ops());
  return out;
}

}  // namespace

Status DecodePlan(Span<const uint8_t> bytes, Span<const uint8_t> code, Arena& arena, PlanData* plan) {
  if (bytes.size() > kMaxFlatbufferBytes) {
    return Status::Error(Code::kCorrupt, "plan: flatbuffers section of %zu bytes exceeds %" PRIu64,
                         bytes.size(), kMaxFlatbufferBytes);
  }
  // A reference to a table or a text takes 4 bytes; what is shared is counted each time.
  const size_t max_tables = bytes.size() / 4 + 1;
  fb::Verifier verifier(bytes.data(), bytes.size(), kMaxTableDepth, static_cast<fb::uoffset_t>(max_tables));
  if (bytes.size() < 16 || !fbs::VerifyPlanBuffer(verifier)) {
    return Status::Error(
        Code::kCorrupt, "plan: the flatbuffers section of %zu bytes is not a valid flatbuffer", bytes.size());
  }
  Decoder decoder(arena, bytes.size(), code);
  *plan = decoder.Decode(*fbs::GetPlan(bytes.data()));
  return decoder.status();
}

}  // namespace rondo
