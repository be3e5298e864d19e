// Target: one parser, or chain of them, that is given damaged input.
//
// Targets are used by one thread at a time. Run must return for any bytes. A sanitizer's report, a limit of
// memory or time, or a broken promise (Broken) ends the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/span.h"
#include "tests/fuzz/random.h"

namespace rondo::fuzz {

using Bytes = std::vector<uint8_t>;

struct Seed {
  std::string name;  // of its file in the corpus, "" if none
  Bytes bytes;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual const char* name() const = 0;
  // The stages that an input can reach, in order; each input ends at one of them.
  virtual Span<const char* const> stages() const = 0;
  // Feeds `input` to the code under test; returns the stage it ended at.
  virtual size_t Run(Span<const uint8_t> input) = 0;
  // A damaged form of `input`. `input` may be invalid itself.
  virtual Bytes Mutate(Span<const uint8_t> input, Random& random) = 0;
  // Small valid inputs, made here so that they always have the current formats.
  virtual std::vector<Seed> MakeSeeds() = 0;
};

std::unique_ptr<Target> PlanTarget();         // formats/plan, runtime, drivers/host
std::unique_ptr<Target> OnnxTarget();         // formats/onnx, the compiler, then as a plan
std::unique_ptr<Target> NpyTarget();          // formats/tensor
std::unique_ptr<Target> TensorProtoTarget();  // formats/tensor
std::unique_ptr<Target> SafetensorsTarget();  // formats/tensor
std::unique_ptr<Target> MachineCodeTarget();  // formats/machine_code
std::unique_ptr<Target> ProfileTarget();      // tools/rondo/profile.h, and its notes in plans

// By name ("plan", "onnx", "npy", "tensor_proto", "safetensors", "machine_code", "profile"); null when there
// is none.
std::unique_ptr<Target> MakeTarget(const std::string& name);
const std::vector<std::string>& TargetNames();

// Byte-level damage: flips, overwrites, inserts, removes, repeats, cuts.
Bytes MutateBytes(Span<const uint8_t> input, Random& random);

// The same, or replaces one number in the first `text` bytes, which are text.
Bytes MutateNumbers(Span<const uint8_t> input, size_t text, Random& random);

// Prints the promise that the current input broke and ends the process.
[[noreturn]] void Broken(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rondo::fuzz
