// A sharded model and its twin on one device, with the same inputs and states, run after run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/tensor/tensor.h"
#include "tests/e2e/harness.h"
#include "tests/temporary_folder.h"

namespace rondo {

// The model, its sharding, and the largest distance from its twin.
struct TwinCase {
  std::string name;
  // The twin's options, its model's files written to `folder`.
  std::function<CompileOptions(const TemporaryFolder& folder)> model;
  uint32_t tensor = 1, stages = 1;
  Weights weights = Weights::kDivide;
  // The most for any output or state after a run: the norm of the differences over the norm of the twin's
  // values. 0: equal to the bit.
  double tolerance = 0;
  int64_t first = 0;  // the position at which the first run begins, for models with an input "positions"
  double share = 1;   // the most that a device may hold of the twin's weights
  uint32_t devices() const { return tensor * stages; }
};
inline std::string NameOf(const TwinCase& of) { return of.name; }

// For f32 numbers, summed in another order.
inline constexpr double kApartF32 = 1e-5;
// For decoders of two layers in bf16. The root mean square of a rounding is 8e-4 of a number (at most half a
// unit in the last place, which is 2^-8 to 2^-7 of the number). A sum of N parts is rounded 2 N - 1 times,
// which makes sqrt(1 + N / 2) of that. Two layers have 4 such sums, and after them some 30 values that each
// of the two plans rounds again: sqrt(2 * (30 + 4 * 5)) * 8e-4 is 0.8 % with 8 devices. Twice that is
// allowed; a share at the wrong place makes it more than 10 %.
inline constexpr double kApartTwoLayersBF16 = 1.0 / 64;

// Runs both three times and compares their results. Outputs of all devices must be equal to the bit. Outputs,
// and joined states where the twin's run changed them, must be within the tolerance of the twin's; elements
// that the twin did not change must be unchanged to the bit. No device holds more than its share of the
// weights. `devices` of `driver` has one for each of the case's; the twin runs on the first.
void ExpectTwins(const TwinCase& of, const char* target, Driver& driver,
                 const std::vector<uint32_t>& devices);

// Compares the same model on one device of two drivers.
void ExpectSameOnBoth(const TwinCase& of, Driver& one, const char* target_of_one, Driver& other,
                      const char* target_of_other);

// Cases small enough for any machine, each for one feature: padded heads, experts, packed weights, lookups in
// tables that no device holds whole, gathered weights, stages, small Llamas of two layers.
std::vector<TwinCase> SmallTwins();

// The first two layers, at full width, of each graph that RONDO_LLAMA_GRAPHS names (paths, separated by
// commas), on `devices` devices; of a small LlamaModel of four layers if the variable is not set.
std::vector<TwinCase> BenchTwins(uint32_t devices);

}  // namespace rondo
