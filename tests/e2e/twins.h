// A model shared out over devices and its twin on one: the same inputs and states, run after run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/tensor/tensor.h"
#include "tests/e2e/harness.h"
#include "tests/temporary_folder.h"

namespace rondo {

// What is shared out, how, and how far it may be from its twin.
struct TwinCase {
  std::string name;
  // The twin's options, its model's files written to `folder`.
  std::function<CompileOptions(const TemporaryFolder& folder)> model;
  uint32_t tensor = 1, stages = 1;
  Weights weights = Weights::kDivide;
  // Of what a run leaves in an output or a state: the norm of the differences over that of the twin's
  // numbers. 0: the same bits.
  double tolerance = 0;
  int64_t first = 0;  // the first run's first position, of models that have an input "positions"
  double share = 1;   // of the twin's weights, that a device may hold at most
  uint32_t devices() const { return tensor * stages; }
};
inline std::string NameOf(const TwinCase& of) { return of.name; }

// Numbers of 32 bits, summed in another order.
inline constexpr double kApartF32 = 1e-5;
// Decoders of two layers in bf16, whose roundings are 8e-4 of a number (root mean square: half a unit in the
// last place at most, of 2^-8 to 2^-7 of it). A sum of N parts is rounded 2 N - 1 times, which makes sqrt(1 +
// N / 2) of that; two layers have 4 such sums and some 30 values behind them that are rounded again, either
// plan by itself: sqrt(2 * (30 + 4 * 5)) * 8e-4 is 0.8 % with 8 devices. Twice that is allowed; a share at
// the wrong place makes it more than 10 %.
inline constexpr double kApartTwoLayersBF16 = 1.0 / 64;

// Runs both three times and compares all they leave: outputs of all devices to the bit, with each other;
// with the twin's, and states, whole again, as far as the twin's run changed them, within the tolerance;
// what it did not change to the bit. No device holds more than its share of the weights. `devices` of
// `driver`, one for each of the case's; the twin has the first.
void ExpectTwins(const TwinCase& of, const char* target, Driver& driver,
                 const std::vector<uint32_t>& devices);

// The same model on one device of two drivers.
void ExpectSameOnBoth(const TwinCase& of, Driver& one, const char* target_of_one, Driver& other,
                      const char* target_of_other);

// Cases small enough to be tried anywhere, by what is to be right: heads that are padded, experts, packed
// weights, lookups in tables that are nowhere whole, gathered weights, stages, small Llamas of two layers.
std::vector<TwinCase> SmallTwins();

// The first two layers, of full width, of each graph that RONDO_LLAMA_GRAPHS names (paths, with commas
// between), on `devices` devices; of a small LlamaModel of four layers where it is not set.
std::vector<TwinCase> BenchTwins(uint32_t devices);

}  // namespace rondo
