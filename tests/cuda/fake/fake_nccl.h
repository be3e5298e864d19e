// A libnccl.so.2 over fake_cuda's GPUs: what tests can make of it. Collectives meet as NCCL's do, one after
// another in each communicator. What NCCL would crash on ends the process here too: drivers ask it for
// nothing of the kind.
#pragma once

#include <cstdint>
#include <string>

#include "drivers/nccl/nccl_api.h"
#include "tests/cuda/fake/fake_cuda.h"

namespace rondo::fake_nccl {

struct Library {
  int version = nccl::Version(2, 31, 2);
  // How often a rank that connects, and one that has enqueued a collective, is still in progress when asked.
  uint32_t late_connecting = 0, late_enqueueing = 0;
  bool never_ends = false;  // collectives run until they are aborted
};
RONDO_FAKE_API void SetLibrary(const Library& library);

// Counts calls that can fail, from 0 on, and fails the `fail`-th, at once or when its state is asked for.
RONDO_FAKE_API void Arm(uint64_t fail, bool at_once);
struct Count {
  uint64_t calls = 0;
  bool fired = false;
  std::string failed;  // the name of the function that failed
};
RONDO_FAKE_API Count Disarm();

// Communicators' ranks that exist now, and how the last one was made: with fields that NCCL's version reads.
RONDO_FAKE_API int64_t HeldRanks();
RONDO_FAKE_API nccl::Config LastConfig();

}  // namespace rondo::fake_nccl
