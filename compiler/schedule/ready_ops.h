// ReadyOps: a program being run op by op: what lives, what may run next; forwards and back.
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

  // The ops that may run next, in no particular order, but always the same after the same calls.
  const std::vector<int>& ready() const { return ready_; }
  // What has run, in order.
  const std::vector<int>& ran() const { return ran_; }
  int64_t live() const { return live_.live(); }
  LiveBytes::Effect Try(int op) const { return live_.Try(op); }

  // Runs a ready op; what it makes ready stands at the end of ready().
  void Run(int op);
  // Takes back all but the first `count` of ran().
  void Rewind(size_t count);

 private:
  void Remove(int op);
  void Add(int op);
  const Dependences& deps_;
  LiveBytes live_;
  std::vector<int> waiting_;        // by op: what it depends on that is still to run
  std::vector<int> ready_, place_;  // place_: by op, where it stands in ready_
  std::vector<int> ran_;
  std::vector<int64_t> before_;  // one an op of ran_: what lived before it
};

}  // namespace rondo
