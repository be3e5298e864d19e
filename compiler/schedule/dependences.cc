#include "compiler/schedule/dependences.h"

#include <algorithm>
#include <utility>

namespace rondo {

Dependences::Dependences(const LoweredProgram& program)
    : before(program.ops.size()), after(program.ops.size()) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    before[i] = program.ops[i].deps;
    std::sort(before[i].begin(), before[i].end());
    before[i].erase(std::unique(before[i].begin(), before[i].end()), before[i].end());
    for (int d : before[i]) after[static_cast<size_t>(d)].push_back(static_cast<int>(i));
  }
}

Dependences Dependences::Reversed() const {
  Dependences reversed;
  reversed.before.assign(after.rbegin(), after.rend());
  reversed.after.assign(before.rbegin(), before.rend());
  for (auto* lists : {&reversed.before, &reversed.after}) {
    for (std::vector<int>& list : *lists) {
      for (int& op : list) op = count() - 1 - op;
      std::reverse(list.begin(), list.end());
    }
  }
  return reversed;
}

void Dependences::TurnBack(std::vector<int>* order) {
  std::reverse(order->begin(), order->end());
  for (int& op : *order) op = static_cast<int>(order->size()) - 1 - op;
}

Dependences Dependences::Part(int first, int end) const {
  Dependences part;
  part.before.resize(static_cast<size_t>(end - first));
  part.after.resize(part.before.size());
  for (int op = first; op < end; ++op) {
    for (int d : before[static_cast<size_t>(op)]) {
      if (d < first) continue;
      part.before[static_cast<size_t>(op - first)].push_back(d - first);
      part.after[static_cast<size_t>(d - first)].push_back(op - first);
    }
  }
  return part;
}

std::vector<int> Dependences::Seams() const {
  // Every op before `op` precedes it if each of them has a direct successor no later than `op`: the chain of
  // successors then ends at `op`. Likewise for the ops after it.
  const int n = count();
  std::vector<char> all_precede(before.size(), 0);
  int latest = -1;
  for (int op = 0; op < n; ++op) {
    const size_t o = static_cast<size_t>(op);
    all_precede[o] = latest <= op ? 1 : 0;
    latest = std::max(latest, after[o].empty() ? n : after[o].front());
  }
  std::vector<int> seams;
  int earliest = n;
  for (int op = n - 1; op > 0; --op) {
    const size_t o = static_cast<size_t>(op);
    if (all_precede[o] != 0 && earliest >= op) seams.push_back(op);
    earliest = std::min(earliest, before[o].empty() ? -1 : before[o].back());
  }
  seams.push_back(0);
  std::reverse(seams.begin(), seams.end());
  seams.push_back(n);
  return seams;
}

}  // namespace rondo
