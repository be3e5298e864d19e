// The results of an accepted plan, and whether they depend on memory that no step wrote or on order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/driver.h"
#include "runtime/plan.h"

namespace rondo::defects {

// The results of one run of every program: all outputs and states, or the error.
struct Results {
  std::vector<uint8_t> bytes;
  std::string error;
  bool operator==(const Results& other) const { return bytes == other.bytes && error == other.error; }
};

// Runs the programs on virtual devices in several ways: with one of two poisons in all memory that a run
// should write before it reads it, step by step or as graphs, in the plan's order or in others that its
// streams, events and collectives allow. Not copyable; single-threaded.
class EffectRunner {
 public:
  explicit EffectRunner(uint32_t devices);
  ~EffectRunner();
  EffectRunner(const EffectRunner&) = delete;

  // The results of all ways, or an error if the plan cannot be armed.
  Result<std::vector<Results>> Run(const Plan& plan);
  // The driver of the first way, which runs in order, without delays or faults.
  Driver* driver() const { return ways_[0].driver; }

 private:
  struct Way {
    Driver* driver = nullptr;
    uint8_t poison = 0;
    bool stepwise = false;
  };
  std::vector<Way> ways_;
};

}  // namespace rondo::defects
