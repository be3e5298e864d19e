// A libnccl.so.2 over fake_cuda's GPUs. Collectives meet as NCCL's do, one after another in each
// communicator. A call on which NCCL would crash ends the process here too: drivers must not make such calls.
#pragma once

#include <cstdint>
#include <string>

#include "drivers/nccl/nccl_api.h"
#include "tests/cuda/fake/fake_cuda.h"

namespace rondo::fake_nccl {

struct Library {
  int version = nccl::Version(2, 31, 2);
  // How many queries find a connecting rank, or a rank that has enqueued a collective, still in progress.
  uint32_t late_connecting = 0, late_enqueueing = 0;
  bool never_ends = false;  // collectives run until they are aborted
};
RONDO_FAKE_API void SetLibrary(const Library& library);

// Counts calls that can fail, from 0, and fails the `fail`-th, at once or when its state is queried.
RONDO_FAKE_API void Arm(uint64_t fail, bool at_once);
struct Count {
  uint64_t calls = 0;
  bool fired = false;
  std::string failed;  // the name of the function that failed
};
RONDO_FAKE_API Count Disarm();

// The number of ranks of communicators that exist now, and the configuration of the last one made, with the
// fields that NCCL's version reads.
RONDO_FAKE_API int64_t HeldRanks();
RONDO_FAKE_API nccl::Config LastConfig();

}  // namespace rondo::fake_nccl
