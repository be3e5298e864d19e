// What a plan that was accepted computes, and whether that depends on memory that nobody wrote or on order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/driver.h"
#include "runtime/plan.h"

namespace rondo::defects {

// Of one run of every program: all outputs and states, or how the run failed.
struct Results {
  std::vector<uint8_t> bytes;
  std::string error;
  bool operator==(const Results& other) const { return bytes == other.bytes && error == other.error; }
};

// The same runs on virtual devices in several ways: with one poison or another in everything that a run
// should write before it reads it, step by step or as graphs, in the plan's order or in others that its
// streams, events and collectives allow. Not copyable; single-threaded.
class EffectRunner {
 public:
  explicit EffectRunner(uint32_t devices);
  ~EffectRunner();
  EffectRunner(const EffectRunner&) = delete;

  // The results of all ways, or an error when the plan cannot be armed.
  Result<std::vector<Results>> Run(const Plan& plan);
  // One that does nothing late, wrong or in another order.
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
