#include "formats/plan/decode.h"

#include <cinttypes>
#include <cstring>
#include <type_traits>

#include "formats/plan/counted_texts.h"
#include "formats/plan/fields.h"
#include "formats/plan/format.h"

namespace rondo {
namespace {

namespace fb = ::flatbuffers;

constexpr uint64_t kBudgetFactor = 16;
constexpr uint64_t kBudgetBase = 64 << 10;
constexpr int kMaxTableDepth = 16;

// Copies one flatbuffer into an arena. Objects in a flatbuffer may be shared, so the decoded data may be far
// larger: every allocation is first charged to a budget. After a failure all calls return empty results, and
// `status` keeps the first reason.
class Decoder {
 public:
  Decoder(Arena& arena, uint64_t section_bytes, Span<const uint8_t> code)
      : arena_(arena),
        budget_(kBudgetBase + section_bytes * kBudgetFactor),
        section_bytes_(section_bytes),
        code_(code) {}

  PlanData Decode(const fbs::Plan& in) {
    PlanData out;
    One(in, out);
    return out;
  }
  const Status& status() const { return status_; }

 private:
  bool Charge(uint64_t bytes) {
    if (!status_.ok()) return false;
    if (bytes > budget_) {
      status_ = Status::Error(Code::kCorrupt,
                              "plan: the flatbuffers section of %" PRIu64
                              " bytes decodes to more than %" PRIu64 " times its size",
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

  // Memory for `count` entries of `bytes` each; null after a failure.
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

  void Extents(const fb::Vector<int64_t>& in, Shape& out) {
    if (in.size() > kMaxRank) {
      if (status_.ok()) {
        status_ =
            Status::Error(Code::kCorrupt, "plan: a shape of \"%s\": rank %u exceeds the greatest rank, %d",
                          name_ == nullptr ? "" : name_->data(), in.size(), kMaxRank);
      }
      return;
    }
    out.rank = static_cast<int>(in.size());
    std::memcpy(out.dims, in.Data(), in.size() * sizeof(int64_t));
  }

  [[gnu::noinline]] bool Aligned(const void* data, size_t alignment) {
    const bool aligned = reinterpret_cast<uintptr_t>(data) % alignment == 0;
    if (!aligned && status_.ok())
      status_ = Status::Error(Code::kCorrupt, "plan: a vector of its flatbuffer is not aligned");
    return aligned;
  }

  // A vector of tables or structs, each decoded by its overload of One. The flatbuffers verifier checks the
  // alignment of a vector's length, but not that of the structs after it.
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
  // `entry`: bytes of each struct; 0 for references to tables.
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

  // A table or struct, field by field.
  template <typename F, typename T>
  void One(const F& in, T& out) {
    if constexpr (requires { out.name; }) name_ = &out.name;
    const auto fields = Fields(out);
    [&]<size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
      (Read(in.template get_field<I>(), std::get<I>(fields)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
  }
  void One(const fb::String& in, std::string_view& out) { out = Text(&in); }
  void One(const fbs::Loop& in, Loop& out) {
    const uint64_t trips = in.trips();
    out = {in.first_step(), in.num_steps(), trips > kNone ? 0 : static_cast<uint32_t>(trips)};
  }
  void One(const fbs::TensorMap& in, TensorMap& out) {
    static_assert(sizeof(in) == sizeof(out));
    std::memcpy(static_cast<void*>(&out), &in, sizeof(out));
  }
  // Strides, if a binding has one. Missing strides at the end are 0.
  void One(const fbs::Step& in, Step& out) {
    One<fbs::Step, Step>(in, out);
    const Span<const int64_t> strides = Numbers<int64_t>(in.strides());
    for (size_t b = 0; b < out.bindings.size() && b < strides.size(); ++b)
      const_cast<Binding&>(out.bindings[b]).stride = strides[b];
  }
  void One(const fbs::CodeRange& in, Span<const uint8_t>& out) {
    if (in.offset() <= code_.size() && in.bytes() <= code_.size() - in.offset()) {
      out = {code_.data() + in.offset(), in.bytes()};
    } else if (status_.ok()) {
      status_ = Status::Error(Code::kCorrupt,
                              "plan: a code at byte %" PRIu64 " with %" PRIu64
                              " bytes is outside the machine code section's %zu",
                              in.offset(), in.bytes(), code_.size());
    }
  }

  template <typename F, typename T>
  void Read(F in, T& out) {
    if constexpr (std::is_arithmetic_v<F>) {
      out = static_cast<T>(in);
    } else if (in != nullptr) {
      Child(*in, out);
    }
  }
  void Read(uint8_t in, WeightSource& out) {
    out = in == kSyntheticRuns ? WeightSource::kSynthetic : static_cast<WeightSource>(in);
  }
  void Child(const fb::String& in, std::string_view& out) { out = Text(&in); }
  void Child(const fb::Vector<int64_t>& in, Shape& out) { Extents(in, out); }
  void Child(const fbs::KernelBinary& in, KernelBinary& out) { One(in, out); }
  void Child(const fbs::LibraryMatmul& in, const LibraryMatmul*& out) {
    const Span<LibraryMatmul> matmul = New<LibraryMatmul>(1);
    if (matmul.empty()) return;
    static_assert(sizeof(LibraryMatmul) == sizeof(fbs::LibraryMatmul));
    std::memcpy(static_cast<void*>(matmul.data()), &in, sizeof(in));
    matmul[0].tf32 = in.tf32();  // the file's byte may have any value
    out = matmul.data();
  }
  template <typename E, typename T>
  void Child(const fb::Vector<E>& in, Span<const T>& out) {
    if constexpr (std::is_arithmetic_v<E>) {
      out = Numbers<T>(&in);
    } else {
      out = All<T>(&in);
    }
  }

  Arena& arena_;
  uint64_t budget_;
  uint64_t section_bytes_;
  Span<const uint8_t> code_;
  Status status_;
  const std::string_view* name_ = nullptr;  // name of the object being decoded
};

}  // namespace

Status DecodePlan(Span<const uint8_t> bytes, Span<const uint8_t> code, Arena& arena, PlanData* plan) {
  if (bytes.size() > kMaxFlatbufferBytes) {
    return Status::Error(Code::kCorrupt, "plan: flatbuffers section of %zu bytes exceeds %" PRIu64,
                         bytes.size(), kMaxFlatbufferBytes);
  }
  // A reference to a table or a text takes 4 bytes; shared objects count once per reference.
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
