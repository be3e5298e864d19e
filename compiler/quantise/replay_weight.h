// WeightReplay: what the compiler does to a live weight, done to other values of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/packed.h"
#include "formats/plan/live_weights.h"

namespace rondo {

// Keeps the last weight that it has packed, for the buffers that hold the rest of it. One thread at a time.
class WeightReplay {
 public:
  // As BytesOfWeight, of packed weights as well: those are always in `room`. kInvalidArgument, too, for a
  // weight that the compiler would not pack: with a number that is not finite, or of which nothing would be
  // left.
  Result<Span<const uint8_t>> BytesOf(const WeightValue& value, const LiveWeight& weight,
                                      const Buffer& buffer, std::vector<uint8_t>* room);

 private:
  Status Pack(const WeightValue& value, const LiveWeight& weight);

  const uint8_t* packed_ = nullptr;  // the value's bytes
  WeightPacking packing_;
  std::shared_ptr<const ir::PackedMatrix> matrix_;
};

}  // namespace rondo
