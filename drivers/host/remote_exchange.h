// RemoteExchange: what a collective does with the bytes of its ranks, each in a process of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "core/driver.h"
#include "drivers/host/exchange.h"
#include "drivers/processes/processes.h"

namespace rondo::host {

// Of one program of one session. Gives the bits that Exchange gives: sums are formed in the order of the
// ranks. Large all-reduces are cut: each process sums a part for all. Not thread-safe.
class RemoteExchange {
 public:
  // `number` tells the programs of the sessions of a driver apart, and is the same on all processes. Null
  // when out of memory.
  static RemoteExchange* Create(const rondo::Program& program, uint64_t number, Processes& processes,
                                const Engine& engine, ThreadPool& pool);

  // A run begins.
  void Begin() { ++run_; }
  // This process's part in one sync point. Allocates nothing.
  Status Run(const CollectivePart& part, const RankMemory& memory);

 private:
  RemoteExchange(uint64_t number, Processes& processes, const Engine& engine, ThreadPool& pool)
      : number_(number), processes_(processes), engine_(engine), pool_(pool) {}
  bool Allocate(const rondo::Program& program);
  Status AllReduceInParts(const CollectivePart& part, const RankMemory& memory);
  // Phase `phase` of a collective: sends each rank `send(rank)`, and takes `take(rank)` from it: pairs of
  // address and bytes.
  template <typename S, typename T>
  Status Trade(const CollectivePart& part, uint64_t phase, S send, T take);

  const uint64_t number_;
  Processes& processes_;
  const Engine& engine_;
  ThreadPool& pool_;
  std::unique_ptr<char[]> scratch_;  // what others bring, before it is summed
  uint64_t run_ = 0;
};

}  // namespace rondo::host
