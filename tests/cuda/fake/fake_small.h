// FakeSmall: the kernels of small collectives on fake_cuda's GPUs: what each of their threads does is the
// source that GPUs run (drivers/cuda/peer_collectives/exchange.h, norm.h).
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

// Of those that have come to their end so far, how many went on with a norm.
uint64_t CountSmallNorms();
// Collectives that have come to their end so far.
uint64_t CountSmallCollectives();
// From now on each says that it has waited too long for rank 1 (false: no more).
void SetSmallLate(bool late);

}  // namespace rondo
