#include "compiler/schedule/ready_ops.h"

namespace rondo {

ReadyOps::ReadyOps(const MemoryModel& model, const Dependences& deps)
    : deps_(deps), live_(model), waiting_(deps.before.size()), place_(deps.before.size()) {
  for (size_t op = 0; op < waiting_.size(); ++op) {
    waiting_[op] = static_cast<int>(deps.before[op].size());
    if (waiting_[op] == 0) Add(static_cast<int>(op));
  }
}

void ReadyOps::Remove(int op) {
  const int last = ready_.back(), at = place_[static_cast<size_t>(op)];
  ready_[static_cast<size_t>(at)] = last;
  place_[static_cast<size_t>(last)] = at;
  ready_.pop_back();
}

void ReadyOps::Add(int op) {
  place_[static_cast<size_t>(op)] = static_cast<int>(ready_.size());
  ready_.push_back(op);
}

void ReadyOps::Run(int op) {
  Remove(op);
  before_.push_back(live_.live());
  ran_.push_back(op);
  live_.Run(op);
  for (int next : deps_.after[static_cast<size_t>(op)]) {
    if (--waiting_[static_cast<size_t>(next)] == 0) Add(next);
  }
}

void ReadyOps::Rewind(size_t count) {
  while (ran_.size() > count) {
    const int op = ran_.back();
    for (int next : deps_.after[static_cast<size_t>(op)]) {
      if (waiting_[static_cast<size_t>(next)]++ == 0) Remove(next);
    }
    live_.Undo(op, before_.back());
    before_.pop_back();
    ran_.pop_back();
    Add(op);
  }
}

}  // namespace rondo
