#include "formats/plan/live_weights.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/scalar.h"

namespace rondo {
namespace {

constexpr std::string_view kInitializer = "Initializer \"";
constexpr std::string_view kFixed = "fixed weight \"";

std::string TypeText(DType dtype, const Shape& shape) {
  char text[256];
  return std::string(Name(dtype)) + Format(shape, text, sizeof(text));
}

}  // namespace

std::string_view LiveWeightOf(const PlanData& plan, uint32_t buffer) {
  const Buffer& of = plan.buffers[buffer];
  if (of.kind != BufferKind::kConstant || of.source >= plan.sources.size()) return {};
  std::string_view name = plan.sources[of.source];
  if (name.substr(0, kInitializer.size()) != kInitializer || name.back() != '"') return {};
  name = name.substr(kInitializer.size(), name.size() - kInitializer.size() - 1);
  return of.synthetic_key == LiveWeightKey(name) ? name : std::string_view();
}

Status ConvertWeight(const WeightValue& value, const Buffer& buffer, uint8_t* out) {
  if (!(value.shape == buffer.shape)) {
    char has[256], wants[256];
    return Status::Error(Code::kInvalidArgument, "weight \"%s\" has shape %s, the plan's has %s",
                         value.name.c_str(), Format(value.shape, has, sizeof(has)),
                         Format(buffer.shape, wants, sizeof(wants)));
  }
  const auto bytes = static_cast<size_t>(value.shape.elements() * ByteSize(value.dtype));
  if (value.bytes.size() != bytes) {
    return Status::Error(Code::kCorrupt, "weight \"%s\" has %zu bytes, %s takes %zu", value.name.c_str(),
                         value.bytes.size(), TypeText(value.dtype, value.shape).c_str(), bytes);
  }
  if (value.dtype == buffer.dtype) {
    std::memcpy(out, value.bytes.data(), bytes);
    return Status::Ok();
  }
  const bool rounds = buffer.dtype == DType::kF16 || buffer.dtype == DType::kBF16;
  if (value.dtype != DType::kF32 || !rounds) {
    return Status::Error(Code::kInvalidArgument, "weight \"%s\" is %s, the plan has it as %s%s",
                         value.name.c_str(), Name(value.dtype), Name(buffer.dtype),
                         rounds ? " and can round it from f32" : "");
  }
  for (int64_t i = 0; i < value.shape.elements(); ++i) {
    const float element = scalar::Load<float>(DType::kF32, value.bytes.data(), i);
    scalar::Store(buffer.dtype, out, i, element);
    if (std::isfinite(element) && !std::isfinite(scalar::Load<float>(buffer.dtype, out, i))) {
      return Status::Error(Code::kOutOfRange, "weight \"%s\": element %lld, %g, is beyond the plan's %s",
                           value.name.c_str(), static_cast<long long>(i), static_cast<double>(element),
                           Name(buffer.dtype));
    }
  }
  return Status::Ok();
}

std::string FixedWeightNote(const WeightValue& value) {
  const std::string_view bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  char digest[32];
  std::snprintf(digest, sizeof(digest), "%016llx", static_cast<unsigned long long>(SyntheticKey(0, bytes)));
  return std::string(kFixed) + value.name + "\": " + TypeText(value.dtype, value.shape) + " " + digest;
}

Status CheckFixedWeight(const PlanData& plan, const WeightValue& value) {
  const std::string note = FixedWeightNote(value), begin = std::string(kFixed) + value.name + "\": ";
  bool known = false;
  for (std::string_view source : plan.sources) {
    if (source == note) return Status::Ok();
    known |= source.substr(0, begin.size()) == begin;
  }
  return Status::Error(Code::kInvalidArgument,
                       known
                           ? "weight \"%s\" is another than the plan was compiled with, and the compiler has "
                             "built its value into the plan: compile the model anew"
                           : "the plan has no weight \"%s\"",
                       value.name.c_str());
}

}  // namespace rondo
