// Writer: CUDA C++ text, appended line by line, and the spelling of numbers and names. Internal to
// compiler/codegen/cuda.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/kernel.h"

namespace rondo::cuda {

// Knows nothing of kernels: it only appends.
class Writer {
 public:
  void Line(std::string_view line) {
    text_ += line;
    text_ += '\n';
  }
  void Close(size_t blocks) {
    for (size_t b = 0; b < blocks; ++b) Line("}");
  }
  // Notes that the text needs a device header (device_headers.h), named without .cuh.
  void Include(std::string_view header) { headers_.emplace(header); }
  const std::string& text() const { return text_; }
  const std::set<std::string>& headers() const { return headers_; }

 private:
  std::string text_;
  std::set<std::string> headers_;
};

template <std::integral T>
std::string Text(T n) {
  return std::to_string(n);
}
inline std::string Truth(bool b) { return b ? "true" : "false"; }

// The counter of a loop: "i3".
inline std::string Counter(size_t loop) { return "i" + std::to_string(loop); }
// An accumulator: "acc0".
inline std::string Accumulator(size_t j) { return "acc" + std::to_string(j); }

// "float", "double" or "i64".
const char* TypeText(TapeType type);
// Whether T is an aggregate of ints only.
template <typename T>
constexpr bool IsAllInts() {
  return []<size_t... I>(std::index_sequence<I...>) {
    return sizeof(T) % sizeof(int) == 0 && requires(int n) { T{(static_cast<void>(I), n)...}; };
  }
  (std::make_index_sequence<sizeof(T) / sizeof(int)>());
}
// "TileMatmul{128, 64, ...}": an object of a struct that device code shares through the same header
// (device/tile_layout.h and others), field by field in order.
template <typename T>
requires(IsAllInts<T>()) std::string Aggregate(std::string_view name, const T& object) {
  std::string text = std::string(name) + "{";
  for (int field : std::bit_cast<std::array<int, sizeof(T) / sizeof(int)>>(object))
    text += (text.back() == '{' ? "" : ", ") + std::to_string(field);
  return text + "}";
}

// A 64-bit literal, negative ones in parentheses.
std::string IntText(int64_t value);
// A number of that floating type, to the bit.
std::string NumberText(double value, TapeType type);
// "offset + stride * iK + ...": an affine function of the loops. `strides`: one for each loop of the part.
std::string AffineText(int64_t offset, Span<const int64_t> strides);

}  // namespace rondo::cuda
