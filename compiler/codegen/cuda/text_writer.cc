#include "compiler/codegen/cuda/text_writer.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace rondo::cuda {

const char* TypeText(TapeType type) {
  return type == TapeType::kF32 ? "float" : type == TapeType::kF64 ? "double" : "i64";
}

std::string NumberText(double value, TapeType type) {
  char text[64];
  if (type == TapeType::kF32) {
    float f = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &f, sizeof(bits));
    std::snprintf(text, sizeof(text), "bits_float(0x%08xu)", bits);
  } else {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    std::snprintf(text, sizeof(text), "__longlong_as_double((i64)0x%016" PRIx64 "ull)", bits);
  }
  return text;
}

std::string IntText(int64_t value) {
  char text[40];
  // The least number has no literal of its own.
  if (value == INT64_MIN) return "((i64)0x8000000000000000ull)";
  std::snprintf(text, sizeof(text), value < 0 ? "(%" PRId64 "ll)" : "%" PRId64 "ll", value);
  return text;
}

std::string AffineText(int64_t offset, Span<const int64_t> strides) {
  std::string out = IntText(offset);
  for (size_t l = 0; l < strides.size(); ++l) {
    if (strides[l] != 0) out += " + " + IntText(strides[l]) + " * " + Counter(l);
  }
  return out;
}

}  // namespace rondo::cuda
