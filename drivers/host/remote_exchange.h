// RemoteExchange: computes a collective between ranks that are each in a process of their own.
#pragma once

#include <cstdint>
#include <memory>

#include "core/driver.h"
#include "drivers/host/exchange.h"
#include "drivers/processes/processes.h"

namespace rondo::host {

// For one program of one session. Gives the same bits as Exchange: sums are formed in rank order. Large
// all-reduces are split: each process sums one part for all. Not thread-safe.
class RemoteExchange {
 public:
  // `number` identifies a program of a session within a driver, and is the same in all processes. Null when
  // out of memory.
  static RemoteExchange* Create(const rondo::Program& program, uint64_t number, Processes& processes,
                                const Engine& engine, ThreadPool& pool);

  // Called when a run begins.
  void Begin() { ++run_; }
  // Does this process's part in one sync point. Allocates nothing.
  Status Run(const CollectivePart& part, const RankMemory& memory);

 private:
  RemoteExchange(uint64_t number, Processes& processes, const Engine& engine, ThreadPool& pool)
      : number_(number), processes_(processes), engine_(engine), pool_(pool) {}
  bool Allocate(const rondo::Program& program);
  Status AllReduceInParts(const CollectivePart& part, const RankMemory& memory);
  // Phase `phase` of a collective: sends `send(rank)` to each rank and receives `take(rank)` from it; both
  // are pairs of address and bytes.
  template <typename S, typename T>
  Status Trade(const CollectivePart& part, uint64_t phase, S send, T take);

  const uint64_t number_;
  Processes& processes_;
  const Engine& engine_;
  ThreadPool& pool_;
  std::unique_ptr<char[]> scratch_;  // received data, before it is summed
  uint64_t run_ = 0;
};

}  // namespace rondo::host
