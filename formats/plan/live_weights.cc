#include "formats/plan/live_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/element.h"
#include "core/scalar.h"

namespace rondo {
namespace {

constexpr std::string_view kInitializer = "Initializer \"";
constexpr std::string_view kFixed = "fixed weight \"";

std::string TypeText(DType dtype, const Shape& shape) {
  char text[256];
  return std::string(Name(dtype)) + Format(shape, text, sizeof(text));
}

// `Initializer "NAME"`, or for a part `Initializer "NAME" [256, 64]`.
struct InitializerSource {
  std::string_view name;  // empty for other texts
  bool is_part = false;
  Shape shape;  // of the whole initializer, if the buffer is a part
};

bool ParseShape(std::string_view text, Shape* shape) {
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent <= 0 || shape->rank == kMaxRank ||
        static_cast<uint64_t>(extent) > kMostElements / static_cast<uint64_t>(shape->elements()))
      return false;
    shape->dims[shape->rank++] = extent;
    at = next;
    if (at != end && std::string_view(at, static_cast<size_t>(end - at)).substr(0, 2) != ", ") return false;
    if (at != end) at += 2;
  }
  return true;
}

InitializerSource SourceOf(const PlanData& plan, const Buffer& buffer) {
  if (buffer.source >= plan.sources.size()) return {};
  std::string_view text = plan.sources[buffer.source];
  if (text.substr(0, kInitializer.size()) != kInitializer) return {};
  text.remove_prefix(kInitializer.size());
  InitializerSource source;
  if (text.back() == ']') {
    const size_t end = text.rfind("\" [");
    if (end == text.npos || !ParseShape(text.substr(end + 3, text.size() - end - 4), &source.shape))
      return {};
    source.is_part = true;
    text = text.substr(0, end + 1);
  }
  if (text.empty() || text.back() != '"') return {};
  source.name = text.substr(0, text.size() - 1);
  return source;
}

// Whether the initializer's `all` elements include those that the buffer holds from `first` on.
bool Within(uint64_t first, uint64_t all, const Buffer& buffer) {
  const auto count = static_cast<uint64_t>(buffer.shape.elements());
  const uint64_t run = buffer.synthetic_run, step = buffer.synthetic_step;
  if (all > kMostElements || count > all || first > all) return false;
  if (run == 0 || run >= count) return first + count <= all;
  return run <= step && step <= all && (count - 1) / run * step + (count - 1) % run + first < all;
}

// The packing for which `is` returns true; of type kNone if there is none.
template <typename F>
WeightPacking PackingWhere(const F& is) {
  for (int type = 1; type < kNumPackedTypes; ++type) {
    for (DType from : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (int64_t block : {0, 16, 32, 64, 128, 256}) {
        for (int dim : {0, 1}) {
          const WeightPacking packing{static_cast<PackedType>(type), from, block, dim};
          if (is(packing)) return packing;
        }
      }
    }
  }
  return {};
}

Status Round(const WeightValue& value, uint64_t first, uint64_t count, DType to, uint8_t* out) {
  for (uint64_t i = 0; i < count; ++i) {
    const auto from = static_cast<int64_t>(first + i), at = static_cast<int64_t>(i);
    const float element = scalar::Load<float>(DType::kF32, value.bytes.data(), from);
    scalar::Store(to, out, at, element);
    if (std::isfinite(element) && !std::isfinite(scalar::Load<float>(to, out, at))) {
      return Status::Error(Code::kOutOfRange, "weight \"%s\": element %lld, %g, is beyond the plan's %s",
                           value.name.c_str(), static_cast<long long>(from), static_cast<double>(element),
                           Name(to));
    }
  }
  return Status::Ok();
}

}  // namespace

std::string_view InitializerOf(const PlanData& plan, uint32_t buffer) {
  return SourceOf(plan, plan.buffers[buffer]).name;
}

uint64_t PackedWeightKey(uint64_t key, const WeightPacking& packing) {
  return SyntheticMix(key ^ static_cast<uint64_t>(packing.type) ^ static_cast<uint64_t>(packing.from) << 8 ^
                      static_cast<uint64_t>(packing.dim) << 16 ^ static_cast<uint64_t>(packing.block) << 24);
}

bool IsOfLiveWeight(std::string_view name, uint64_t key) {
  const uint64_t live = LiveWeightKey(name);
  const auto is = [&](const WeightPacking& packing) {
    return ElementsBetween(PackedWeightKey(live, packing), key) <= kMostElements;
  };
  return ElementsBetween(live, key) <= kMostElements || PackingWhere(is).type != PackedType::kNone;
}

LiveWeight ShareOfInitializer(const PlanData& plan, uint32_t buffer, const Shape& whole) {
  const Buffer& of = plan.buffers[buffer];
  LiveWeight weight{InitializerOf(plan, buffer), whole};
  if (weight.name.empty()) return {};
  const uint64_t live = LiveWeightKey(weight.name);
  weight.first = ElementsBetween(live, of.synthetic_key);
  if (Within(weight.first, static_cast<uint64_t>(whole.elements()), of)) return weight;
  const auto is = [&](const WeightPacking& packing) {
    const PackedShape shape = packing.ShapeOf(whole);
    const uint64_t codes = PackedWeightKey(live, packing);
    weight.scales = of.dtype != DType::kU8;
    weight.first = ElementsBetween(weight.scales ? SyntheticMix(codes) : codes, of.synthetic_key);
    return (!weight.scales || of.dtype == packing.scale_type()) &&
           Within(weight.first,
                  static_cast<uint64_t>(weight.scales ? shape.scales_covered() : shape.covered()), of);
  };
  if (whole.rank == 2) weight.packing = PackingWhere(is);
  return weight.packing.type == PackedType::kNone ? LiveWeight() : weight;
}

LiveWeight LiveWeightOf(const PlanData& plan, uint32_t buffer) {
  const Buffer& of = plan.buffers[buffer];
  if (of.kind != BufferKind::kConstant || of.synthetic_key == 0) return {};
  const InitializerSource source = SourceOf(plan, of);
  return ShareOfInitializer(plan, buffer, source.is_part ? source.shape : of.shape);
}

std::string LiveWeightSource(const LiveWeight& weight, const Buffer& buffer) {
  std::string text = std::string(kInitializer) + std::string(weight.name) + '"';
  char shape[256];
  if (!(weight.shape == buffer.shape)) text += std::string(" ") + Format(weight.shape, shape, sizeof(shape));
  return text;
}

Result<Span<const uint8_t>> BytesOfWeight(const WeightValue& value, const LiveWeight& weight,
                                          const Buffer& buffer, std::vector<uint8_t>* room) {
  if (!(value.shape == weight.shape)) {
    char has[256], wants[256];
    return Status::Error(Code::kInvalidArgument, "weight \"%s\" has shape %s, the plan's has %s",
                         value.name.c_str(), Format(value.shape, has, sizeof(has)),
                         Format(weight.shape, wants, sizeof(wants)));
  }
  const auto size = static_cast<size_t>(ByteSize(value.dtype));
  const size_t bytes = static_cast<size_t>(value.shape.elements()) * size;
  if (value.bytes.size() != bytes) {
    return Status::Error(Code::kCorrupt, "weight \"%s\" has %zu bytes, %s takes %zu", value.name.c_str(),
                         value.bytes.size(), TypeText(value.dtype, value.shape).c_str(), bytes);
  }
  const bool rounds = Is16BitFloat(buffer.dtype);
  if (value.dtype != buffer.dtype && (value.dtype != DType::kF32 || !rounds)) {
    return Status::Error(Code::kInvalidArgument, "weight \"%s\" is %s, the plan has it as %s%s",
                         value.name.c_str(), Name(value.dtype), Name(buffer.dtype),
                         rounds ? " and can round it from f32" : "");
  }
  const auto count = static_cast<uint64_t>(buffer.shape.elements());
  const uint64_t run = buffer.synthetic_run == 0 ? count : buffer.synthetic_run;
  if (value.dtype == buffer.dtype && run >= count)
    return value.bytes.subspan(weight.first * size, count * size);
  const auto to_size = static_cast<size_t>(ByteSize(buffer.dtype));
  room->resize(count * to_size);
  for (uint64_t done = 0, from = weight.first; done < count; done += run, from += buffer.synthetic_step) {
    const uint64_t some = std::min(run, count - done);
    if (value.dtype == buffer.dtype) {
      std::memcpy(room->data() + done * size, value.bytes.data() + from * size, some * size);
    } else {
      RONDO_RETURN_IF_ERROR(Round(value, from, some, buffer.dtype, room->data() + done * to_size));
    }
  }
  return Span<const uint8_t>(room->data(), room->size());
}

namespace {

// The beginning of a note, which identifies the value.
std::string FixedValue(const WeightValue& value) {
  const std::string_view bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  char digest[32];
  std::snprintf(digest, sizeof(digest), "%016llx", static_cast<unsigned long long>(SyntheticKey(0, bytes)));
  return std::string(kFixed) + value.name + "\": " + TypeText(value.dtype, value.shape) + " " + digest;
}

}  // namespace

std::string FixedWeightNote(const WeightValue& value, const std::string& reader) {
  return FixedValue(value) + (reader.empty() ? "" : ", read by " + reader);
}

Status CheckFixedWeight(const PlanData& plan, const WeightValue& value) {
  const std::string same = FixedValue(value), begin = std::string(kFixed) + value.name + "\": ";
  std::string_view known;
  for (std::string_view source : plan.sources) {
    if (source.substr(0, same.size()) == same) return Status::Ok();
    if (source.substr(0, begin.size()) == begin) known = source;
  }
  if (known.empty())
    return Status::Error(Code::kInvalidArgument, "the plan has no weight \"%s\"", value.name.c_str());
  constexpr std::string_view kBy = ", read by ";
  const size_t reader = known.find(kBy);
  const std::string by =
      reader == known.npos ? "" : " (read by " + std::string(known.substr(reader + kBy.size())) + ")";
  return Status::Error(
      Code::kInvalidArgument,
      "weight \"%s\"%s is another than the plan was compiled with, and the compiler has built "
      "its value into the plan: compile the model anew",
      value.name.c_str(), by.c_str());
}

}  // namespace rondo
