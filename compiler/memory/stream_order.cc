#include "compiler/memory/stream_order.h"

#include <algorithm>

namespace rondo {

void StreamOrder::NumberOps(const LoweredProgram& program) {
  const size_t count = program.ops.size();
  size_t streams = 1;
  for (const LoweredOp& op : program.ops) streams = std::max<size_t>(streams, op.stream + size_t{1});
  ops_on_.resize(streams);
  end_.resize(count);
  std::vector<int> start_of(program.collectives.size(), -1);
  for (size_t i = 0; i < count; ++i) {
    const LoweredOp& op = program.ops[i];
    const int number = static_cast<int>(i);
    stream_.push_back(op.stream);
    position_.push_back(static_cast<uint32_t>(ops_on_[op.stream].size()));
    ops_on_[op.stream].push_back(number);
    end_[i] = number;
    if (op.kind == LoweredKind::kCollectiveStart) start_of[Index(op.collective)] = number;
    if (op.kind == LoweredKind::kCollectiveWait) end_[Index(start_of[Index(op.collective)])] = number;
  }
}

// `op` begins after `earlier` and after everything that was complete when `earlier` began.
void StreamOrder::Join(int op, int earlier) {
  uint32_t* to = &clocks_[Index(op) * streams()];
  const uint32_t* from = &clocks_[Index(earlier) * streams()];
  for (size_t s = 0; s < streams(); ++s) to[s] = std::max(to[s], from[s]);
  uint32_t& own = to[stream(earlier)];
  own = std::max(own, position(earlier) + 1);
}

void StreamOrder::Follow(const LoweredProgram& program, int op) {
  if (position(op) > 0) Join(op, ops_on_[stream(op)][position(op) - 1]);
  std::vector<int> deps = program.ops[Index(op)].deps;
  // The driver orders a wait after its start, on whatever stream that is.
  if (program.ops[Index(op)].kind == LoweredKind::kCollectiveWait) {
    for (int d : deps) {
      if (end_[Index(d)] == op) Join(op, d);
    }
  }
  // Latest first: the others may be implied by it.
  std::sort(deps.begin(), deps.end(), std::greater<>());
  for (int d : deps) {
    if (Before(d, op)) continue;
    waits_[Index(op)].push_back(d);
    Join(op, d);
  }
}

StreamOrder::StreamOrder(const LoweredProgram& program) {
  NumberOps(program);
  waits_.resize(program.ops.size());
  clocks_.assign(program.ops.size() * streams(), 0);
  for (size_t i = 0; i < program.ops.size(); ++i) Follow(program, static_cast<int>(i));
}

}  // namespace rondo
