// FakeSmall: the kernels of small collectives on fake_cuda's GPUs. Their threads run the source that GPUs run
// (drivers/cuda/peer_collectives/exchange.h, norm.h).
#pragma once

#include <cstdint>

namespace rondo {

class FakeSmall {
 public:
  FakeSmall();
  ~FakeSmall();
  FakeSmall(const FakeSmall&) = delete;
  FakeSmall& operator=(const FakeSmall&) = delete;
};

// The number of collectives completed so far that also computed a norm.
uint64_t CountSmallNorms();
// The number of collectives completed so far.
uint64_t CountSmallCollectives();
// From now on each collective reports that it has waited too long for rank 1 (false: no longer).
void SetSmallLate(bool late);

}  // namespace rondo
