#include "tests/fuzz/target.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rondo::fuzz {

const std::vector<std::string>& TargetNames() {
  static const std::vector<std::string> kNames = {"plan",        "onnx",         "npy",    "tensor_proto",
                                                  "safetensors", "machine_code", "profile"};
  return kNames;
}

std::unique_ptr<Target> MakeTarget(const std::string& name) {
  using Maker = std::unique_ptr<Target> (*)();
  constexpr Maker kMakers[] = {PlanTarget,        OnnxTarget,        NpyTarget,    TensorProtoTarget,
                               SafetensorsTarget, MachineCodeTarget, ProfileTarget};
  for (size_t i = 0; i < TargetNames().size(); ++i) {
    if (TargetNames()[i] == name) return kMakers[i]();
  }
  return nullptr;
}

Bytes MutateBytes(Span<const uint8_t> input, Random& random) {
  Bytes bytes(input.begin(), input.end());
  for (uint64_t edits = 1 + random.Below(3); edits > 0; --edits) {
    const size_t at = random.Below(bytes.size() + 1);
    const size_t count = std::min<size_t>(bytes.size() - at, 1 + random.Below(16));
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.Below(8)) {
      case 0:
      case 1:
        if (at < bytes.size()) bytes[at] ^= static_cast<uint8_t>(1u << random.Below(8));
        break;
      case 2:
        if (at < bytes.size()) bytes[at] = static_cast<uint8_t>(random.Next());
        break;
      case 3: {
        const uint64_t number = static_cast<uint64_t>(random.Integer(1));
        const size_t length = std::min<size_t>(bytes.size() - at, 1u << random.Below(4));
        if (length != 0) std::memcpy(bytes.data() + at, &number, length);
        break;
      }
      case 4: bytes.insert(first, 1 + random.Below(8), static_cast<uint8_t>(random.Next())); break;
      case 5: bytes.erase(first, first + static_cast<std::ptrdiff_t>(count)); break;
      case 6: {
        const Bytes piece(first, first + static_cast<std::ptrdiff_t>(count));
        bytes.insert(first, piece.begin(), piece.end());
        break;
      }
      default:
        if (random.OneIn(4)) bytes.resize(at);
        break;
    }
  }
  return bytes;
}

Bytes MutateNumbers(Span<const uint8_t> input, size_t text, Random& random) {
  Bytes bytes(input.begin(), input.end());
  std::vector<size_t> digits;
  for (size_t i = 0; i < std::min(bytes.size(), text); ++i) {
    if (bytes[i] >= '0' && bytes[i] <= '9') digits.push_back(i);
  }
  if (digits.empty() || random.OneIn(2)) return MutateBytes(input, random);
  const size_t at = digits[random.Below(digits.size())];
  const std::string number = std::to_string(random.Integer(bytes[at] - '0'));
  if (random.OneIn(2)) {
    bytes[at] = static_cast<uint8_t>('0' + random.Below(10));
  } else {
    bytes[at] = static_cast<uint8_t>(number[0]);
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at) + 1, number.begin() + 1, number.end());
  }
  return bytes;
}

void Broken(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::fputs("broken promise: ", stderr);
  std::vfprintf(stderr, format, args);
  std::fputc('\n', stderr);
  va_end(args);
  std::abort();
}

}  // namespace rondo::fuzz
