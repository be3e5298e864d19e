#include "formats/plan/encode.h"

#include <string_view>
#include <vector>

#include "formats/plan/decode.h"
#include "formats/plan/fields.h"
#include "formats/plan/format.h"
#include "formats/plan/plan_generated.h"

namespace rondo {
namespace {

namespace fb = ::flatbuffers;

// Builds the flatbuffer from the leaves up. Empty vectors and texts are left out.
class Encoder {
 public:
  void Finish(const PlanData& plan) { fbs::FinishPlanBuffer(builder_, One<fbs::Plan>(plan)); }
  std::vector<uint8_t> bytes() const {
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

 private:
  template <typename T>
  using Offset = fb::Offset<T>;
  template <typename T>
  using Vector = fb::Offset<fb::Vector<T>>;

  template <typename F, typename T>
  Offset<F> One(const T& in) {
    return Table<F>(Fields(in));
  }
  template <typename F>
  Offset<F> One(const Buffer& in) {
    const bool runs = in.weight == WeightSource::kSynthetic && in.synthetic_run != 0;
    Buffer out = in;
    if (runs) out.weight = static_cast<WeightSource>(kSyntheticRuns);
    return Table<F>(Fields(std::as_const(out)));
  }
  template <typename F>
  Offset<F> One(const Step& in) {
    std::vector<int64_t> moves;  // up to the last binding that moves
    for (size_t b = 0; b < in.bindings.size(); ++b) {
      if (in.bindings[b].stride == 0) continue;
      moves.resize(b + 1);
      moves[b] = in.bindings[b].stride;
    }
    const std::tuple strides(Span<const int64_t>(moves.data(), moves.size()));
    return Table<F>(std::tuple_cat(Fields(in), strides));
  }

  // A table whose fields are of the types that the generated Create takes; children are written in their
  // order.
  template <typename F, typename... T>
  Offset<F> Table(const std::tuple<T...>& fields) {
    return [&]<typename... A, size_t... I>(Offset<F> (*create)(fb::FlatBufferBuilder&, A...),
                                           std::index_sequence<I...>) {
      const std::tuple<A...> written{Write(std::get<I>(fields), static_cast<A*>(nullptr))...};
      return create(builder_, std::get<I>(written)...);
    }(F::Traits::Create, std::index_sequence_for<T...>());
  }
  template <typename F, typename T>
  F Plain(const T& in) {
    const auto fields = Fields(in);
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return F(
          Write(std::get<I>(fields), static_cast<typename F::Traits::template FieldType<I>*>(nullptr))...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
  }
  template <typename F>
  F Plain(const TensorMap& in) {
    return {in.param,
            in.offset,
            static_cast<uint8_t>(in.dtype),
            in.rank,
            fb::span<const uint64_t, kMaxTensorMapRank>(in.extents),
            fb::span<const uint64_t, kMaxTensorMapRank - 1>(in.strides),
            fb::span<const uint32_t, kMaxTensorMapRank>(in.box),
            in.swizzle};
  }
  template <typename F>
  F Plain(const Span<const uint8_t>& code) {
    const uint64_t offset = code_bytes_;
    code_bytes_ = NextCode(offset + code.size());
    return {offset, code.size()};
  }

  // A member as what the second argument points to.
  template <typename T, typename A>
  A Write(const T& in, A*) {
    if constexpr (std::is_arithmetic_v<A>) {
      return static_cast<A>(in);
    } else {
      return Plain<A>(in);
    }
  }
  Offset<fb::String> Write(std::string_view text, Offset<fb::String>*) {
    return text.empty() ? 0 : builder_.CreateString(text.data(), text.size());
  }
  template <typename T, typename F>
  Offset<F> Write(const T& in, Offset<F>*) {
    return One<F>(in);
  }
  const fbs::LibraryMatmul* Write(const LibraryMatmul* in, const fbs::LibraryMatmul**) {
    if (in == nullptr) return nullptr;
    matmul_ = Plain<fbs::LibraryMatmul>(*in);
    return &matmul_;
  }
  Vector<int64_t> Write(const Shape& in, Vector<int64_t>* as) {
    return Write(Span<const int64_t>(in.dims, static_cast<size_t>(in.rank)), as);
  }
  template <typename T, typename E>
  Vector<E> Write(Span<const T> in, Vector<E>*) {
    if (in.empty()) return 0;
    if constexpr (std::is_arithmetic_v<E>) {
      static_assert(sizeof(E) == sizeof(T));
      return builder_.CreateVector(reinterpret_cast<const E*>(in.data()), in.size());
    } else if constexpr (std::is_pointer_v<E>) {
      using F = std::remove_const_t<std::remove_pointer_t<E>>;
      std::vector<F> out;
      out.reserve(in.size());
      for (const T& one : in) out.push_back(Plain<F>(one));
      return builder_.CreateVectorOfStructs(out);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      std::vector<E> out;
      for (std::string_view text : in) out.push_back(builder_.CreateString(text.data(), text.size()));
      return builder_.CreateVector(out);
    } else {
      std::vector<E> out;
      out.reserve(in.size());
      for (const T& one : in) out.push_back(Write(one, static_cast<E*>(nullptr)));
      return builder_.CreateVector(out);
    }
  }

  fb::FlatBufferBuilder builder_{1 << 20};
  uint64_t code_bytes_ = 0;  // of the machine code section, given out so far
  fbs::LibraryMatmul matmul_;
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
