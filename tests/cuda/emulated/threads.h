// The threads of a kernel that run now, one cluster at a time: what each is waiting for, and what those of a
// warp, a warpgroup, a block and a cluster have in common. Plain data; simt_machine.h works on it.
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

// What a thread waits for, if it does; `what` is for who reads of a deadlock.
struct Wait {
  const char* what = nullptr;
  const uint64_t* counter = nullptr;  // until it is another than `was`
  uint64_t was = 0;
  uint32_t barrier = 0;  // or, without a counter: until this mbarrier's phase of that parity is complete
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
  uint64_t cluster_phase = 0;  // of the cluster's barrier, when it arrived there
  // cp.async: copies that no group has yet, and groups that nobody has waited for.
  using Copies = std::vector<std::function<void()>>;
  Copies open_copies;
  std::deque<Copies> copy_groups;
  // wgmma: how many it began, and how many when it committed each group that it has not waited for.
  uint64_t wgmma_begun = 0;
  std::deque<uint64_t> wgmma_groups;
};

// Lanes that came to something which lanes do together. The last one does it for all.
struct Meeting {
  const void* what = nullptr;  // an operation, or an instruction's text
  uint32_t mask = 0, came = 0;
};

struct Warp {
  Thread* threads = nullptr;
  uint32_t lanes = 0;
  std::vector<Meeting> meetings;
  uint64_t met[32] = {};     // how often, by lane
  uint64_t values[32] = {};  // of lanes that came, then what each gets
  uint32_t others[32] = {};
  const simt::Operand* operands[32] = {};
};

// Four warps and the instructions of wgmma that they began, which run when somebody waits for them.
struct Warpgroup {
  const char* what = nullptr;
  uint32_t came = 0;
  uint64_t met = 0;
  std::vector<std::vector<simt::Operand>> operands{128};
  std::deque<std::function<void()>> begun;
  uint64_t run = 0;  // so many have been run, before those in `begun`
};

struct NamedBarrier {
  uint32_t came = 0, count = 0;
  uint64_t passed = 0;
  bool any = false, result = false;  // of __syncthreads_or
};

struct Block {
  uint32_t rank = 0;  // in its cluster
  char* dynamic_shared = nullptr;
  std::vector<char> static_shared;  // while another block's lies in the library's section
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> groups;
  NamedBarrier barriers[16];
  uint32_t live = 0;  // threads that are not done
};

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  uint32_t came = 0, live = 0;
  uint64_t passed = 0;                       // of its barrier
  std::deque<std::function<void()>> copies;  // of TMA, begun and on their way
};

}  // namespace rondo::emulated
