// ReadyOps: the state of running a program op by op, forwards and back: live bytes and ready ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {

// Not thread-safe.
class ReadyOps {
 public:
  // Nothing has run. Both must outlive this.
  ReadyOps(const MemoryModel& model, const Dependences& deps);

  // The ops that may run next, in an arbitrary order, which is the same after the same calls.
  const std::vector<int>& ready() const { return ready_; }
  // What has run, in order.
  const std::vector<int>& ran() const { return ran_; }
  int64_t live() const { return live_.live(); }
  LiveBytes::Effect Try(int op) const { return live_.Try(op); }

  // Runs a ready op; ops that become ready are appended to ready().
  void Run(int op);
  // Undoes all but the first `count` of ran().
  void Rewind(size_t count);

 private:
  void Remove(int op);
  void Add(int op);
  const Dependences& deps_;
  LiveBytes live_;
  std::vector<int> waiting_;        // by op: the number of its dependences that have not run
  std::vector<int> ready_, place_;  // place_: by op, its index in ready_
  std::vector<int> ran_;
  std::vector<int64_t> before_;  // for each op of ran_: the live bytes before it
};

}  // namespace rondo
