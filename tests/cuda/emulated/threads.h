// The running threads of a kernel, one cluster at a time: what each waits for, and the state that a warp, a
// warpgroup, a block and a cluster share. Plain data; simt_machine.h works on it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/cuda/emulated/fiber.h"
#include "tests/cuda/emulated/simt.h"

namespace rondo::emulated {

struct Block;
struct Warp;

// The condition that a thread waits for; `what` is its name in the report of a deadlock.
struct Wait {
  const char* what = nullptr;
  const uint64_t* counter = nullptr;  // waits until it differs from `was`
  uint64_t was = 0;
  uint32_t barrier = 0;  // without a counter: waits until this mbarrier's phase of that parity is complete
  bool parity = false;
};

struct Thread {
  simt::ThreadView view;
  Block* block = nullptr;
  Warp* warp = nullptr;
  uint32_t lane = 0;
  bool done = false, waits = false;
  Wait wait;
  Fiber* fiber = nullptr;
  uint64_t cluster_phase = 0;  // the cluster barrier's phase at this thread's arrival
  // Copies that are in no group yet, and groups that the thread has not waited for.
  struct CopyGroups {
    using Copies = std::vector<std::function<void()>>;
    Copies open;
    std::deque<Copies> committed;
  };
  CopyGroups copies, stores;  // of cp.async; of boxes from shared memory
  // wgmma: the number of instructions begun, and that number at the commit of each group not yet waited for.
  uint64_t wgmma_begun = 0;
  std::deque<uint64_t> wgmma_groups;
};

// Lanes that have reached a common operation. The last one computes it for all.
struct Meeting {
  const void* what = nullptr;  // an operation, or an instruction's text
  uint32_t mask = 0, came = 0;
};

struct Warp {
  Thread* threads = nullptr;
  uint32_t lanes = 0;
  std::vector<Meeting> meetings;
  uint64_t met[32] = {};     // number of meetings, by lane
  uint64_t values[32] = {};  // the arrived lanes' values, then each lane's result
  uint32_t others[32] = {};
  const simt::Operand* operands[32] = {};
};

// Four warps and the wgmma instructions that they began, which run when a thread waits for them.
struct Warpgroup {
  const char* what = nullptr;
  uint32_t came = 0;
  uint64_t met = 0;
  std::vector<std::vector<simt::Operand>> operands{128};
  std::deque<std::function<void()>> begun;
  uint64_t run = 0;  // number of instructions already run, before those in `begun`
};

struct NamedBarrier {
  uint32_t came = 0, count = 0;
  uint64_t passed = 0;
  bool any = false, result = false;  // of __syncthreads_or
};

struct Block {
  uint32_t rank = 0;  // in its cluster
  char* dynamic_shared = nullptr;
  std::vector<char> static_shared;  // holds it while another block's is in the library's section
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> groups;
  NamedBarrier barriers[16];
  uint32_t live = 0;  // threads that are not done
};

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  uint32_t came = 0, live = 0;
  uint64_t passed = 0;                       // passes of its barrier
  std::deque<std::function<void()>> copies;  // TMA copies in flight
};

}  // namespace rondo::emulated
