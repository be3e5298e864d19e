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

// Builds the flatbuffer from the leaves up, without empty vectors and texts.
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
    std::vector<int64_t> moves;  // up to the last binding with a stride
    for (size_t b = 0; b < in.bindings.size(); ++b) {
      if (in.bindings[b].stride == 0) continue;
      moves.resize(b + 1);
      moves[b] = in.bindings[b].stride;
    }
    const std::tuple strides(Span<const int64_t>(moves.data(), moves.size()));
    return Table<F>(std::tuple_cat(Fields(in), strides));
  }

  // A table with fields of the types that the generated Create function takes; children are written in their
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

  // A member, converted to the type that the second argument points to.
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
  uint64_t code_bytes_ = 0;  // bytes of the machine code section given out so far
  fbs::LibraryMatmul matmul_;
};

// An upper bound on the bytes of plain data in a flatbuffer. If it is below the section's limit, the builder
// stays within the range that a flatbuffer can address.
template <typename T>
uint64_t DescriptionBytes(const T& in) {
  if constexpr (requires { Fields(in); }) {
    return std::apply([](const auto&... field) { return (uint64_t{24} + ... + DescriptionBytes(field)); },
                      Fields(in));
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    return in.size() + 16;
  } else if constexpr (std::is_same_v<T, Span<const Span<const uint8_t>>>) {  // codes have a section of their
                                                                              // own
    return 16 * in.size();
  } else if constexpr (requires {
                         in.begin();
                         in.size();
                       }) {
    uint64_t bytes = 16;
    for (const auto& one : in) bytes += DescriptionBytes(one);
    return bytes;
  } else if constexpr (std::is_pointer_v<T>) {
    return in == nullptr ? 0 : DescriptionBytes(*in);
  } else {
    return sizeof(in) + 4;
  }
}

}  // namespace

Status EncodePlan(const PlanData& plan, std::vector<uint8_t>* out) {
  if (uint64_t bytes = DescriptionBytes(plan); bytes > kMaxFlatbufferBytes / 2) {
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
