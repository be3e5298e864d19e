// Runs whose tensors lie in host and device memory in turn, against runs in host memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/e2e/harness.h"

namespace rondo {

using Bytes = std::vector<uint8_t>;

// Device memory for one tensor.
class Place {
 public:
  virtual ~Place() = default;
  // An address for the whole tensor, aligned to `alignment` (at most 4096) and not to much more.
  virtual void* At(size_t alignment) = 0;
  virtual void Write(void* at, const void* from) = 0;
  virtual Bytes Read(const void* at) = 0;
};
using MakePlace = std::function<std::unique_ptr<Place>(const Session& session, const Buffer& buffer)>;

// For every program of the model, `rounds` times: fills the inputs (floats with noise, integers with zeros),
// runs in host memory, then runs twice with a new random place for each tensor: host memory or one of two
// places in device memory, at any alignment. Some outputs are not requested, and some runs go step by step.
// State begins with zeros each time. The results must be the same to the bit. Two sessions of a model may be
// driven from two threads.
void ExpectSameAnywhere(LiveModel& model, Session& session, const MakePlace& make, uint32_t seed, int rounds);

}  // namespace rondo
