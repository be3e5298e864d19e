#include "compiler/memory/stream_lives.h"

#include <algorithm>
#include <limits>

namespace rondo {

StreamLives::StreamLives(const LoweredProgram& program, const StreamOrder& order,
                         const std::vector<Life>& lives)
    : order_(order),
      begin_(lives.size() * order.streams(), std::numeric_limits<uint32_t>::max()),
      end_(lives.size() * order.streams(), 0),
      before_all_(lives.size(), false),
      after_all_(lives.size(), false) {
  const std::vector<Life> loops = LoopSteps(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    const int step = static_cast<int>(i);
    for (const LoweredBinding& param : op.params) {
      const size_t v = static_cast<size_t>(param.value);
      const bool whole_loop = op.loop >= 0 && !lives[v].local;
      const Life loop = whole_loop ? loops[static_cast<size_t>(op.loop)] : Life{step, order.End(step)};
      Use(v, loop.first, loop.last);
    }
  }
  const int last_step = static_cast<int>(program.ops.size()) - 1;
  for (size_t v = 0; v < program.values.size(); ++v) {
    before_all_[v] = IsInput(program.values[v].kind);
    after_all_[v] = IsOutput(program.values[v].kind);
    if (lives[v].used() || last_step < 0) continue;
    if (before_all_[v]) Use(v, 0, 0);
    if (after_all_[v]) Use(v, last_step, last_step);
  }
}

void StreamLives::Use(size_t v, int begin, int end) {
  for (size_t s = 0; s < order_.streams(); ++s) {
    begin_[Slot(v, s)] = std::min(begin_[Slot(v, s)], order_.Complete(begin, s));
  }
  uint32_t& over = end_[Slot(v, order_.stream(end))];
  over = std::max(over, order_.position(end) + 1);
}

bool StreamLives::Before(size_t a, size_t b) const {
  if (after_all_[a] || before_all_[b]) return false;
  for (size_t s = 0; s < order_.streams(); ++s) {
    if (begin_[Slot(b, s)] < end_[Slot(a, s)]) return false;
  }
  return true;
}

void StreamLives::Merge(size_t into, size_t other) {
  for (size_t s = 0; s < order_.streams(); ++s) {
    begin_[Slot(into, s)] = std::min(begin_[Slot(into, s)], begin_[Slot(other, s)]);
    end_[Slot(into, s)] = std::max(end_[Slot(into, s)], end_[Slot(other, s)]);
  }
  before_all_[into] = before_all_[into] || before_all_[other];
  after_all_[into] = after_all_[into] || after_all_[other];
}

int StreamLives::LastBeside(size_t v) const {
  int last = -1;
  for (size_t stream = 0; stream < order_.streams(); ++stream) {
    // The set of complete ops only grows along a stream.
    const std::vector<int>& ops = order_.OpsOn(stream);
    const auto beside = [&](int op) {
      bool over = !after_all_[v];
      for (size_t s = 0; over && s < order_.streams(); ++s) over = order_.Complete(op, s) >= end_[Slot(v, s)];
      return !over;
    };
    const auto end = std::partition_point(ops.begin(), ops.end(), beside);
    if (end != ops.begin()) last = std::max(last, *std::prev(end));
  }
  return last;
}

}  // namespace rondo
